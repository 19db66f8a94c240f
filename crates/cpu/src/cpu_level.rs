//! CPU levels: which instructions the machine has, and which of them kernels use.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, Ordering};

use lessen_base::{Error, Result};

/// A CPU level, in ascending order of its instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum CpuLevel {
    /// The baseline of the compilation target: SSE2 on x86-64.
    Baseline = 1,
    /// x86-64-v3: AVX2 and FMA.
    V3 = 2,
    /// x86-64-v4: AVX-512 with F, VL, BW, DQ, CD.
    V4 = 3,
    /// The same with AVX-512 BF16 and VNNI.
    V4Bf16 = 4,
    /// The same with AMX, tiles of `bf16` and of bytes.
    Amx = 5,
}

impl CpuLevel {
    /// All levels, in ascending order.
    pub const ALL: [CpuLevel; 5] = [
        CpuLevel::Baseline,
        CpuLevel::V3,
        CpuLevel::V4,
        CpuLevel::V4Bf16,
        CpuLevel::Amx,
    ];

    /// The highest level that kernels use: that of this machine, or the one that the environment variable `LESSEN_CPU`
    /// names: `baseline`, `avx2`, `avx512`, `avx512bf16` or `amx`.
    pub fn detect() -> CpuLevel {
        match &*HIGHEST {
            Ok(level) => *level,
            Err(_) => CpuLevel::of_machine(),
        }
    }

    /// Checks `LESSEN_CPU`.
    ///
    /// # Errors
    /// One sentence, if the variable names no level, or one that the machine does not have.
    pub fn check_env() -> Result<()> {
        HIGHEST.clone().map(|_| ())
    }

    fn of_machine() -> CpuLevel {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let v3 = has!("avx2") && has!("fma") && has!("bmi1") && has!("bmi2") && has!("popcnt");
            let v4 = has!("avx512f") && has!("avx512vl") && has!("avx512bw") && has!("avx512dq") && has!("avx512cd");
            if v3 && v4 && has!("avx512bf16") && has!("avx512vnni") {
                return if has_permitted_tiles() {
                    CpuLevel::Amx
                } else {
                    CpuLevel::V4Bf16
                };
            }
            if v3 && v4 {
                return CpuLevel::V4;
            }
            if v3 {
                return CpuLevel::V3;
            }
        }
        CpuLevel::Baseline
    }

    /// The name of a level in `LESSEN_CPU`.
    fn name(self) -> &'static str {
        match self {
            CpuLevel::Baseline => "baseline",
            CpuLevel::V3 => "avx2",
            CpuLevel::V4 => "avx512",
            CpuLevel::V4Bf16 => "avx512bf16",
            CpuLevel::Amx => "amx",
        }
    }

    /// The level that kernels use on this thread: the machine's highest, but within [`CpuLevel::on_this_thread`].
    #[inline]
    pub fn current() -> CpuLevel {
        // Relaxed: the level is one number, and every value ever stored in it is one that the machine supports.
        match CURRENT.load(Ordering::Relaxed) {
            1 => CpuLevel::Baseline,
            2 => CpuLevel::V3,
            3 => CpuLevel::V4,
            4 => CpuLevel::V4Bf16,
            5 => CpuLevel::Amx,
            state => CpuLevel::find(state),
        }
    }

    #[cold]
    fn find(state: u8) -> CpuLevel {
        let highest = CpuLevel::detect();
        if state == UNKNOWN {
            // Unless a thread has chosen a level of its own in between.
            let _ = CURRENT.compare_exchange(UNKNOWN, highest as u8, Ordering::Relaxed, Ordering::Relaxed);
        }
        CHOSEN.get().unwrap_or(highest)
    }

    /// Calls `f` with this level for the kernels that it calls on this thread, or with the machine's highest where that
    /// is lower. For tests and for comparing levels; from then on the process looks a thread's level up at every call.
    pub fn on_this_thread<R>(self, f: impl FnOnce() -> R) -> R {
        struct Restore(Option<CpuLevel>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CHOSEN.set(self.0);
            }
        }
        let _restore = Restore(CHOSEN.replace(Some(self.min(CpuLevel::detect()))));
        CURRENT.store(BY_THREAD, Ordering::Relaxed);
        f()
    }
}

const UNKNOWN: u8 = 0;
/// Some thread has chosen a level of its own.
const BY_THREAD: u8 = 6;

static HIGHEST: LazyLock<Result<CpuLevel>> = LazyLock::new(|| {
    let machine = CpuLevel::of_machine();
    match std::env::var_os("LESSEN_CPU") {
        Some(text) => level_of(&text.to_string_lossy(), machine),
        None => Ok(machine),
    }
});
static CURRENT: AtomicU8 = AtomicU8::new(UNKNOWN);

thread_local! {
    static CHOSEN: Cell<Option<CpuLevel>> = const { Cell::new(None) };
}

/// Reads a level that is not above the highest one.
pub(crate) fn level_of(text: &str, highest: CpuLevel) -> Result<CpuLevel> {
    let levels = CpuLevel::ALL;
    let here = levels.into_iter().filter(|&level| level <= highest);
    match here.clone().find(|level| level.name() == text.trim()) {
        Some(level) => Ok(level),
        None => {
            let names: Vec<&str> = here.map(CpuLevel::name).collect();
            Err(Error::user(format!(
                "LESSEN_CPU is \"{text}\"; on this machine it can be {}, or unset it",
                names.join(", ")
            )))
        }
    }
}

/// Whether the CPU has tiles of `bf16` and of bytes, and the system lets this process use them; asks the system for it.
#[cfg(target_arch = "x86_64")]
fn has_permitted_tiles() -> bool {
    #[cfg(target_os = "linux")]
    {
        use std::arch::x86_64::__cpuid_count;
        use std::sync::LazyLock;

        /// Bits of EDX in leaf 7: `AMX-BF16`, `AMX-TILE` and `AMX-INT8`.
        const TILES: u32 = 1 << 22 | 1 << 24 | 1 << 25;
        /// From Linux's `asm/prctl.h`, and the number of the tiles' state.
        const REQUEST_PERMISSION: libc::c_long = 0x1023;
        const TILE_DATA: libc::c_long = 18;
        static PERMITTED: LazyLock<bool> = LazyLock::new(|| {
            let has_leaf = __cpuid_count(0, 0).eax >= 7;
            has_leaf
                && __cpuid_count(7, 0).edx & TILES == TILES
                // SAFETY: the call only changes which state of the CPU the system saves for this process.
                && unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) } == 0
        });
        *PERMITTED
    }
    #[cfg(not(target_os = "linux"))]
    false
}
