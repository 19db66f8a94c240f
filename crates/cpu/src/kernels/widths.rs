//! Loops over columns in blocks of constant widths, so that rows that are narrow or not a multiple of 64 wide have
//! vector code, too.

/// Runs the block for every block of columns: `$j` is its first column, and `$w` their number, a constant.
macro_rules! widths {
    ($c:expr, |$j:ident, $w:ident| $block:block) => {{
        let count: usize = $c;
        let mut $j = 0;
        $crate::kernels::widths::widths!(@ count, $j, $w, $block, 64, 32, 16, 8, 1);
    }};
    (@ $count:ident, $j:ident, $w:ident, $block:block, $($width:literal),+) => {
        $({
            const $w: usize = $width;
            while $j + $w <= $count {
                $block
                $j += $w;
            }
        })+
    };
}
pub(super) use widths;

/// Loads `W` elements.
///
/// # Safety
/// They are readable.
#[inline(always)]
pub(super) unsafe fn load<T: Copy, const W: usize>(x: *const T) -> [T; W] {
    // SAFETY: the caller's elements exist; `read_unaligned` needs no alignment.
    unsafe { x.cast::<[T; W]>().read_unaligned() }
}

/// Stores `W` elements.
///
/// # Safety
/// They are writable.
#[inline(always)]
pub(super) unsafe fn store<T: Copy, const W: usize>(x: *mut T, lanes: [T; W]) {
    // SAFETY: as above.
    unsafe { x.cast::<[T; W]>().write_unaligned(lanes) }
}
