//! Sets of instructions: which the machine has, and which of them kernels use. No machine's set is a step of a ladder:
//! kernels ask for each feature by its name.

use std::cell::Cell;
use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, Ordering};

use lessen_base::{Error, Result};

/// Instructions that kernels ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Feature {
    /// AVX2 with FMA, BMI1, BMI2 and POPCNT, as in x86-64-v3.
    Avx2 = 1,
    /// AVX-512 with F, VL, BW, DQ and CD, as in x86-64-v4.
    Avx512 = 1 << 1,
    /// Sums of four products of bytes: AVX-512 VNNI and, where AVX-512 is not used, AVX-VNNI or the same of VL.
    Vnni = 1 << 2,
    /// AVX-512 BF16.
    Bf16 = 1 << 3,
    /// AMX, tiles of `bf16` and of bytes.
    Amx = 1 << 4,
}

impl Feature {
    const ALL: [Feature; 5] = [
        Feature::Avx2,
        Feature::Avx512,
        Feature::Vnni,
        Feature::Bf16,
        Feature::Amx,
    ];

    /// Whether kernels use it on this thread.
    #[inline]
    pub fn is_used(self) -> bool {
        CpuSet::current().has(self)
    }

    /// The set of this feature and of those that kernels use together with it.
    const fn set(self) -> CpuSet {
        let others = match self {
            Feature::Avx2 => CpuSet::BASELINE,
            Feature::Avx512 | Feature::Vnni => Feature::Avx2.set(),
            Feature::Bf16 => Feature::Avx512.set(),
            Feature::Amx => Feature::Vnni.set().with(Feature::Bf16),
        };
        CpuSet(others.0 | self as u8)
    }
}

/// A set of instructions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CpuSet(u8);

impl CpuSet {
    /// The baseline of the compilation target: SSE2 on x86-64.
    pub const BASELINE: CpuSet = CpuSet(0);
    /// Vectors of 256 bits.
    pub const AVX2: CpuSet = Feature::Avx2.set();
    /// Vectors of 512 bits.
    pub const AVX512: CpuSet = Feature::Avx512.set();
    /// All features.
    pub const ALL: CpuSet = Feature::Amx.set();

    /// Names of sets in `LESSEN_CPU`.
    const NAMES: [(&str, CpuSet); 8] = [
        ("baseline", CpuSet::BASELINE),
        ("avx2", CpuSet::AVX2),
        ("avxvnni", CpuSet::AVX2.with(Feature::Vnni)),
        ("avx512", CpuSet::AVX512),
        ("vnni", CpuSet::AVX512.with(Feature::Vnni)),
        ("bf16", CpuSet::AVX512.with(Feature::Bf16)),
        ("avx512bf16", CpuSet::AVX512.with(Feature::Vnni).with(Feature::Bf16)),
        ("amx", CpuSet::ALL),
    ];

    /// This set with a feature and those that it is used with.
    pub const fn with(self, feature: Feature) -> CpuSet {
        CpuSet(self.0 | feature.set().0)
    }

    /// Whether it has a feature.
    #[inline]
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & feature as u8 != 0
    }

    /// Whether another set has all that this one has.
    pub const fn is_within(self, other: CpuSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// All sets of some of these features that kernels can use, beginning with [`CpuSet::BASELINE`].
    pub fn subsets(self) -> impl Iterator<Item = CpuSet> {
        let can_be = |set: &CpuSet| {
            let mut all = Feature::ALL.into_iter();
            all.all(|feature| !set.has(feature) || feature.set().is_within(*set))
        };
        let within = move |set: &CpuSet| set.is_within(self);
        (0..=CpuSet::ALL.0).map(CpuSet).filter(within).filter(can_be)
    }

    /// The set that kernels use: that of this machine, or the one that the environment variable `LESSEN_CPU` names,
    /// such as `avx512+vnni`.
    pub fn detect() -> CpuSet {
        match &*CHOSEN {
            Ok(set) => *set,
            Err(_) => CpuSet::of_machine(),
        }
    }

    /// Checks `LESSEN_CPU`.
    ///
    /// # Errors
    /// One sentence, if the variable names no set, or one that the machine does not have.
    pub fn check_env() -> Result<()> {
        CHOSEN.clone().map(|_| ())
    }

    fn of_machine() -> CpuSet {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma") && has!("bmi1") && has!("bmi2") && has!("popcnt");
            let avx512 =
                has!("avx512f") && has!("avx512vl") && has!("avx512bw") && has!("avx512dq") && has!("avx512cd");
            let vnni = if avx512 { has!("avx512vnni") } else { has!("avxvnni") };
            let found = [
                (Feature::Avx2, avx2),
                (Feature::Avx512, avx512),
                (Feature::Vnni, vnni),
                (Feature::Bf16, has!("avx512bf16")),
                (Feature::Amx, has_permitted_tiles()),
            ];
            // A feature counts where those that it is used with are there.
            let add = |set: CpuSet, (feature, is_there): (Feature, bool)| {
                let more = set.0 | feature as u8;
                let counts = is_there && feature.set().is_within(CpuSet(more));
                if counts { CpuSet(more) } else { set }
            };
            found.into_iter().fold(CpuSet::BASELINE, add)
        }
        #[cfg(not(target_arch = "x86_64"))]
        CpuSet::BASELINE
    }

    /// The set that kernels use on this thread: [`CpuSet::detect`], but within [`CpuSet::on_this_thread`].
    #[inline]
    pub fn current() -> CpuSet {
        // Relaxed: the set is one number, and every value ever stored in it is one that the machine supports.
        match CURRENT.load(Ordering::Relaxed) {
            set if set <= CpuSet::ALL.0 => CpuSet(set),
            state => CpuSet::find(state),
        }
    }

    #[cold]
    fn find(state: u8) -> CpuSet {
        let detected = CpuSet::detect();
        if state == UNKNOWN {
            // Unless a thread has chosen a set of its own in between.
            let _ = CURRENT.compare_exchange(UNKNOWN, detected.0, Ordering::Relaxed, Ordering::Relaxed);
        }
        OF_THREAD.get().unwrap_or(detected)
    }

    /// Calls `f` with this set, or with what [`CpuSet::detect`] has of it, for the kernels that it calls on this
    /// thread. For tests and for comparing sets; from then on the process looks a thread's set up at every call.
    pub fn on_this_thread<R>(self, f: impl FnOnce() -> R) -> R {
        struct Restore(Option<CpuSet>);
        impl Drop for Restore {
            fn drop(&mut self) {
                OF_THREAD.set(self.0);
            }
        }
        let _restore = Restore(OF_THREAD.replace(Some(CpuSet(self.0 & CpuSet::detect().0))));
        CURRENT.store(BY_THREAD, Ordering::Relaxed);
        f()
    }
}

/// The name of a set as `LESSEN_CPU` takes it.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_wide = self.has(Feature::Avx512);
        let words = Feature::ALL.into_iter().filter(|feature| self.has(*feature));
        let words = words.filter_map(|feature| match feature {
            Feature::Avx2 if is_wide => None,
            Feature::Avx2 => Some("avx2"),
            Feature::Avx512 => Some("avx512"),
            Feature::Vnni if is_wide => Some("vnni"),
            Feature::Vnni => Some("avxvnni"),
            Feature::Bf16 => Some("bf16"),
            Feature::Amx => Some("amx"),
        });
        match words.collect::<Vec<_>>().join("+").as_str() {
            "" => f.write_str("baseline"),
            name => f.write_str(name),
        }
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const UNKNOWN: u8 = u8::MAX;
/// Some thread has chosen a set of its own.
const BY_THREAD: u8 = UNKNOWN - 1;

static CHOSEN: LazyLock<Result<CpuSet>> = LazyLock::new(|| {
    let machine = CpuSet::of_machine();
    match std::env::var_os("LESSEN_CPU") {
        Some(text) => set_of(&text.to_string_lossy(), machine),
        None => Ok(machine),
    }
});
static CURRENT: AtomicU8 = AtomicU8::new(UNKNOWN);

thread_local! {
    static OF_THREAD: Cell<Option<CpuSet>> = const { Cell::new(None) };
}

/// Reads a set, as names that `+` joins, of what a machine has.
pub(crate) fn set_of(text: &str, machine: CpuSet) -> Result<CpuSet> {
    let here = CpuSet::NAMES.into_iter().filter(|(_, set)| set.is_within(machine));
    text.split('+').map(str::trim).try_fold(CpuSet::BASELINE, |all, part| {
        let (_, set) = here.clone().find(|(name, _)| *name == part).ok_or_else(|| {
            let is_known = CpuSet::NAMES.iter().any(|(name, _)| *name == part);
            let fault = if is_known { "this machine lacks" } else { "there is no" };
            let names: Vec<&str> = here.clone().map(|(name, _)| name).collect();
            Error::user(format!(
                "LESSEN_CPU is \"{text}\", but {fault} \"{part}\"; on this machine it can be {}, or several joined by +, or \
                 unset it",
                names.join(", ")
            ))
        })?;
        Ok(CpuSet(all.0 | set.0))
    })
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
