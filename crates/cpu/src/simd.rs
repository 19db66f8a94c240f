//! Vector code without intrinsics: fixed chunks of `LANES` elements that LLVM vectorizes, and functions
//! compiled once per CPU level.
//!
//! A kernel's body is an `#[inline(always)]` function, generic over a `Level`. `dispatch!` makes the public
//! function: it compiles the body once for every level and picks the widest that kernels use when called.
//! Bodies load a chunk into a local array, compute there and store it. So outputs may lie exactly where inputs
//! lie, LLVM needs no alias checks, and results have the same bits at every level that has a fused multiply-add.
//!
//! Why 64 lanes: a loop of 64 is too long for LLVM to unroll before its vectorizer sees it. With 16 it
//! unrolls first and then vectorizes the surrounding loop with gathers, which is ten times slower.

pub use crate::cpu_set::{CpuSet, Feature};

/// Elements in a chunk.
pub(crate) const LANES: usize = 64;

/// The instructions that a kernel body may assume.
pub(crate) trait Level: Copy {
    /// Whether `mul_add` is one instruction.
    const FMA: bool;
    /// Elements of a vector register.
    const REGISTER: usize;

    /// For each of up to 64 numbers a bit: whether it is not below or equal to zero, NaN included.
    ///
    /// # Safety
    /// The CPU has the level's instructions.
    #[inline(always)]
    unsafe fn not_below_zero<const N: usize>(x: &[f32; N]) -> u64 {
        let mut bytes = [0; LANES];
        for i in 0..N {
            bytes[i] = u8::from((x[i] > 0.0) | x[i].is_nan());
        }
        let mut word = 0;
        for (i, eight) in bytes.chunks_exact(8).enumerate() {
            let eight = eight.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
            // Moves each bit to a place of its own in the highest byte.
            word |= (eight.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
        }
        word
    }
}

/// AVX-512 with F, VL, BW, DQ, CD.
#[derive(Clone, Copy)]
pub(crate) struct V4;
/// AVX2, FMA and POPCNT.
#[derive(Clone, Copy)]
pub(crate) struct V3;
/// The baseline of the compilation target.
#[derive(Clone, Copy)]
pub(crate) struct Baseline;

impl Level for V4 {
    const FMA: bool = true;
    const REGISTER: usize = 16;

    /// By the instruction for it, which LLVM does not find: eight times as fast.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn not_below_zero<const N: usize>(x: &[f32; N]) -> u64 {
        use std::arch::x86_64::{_CMP_NLE_UQ, _mm512_cmp_ps_mask, _mm512_loadu_ps, _mm512_setzero_ps};
        let mut word = 0;
        for (i, part) in x.chunks_exact(16).enumerate() {
            // SAFETY: the CPU has AVX-512, and the part has 16 numbers.
            let mask =
                unsafe { _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(_mm512_loadu_ps(part.as_ptr()), _mm512_setzero_ps()) };
            word |= u64::from(mask) << (16 * i);
        }
        word
    }
}
impl Level for V3 {
    const FMA: bool = true;
    const REGISTER: usize = 8;
}
impl Level for Baseline {
    const FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
    const REGISTER: usize = 4;
}

/// `a * b + c`, with one rounding where that is fast.
#[inline(always)]
pub(crate) fn fma<L: Level>(a: f32, b: f32, c: f32) -> f32 {
    if L::FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Defines a public function whose body is compiled for every CPU level:
/// `dispatch! { pub unsafe fn name[F: Trait](args) -> Ret = body; }` calls `body::<L, F>(args)`.
macro_rules! dispatch {
    ($($(#[$meta:meta])* $vis:vis unsafe fn $name:ident $([$($g:ident : $bound:path),*])?
        ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident;)*) => {$(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis unsafe fn $name $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx512cd,avx2,fma,bmi1,bmi2,popcnt")]
                unsafe fn v4 $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller keeps the contract of the public function, which is that of the
                    // body.
                    unsafe { $body::<$crate::simd::V4 $($(, $g)*)?>($($arg),*) }
                }
                #[target_feature(enable = "avx2,fma,bmi1,bmi2,popcnt")]
                unsafe fn v3 $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: as above.
                    unsafe { $body::<$crate::simd::V3 $($(, $g)*)?>($($arg),*) }
                }
                let used = $crate::simd::CpuSet::current();
                if used.has($crate::simd::Feature::Avx512) {
                    // SAFETY: only instructions that the machine was found to have are ever used; the rest as above.
                    return unsafe { v4 $(::<$($g),*>)? ($($arg),*) };
                }
                if used.has($crate::simd::Feature::Avx2) {
                    // SAFETY: as above.
                    return unsafe { v3 $(::<$($g),*>)? ($($arg),*) };
                }
            }
            // SAFETY: as above.
            unsafe { $body::<$crate::simd::Baseline $($(, $g)*)?>($($arg),*) }
        }
    )*};
}
pub(crate) use dispatch;

/// Runs the block for every chunk of `0..$c`: `$j` is its first element, `$len` its length. Full chunks come
/// first, and their length is a constant to the compiler, so that loads and stores of them become plain
/// vector ones.
macro_rules! chunks {
    ($c:expr, |$j:ident, $len:ident| $block:block) => {{
        let count: usize = $c;
        let mut $j = 0;
        while $j + $crate::simd::LANES <= count {
            let $len = $crate::simd::LANES;
            $block
            $j += $crate::simd::LANES;
        }
        if $j < count {
            let $len = count - $j;
            $block
        }
    }};
}
pub(crate) use chunks;

/// Asks for the cache line of an element, which need not exist, where the CPU can be asked.
#[inline(always)]
pub(crate) fn prefetch(x: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch changes nothing, and no address makes it fail.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(x.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = x;
}

/// Loads `len <= LANES` elements that lie `col` apart, the remaining lanes being `fill`.
///
/// # Safety
/// `p + i * col` is readable for `i < len`.
#[inline(always)]
pub(crate) unsafe fn load<T: Copy>(p: *const T, col: usize, len: usize, fill: T) -> [T; LANES] {
    // SAFETY: the caller's promise covers exactly the elements read; `read_unaligned` needs no alignment.
    unsafe {
        if col == 1 && len == LANES {
            return p.cast::<[T; LANES]>().read_unaligned();
        }
        let mut lanes = [fill; LANES];
        if col == 1 {
            std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), len);
        } else if col == 0 && len > 0 {
            lanes[..len].fill(*p);
        } else {
            for (i, lane) in lanes[..len].iter_mut().enumerate() {
                *lane = *p.add(i * col);
            }
        }
        lanes
    }
}

/// Stores the first `len <= LANES` lanes, `col` apart.
///
/// # Safety
/// `p + i * col` is writable for `i < len`.
#[inline(always)]
pub(crate) unsafe fn store<T: Copy>(p: *mut T, col: usize, len: usize, lanes: &[T; LANES]) {
    // SAFETY: the caller's promise covers exactly the elements written.
    unsafe {
        if col == 1 && len == LANES {
            p.cast::<[T; LANES]>().write_unaligned(*lanes);
        } else if col == 1 {
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), p, len);
        } else {
            for (i, lane) in lanes[..len].iter().enumerate() {
                *p.add(i * col) = *lane;
            }
        }
    }
}

/// Combines all lanes in a fixed tree: lane `i` with lane `i + n/2`, and so on.
#[inline(always)]
pub(crate) fn fold(lanes: [f32; LANES], combine: impl Fn(f32, f32) -> f32) -> f32 {
    // One array per level: in place, LLVM would go through memory at every level.
    macro_rules! halve {
        ($from:ident, $n:literal) => {{
            let mut half = [0.0; $n];
            for i in 0..$n {
                half[i] = combine($from[i], $from[i + $n]);
            }
            half
        }};
    }
    let a = halve!(lanes, 32);
    let a = halve!(a, 16);
    let a = halve!(a, 8);
    let a = halve!(a, 4);
    let a = halve!(a, 2);
    combine(a[0], a[1])
}

/// The sum of all lanes, in a fixed tree.
#[inline(always)]
pub(crate) fn sum(lanes: [f32; LANES]) -> f32 {
    fold(lanes, |a, b| a + b)
}

/// The larger; `b` if either is NaN. One instruction where the CPU has it.
#[inline(always)]
pub(crate) fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The larger; NaN if either is.
#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    if (a > b) | a.is_nan() { a } else { b }
}

/// The smaller; NaN if either is.
#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> f32 {
    if (a < b) | a.is_nan() { a } else { b }
}
