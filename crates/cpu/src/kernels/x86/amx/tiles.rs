//! Tile products: 16 or 32 rows of a packed strip times 32 columns of a packed panel, by AMX.
//!
//! The tile registers are used by these functions and by the products of codes alone, so they need no intrinsics, which
//! stable Rust does not have.

use std::arch::asm;

use super::{STRIP, TILE_BYTES};

/// Bytes of the tiles of a strip and of a panel at one step of `k`, of numbers in three parts and in one.
const STRIP_OF_THREE: usize = 3 * TILE_BYTES;
const PANEL_OF_THREE: usize = 6 * TILE_BYTES;
const PANEL_OF_ONE: usize = 2 * TILE_BYTES;

/// Defines the product of two strips and a panel: sums are in registers 0 and 1 for the first strip, 2 and 3 for the
/// second one, and the instructions add the products of one step to them.
macro_rules! two_strips {
    ($(#[$meta:meta])* $name:ident, $strip:expr, $panel:expr, [$($step:literal),+ $(,)?]) => {
        $(#[$meta])*
        pub(crate) unsafe fn $name(
            &self,
            steps: usize,
            a: [*const u8; 2],
            b: *const u8,
            (c, row): (*mut f32, usize),
            accumulate: bool,
        ) {
            // SAFETY: the loads and stores lie within what the caller promises, the registers are configured, and no
            // other code uses them.
            unsafe {
                asm!(
                    "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                    "test {accumulate:e}, {accumulate:e}",
                    "jz 2f",
                    "tileloadd tmm0, [{c0} + {row}]", "tileloadd tmm1, [{c0} + {row} + 64]",
                    "tileloadd tmm2, [{c1} + {row}]", "tileloadd tmm3, [{c1} + {row} + 64]",
                    "2:",
                    $($step,)+
                    "add {a0}, {strip}", "add {a1}, {strip}", "add {b}, {panel}",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{c0} + {row}], tmm0", "tilestored [{c0} + {row} + 64], tmm1",
                    "tilestored [{c1} + {row}], tmm2", "tilestored [{c1} + {row} + 64], tmm3",
                    accumulate = in(reg) u32::from(accumulate),
                    c0 = in(reg) c, c1 = in(reg) c.add(STRIP * row), row = in(reg) 4 * row,
                    a0 = inout(reg) a[0] => _, a1 = inout(reg) a[1] => _, b = inout(reg) b => _,
                    steps = inout(reg) steps => _,
                    line = in(reg) 64usize, strip = const $strip, panel = const $panel,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

/// Defines the same product of one strip, whose sums are in registers 0 and 1.
macro_rules! one_strip {
    ($(#[$meta:meta])* $name:ident, $strip:expr, $panel:expr, [$($step:literal),+ $(,)?]) => {
        $(#[$meta])*
        pub(crate) unsafe fn $name(
            &self,
            steps: usize,
            a: *const u8,
            b: *const u8,
            (c, row): (*mut f32, usize),
            accumulate: bool,
        ) {
            // SAFETY: as for two strips.
            unsafe {
                asm!(
                    "tilezero tmm0", "tilezero tmm1",
                    "test {accumulate:e}, {accumulate:e}",
                    "jz 2f",
                    "tileloadd tmm0, [{c} + {row}]", "tileloadd tmm1, [{c} + {row} + 64]",
                    "2:",
                    $($step,)+
                    "add {a}, {strip}", "add {b}, {panel}",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{c} + {row}], tmm0", "tilestored [{c} + {row} + 64], tmm1",
                    accumulate = in(reg) u32::from(accumulate),
                    c = in(reg) c, row = in(reg) 4 * row,
                    a = inout(reg) a => _, b = inout(reg) b => _,
                    steps = inout(reg) steps => _,
                    line = in(reg) 64usize, strip = const $strip, panel = const $panel,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

/// The tile registers of this thread, until it is dropped.
pub(crate) struct Tiles(());

/// The argument of `ldtilecfg`.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Tiles {
    /// Configures tile registers of 16 rows of 64 bytes.
    ///
    /// # Safety
    /// Kernels use [`Amx`](crate::simd::Feature::Amx).
    pub(crate) unsafe fn configure() -> Tiles {
        // SAFETY: passed on.
        unsafe { Tiles::of([(STRIP as u8, 64); 8]) }
    }

    /// Configures tile registers of these rows and bytes of a row: at most 16, and 64.
    ///
    /// # Safety
    /// Kernels use [`Amx`](crate::simd::Feature::Amx), and no extent is zero.
    pub(crate) unsafe fn of(shapes: [(u8, u16); 8]) -> Tiles {
        let mut configuration = Configuration {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [0; 16],
            rows: [0; 16],
        };
        for (i, (rows, bytes)) in shapes.into_iter().enumerate() {
            configuration.rows[i] = rows;
            configuration.row_bytes[i] = bytes;
        }
        // SAFETY: the configuration is valid, the CPU has tiles, and the system lets this process use them.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack, preserves_flags)) };
        Tiles(())
    }

    two_strips! {
        /// `c = a b` or `c += a b` for two strips and a panel over `steps` steps of `k`. The rows of `c` lie `row`
        /// elements apart.
        ///
        /// Each step adds, part by part, the products `a3 b1, a2 b1, a2 b2, a1 b2, a1 b3, a1 b1`; the other products
        /// are below the rounding of an `f32`.
        ///
        /// # Safety
        /// `a` points to the steps of two strips, `b` to the steps of a panel, and `c` to 32 rows of 32 elements that
        /// nobody else accesses.
        two_strips, STRIP_OF_THREE, PANEL_OF_THREE,
        [
            "tileloadd tmm4, [{a0} + {line} + 2048]", "tileloadd tmm5, [{a1} + {line} + 2048]",
            "tileloadd tmm6, [{b} + {line}]", "tileloadd tmm7, [{b} + {line} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm4, [{a0} + {line} + 1024]", "tileloadd tmm5, [{a1} + {line} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm6, [{b} + {line} + 2048]", "tileloadd tmm7, [{b} + {line} + 3072]",
            "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm4, [{a0} + {line}]", "tileloadd tmm5, [{a1} + {line}]",
            "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm6, [{b} + {line} + 4096]", "tileloadd tmm7, [{b} + {line} + 5120]",
            "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm6, [{b} + {line}]", "tileloadd tmm7, [{b} + {line} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
        ]
    }

    one_strip! {
        /// [`Tiles::two_strips`] of one strip, to the same bits.
        ///
        /// # Safety
        /// As there, for one strip and 16 rows of `c`.
        one_strip, STRIP_OF_THREE, PANEL_OF_THREE,
        [
            "tileloadd tmm2, [{a} + {line}]", "tileloadd tmm3, [{a} + {line} + 1024]",
            "tileloadd tmm4, [{a} + {line} + 2048]",
            "tileloadd tmm6, [{b} + {line}]", "tileloadd tmm7, [{b} + {line} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm0, tmm3, tmm6", "tdpbf16ps tmm1, tmm3, tmm7",
            "tileloadd tmm4, [{b} + {line} + 2048]", "tileloadd tmm5, [{b} + {line} + 3072]",
            "tdpbf16ps tmm0, tmm3, tmm4", "tdpbf16ps tmm1, tmm3, tmm5",
            "tdpbf16ps tmm0, tmm2, tmm4", "tdpbf16ps tmm1, tmm2, tmm5",
            "tileloadd tmm4, [{b} + {line} + 4096]", "tileloadd tmm5, [{b} + {line} + 5120]",
            "tdpbf16ps tmm0, tmm2, tmm4", "tdpbf16ps tmm1, tmm2, tmm5",
            "tdpbf16ps tmm0, tmm2, tmm6", "tdpbf16ps tmm1, tmm2, tmm7",
        ]
    }

    two_strips! {
        /// [`Tiles::two_strips`] of numbers in one part.
        ///
        /// # Safety
        /// As there.
        two_strips_of_bf16, TILE_BYTES, PANEL_OF_ONE,
        [
            "tileloadd tmm4, [{a0} + {line}]", "tileloadd tmm6, [{b} + {line}]",
            "tileloadd tmm5, [{a1} + {line}]", "tileloadd tmm7, [{b} + {line} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7", "tdpbf16ps tmm3, tmm5, tmm7",
        ]
    }

    one_strip! {
        /// [`Tiles::one_strip`] of numbers in one part.
        ///
        /// # Safety
        /// As there.
        one_strip_of_bf16, TILE_BYTES, PANEL_OF_ONE,
        [
            "tileloadd tmm4, [{a} + {line}]",
            "tileloadd tmm6, [{b} + {line}]", "tileloadd tmm7, [{b} + {line} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
        ]
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the CPU has tiles, since they were configured. Releasing them makes a switch of threads cheap again.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}
