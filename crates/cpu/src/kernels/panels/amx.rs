//! Tile products: 16 or 32 rows of a packed strip times 32 columns of a packed panel, by AMX.
//!
//! The tile registers are used by these functions alone, so they need no intrinsics, which stable Rust does not have.

use std::arch::asm;

use super::number::Number;
use super::{PANEL, STRIP, TILE_BYTES};

/// Bytes of the tiles of a strip and of a panel at one step of `k`, of numbers in three parts and in one.
const STRIP_OF_THREE: usize = 3 * TILE_BYTES;
const PANEL_OF_THREE: usize = 6 * TILE_BYTES;
const PANEL_OF_ONE: usize = 2 * TILE_BYTES;

/// Whether the CPU has tiles of `bf16` and the system lets this process use them; asks the system for it.
pub(crate) fn is_permitted() -> bool {
    #[cfg(target_os = "linux")]
    {
        use std::arch::x86_64::__cpuid_count;
        use std::sync::LazyLock;

        /// Bits of EDX in leaf 7: `AMX-BF16` and `AMX-TILE`.
        const TILES: u32 = 1 << 22 | 1 << 24;
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

/// The tile registers of this thread, all of 16 rows of 64 bytes, until it is dropped.
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
    /// Configures the tile registers.
    ///
    /// # Safety
    /// [`is_permitted`] has said so.
    pub(super) unsafe fn configure() -> Tiles {
        let mut configuration = Configuration {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [0; 16],
            rows: [0; 16],
        };
        configuration.row_bytes[..8].fill(64);
        configuration.rows[..8].fill(STRIP as u8);
        // SAFETY: the configuration is valid, the CPU has tiles, and the system lets this process use them.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack, preserves_flags)) };
        Tiles(())
    }

    /// `c = a b` or `c += a b` for two strips and a panel over `steps` steps of `k`. The rows of `c` lie `row` elements
    /// apart.
    ///
    /// Each step adds, part by part, the products `a3 b1, a2 b1, a2 b2, a1 b2, a1 b3, a1 b1`; those left out are below
    /// the rounding of an `f32`.
    ///
    /// # Safety
    /// `a` points to the steps of two strips, `b` to those of a panel, and `c` to 32 rows of 32 elements that nobody
    /// else accesses.
    pub(super) unsafe fn two_strips(
        &self,
        steps: usize,
        a: [*const u8; 2],
        b: *const u8,
        (c, row): (*mut f32, usize),
        accumulate: bool,
    ) {
        // SAFETY: the loads and stores lie within what the caller promises, the registers are configured, and no other
        // code uses them.
        unsafe {
            asm!(
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                "test {accumulate:e}, {accumulate:e}",
                "jz 2f",
                "tileloadd tmm0, [{c0} + {row}]", "tileloadd tmm1, [{c0} + {row} + 64]",
                "tileloadd tmm2, [{c1} + {row}]", "tileloadd tmm3, [{c1} + {row} + 64]",
                "2:",
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
                "add {a0}, {strip}", "add {a1}, {strip}", "add {b}, {panel}",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{c0} + {row}], tmm0", "tilestored [{c0} + {row} + 64], tmm1",
                "tilestored [{c1} + {row}], tmm2", "tilestored [{c1} + {row} + 64], tmm3",
                accumulate = in(reg) u32::from(accumulate),
                c0 = in(reg) c, c1 = in(reg) c.add(STRIP * row), row = in(reg) 4 * row,
                a0 = inout(reg) a[0] => _, a1 = inout(reg) a[1] => _, b = inout(reg) b => _,
                steps = inout(reg) steps => _,
                line = in(reg) 64usize, strip = const STRIP_OF_THREE, panel = const PANEL_OF_THREE,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }

    /// [`Tiles::two_strips`] of one strip, to the same bits.
    ///
    /// # Safety
    /// As there, for one strip and 16 rows of `c`.
    pub(super) unsafe fn one_strip(
        &self,
        steps: usize,
        a: *const u8,
        b: *const u8,
        (c, row): (*mut f32, usize),
        accumulate: bool,
    ) {
        // SAFETY: as above.
        unsafe {
            asm!(
                "tilezero tmm0", "tilezero tmm1",
                "test {accumulate:e}, {accumulate:e}",
                "jz 2f",
                "tileloadd tmm0, [{c} + {row}]", "tileloadd tmm1, [{c} + {row} + 64]",
                "2:",
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
                "add {a}, {strip}", "add {b}, {panel}",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{c} + {row}], tmm0", "tilestored [{c} + {row} + 64], tmm1",
                accumulate = in(reg) u32::from(accumulate),
                c = in(reg) c, row = in(reg) 4 * row,
                a = inout(reg) a => _, b = inout(reg) b => _,
                steps = inout(reg) steps => _,
                line = in(reg) 64usize, strip = const STRIP_OF_THREE, panel = const PANEL_OF_THREE,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }

    /// [`Tiles::two_strips`] of numbers in one part.
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn two_strips_of_bf16(
        &self,
        steps: usize,
        a: [*const u8; 2],
        b: *const u8,
        (c, row): (*mut f32, usize),
        accumulate: bool,
    ) {
        // SAFETY: as above.
        unsafe {
            asm!(
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                "test {accumulate:e}, {accumulate:e}",
                "jz 2f",
                "tileloadd tmm0, [{c0} + {row}]", "tileloadd tmm1, [{c0} + {row} + 64]",
                "tileloadd tmm2, [{c1} + {row}]", "tileloadd tmm3, [{c1} + {row} + 64]",
                "2:",
                "tileloadd tmm4, [{a0} + {line}]", "tileloadd tmm6, [{b} + {line}]",
                "tileloadd tmm5, [{a1} + {line}]", "tileloadd tmm7, [{b} + {line} + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7", "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a0}, {strip}", "add {a1}, {strip}", "add {b}, {panel}",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{c0} + {row}], tmm0", "tilestored [{c0} + {row} + 64], tmm1",
                "tilestored [{c1} + {row}], tmm2", "tilestored [{c1} + {row} + 64], tmm3",
                accumulate = in(reg) u32::from(accumulate),
                c0 = in(reg) c, c1 = in(reg) c.add(STRIP * row), row = in(reg) 4 * row,
                a0 = inout(reg) a[0] => _, a1 = inout(reg) a[1] => _, b = inout(reg) b => _,
                steps = inout(reg) steps => _,
                line = in(reg) 64usize, strip = const TILE_BYTES, panel = const PANEL_OF_ONE,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }

    /// [`Tiles::one_strip`] of numbers in one part.
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn one_strip_of_bf16(
        &self,
        steps: usize,
        a: *const u8,
        b: *const u8,
        (c, row): (*mut f32, usize),
        accumulate: bool,
    ) {
        // SAFETY: as above.
        unsafe {
            asm!(
                "tilezero tmm0", "tilezero tmm1",
                "test {accumulate:e}, {accumulate:e}",
                "jz 2f",
                "tileloadd tmm0, [{c} + {row}]", "tileloadd tmm1, [{c} + {row} + 64]",
                "2:",
                "tileloadd tmm4, [{a} + {line}]",
                "tileloadd tmm6, [{b} + {line}]", "tileloadd tmm7, [{b} + {line} + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
                "add {a}, {strip}", "add {b}, {panel}",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{c} + {row}], tmm0", "tilestored [{c} + {row} + 64], tmm1",
                accumulate = in(reg) u32::from(accumulate),
                c = in(reg) c, row = in(reg) 4 * row,
                a = inout(reg) a => _, b = inout(reg) b => _,
                steps = inout(reg) steps => _,
                line = in(reg) 64usize, strip = const TILE_BYTES, panel = const PANEL_OF_ONE,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }

    /// The product of up to 32 rows and 32 columns, of which `rows` and `columns` are stored, in any strides.
    ///
    /// # Safety
    /// As for [`Tiles::two_strips`]; where there are at most 16 rows, the second strip is not read.
    pub(super) unsafe fn block<N: Number>(
        &self,
        steps: usize,
        a: [*const u8; 2],
        b: *const u8,
        c: &Corner,
        accumulate: bool,
    ) {
        let whole = c.columns == PANEL && c.col == 1;
        // SAFETY: passed on; a corner that is not whole goes through a block of its own.
        unsafe {
            if whole && c.rows == 2 * STRIP {
                return N::two_strips(self, steps, a, b, (c.ptr, c.row), accumulate);
            }
            if whole && c.rows == STRIP {
                return N::one_strip(self, steps, a[0], b, (c.ptr, c.row), accumulate);
            }
            let mut block = [0f32; 2 * STRIP * PANEL];
            let at = (block.as_mut_ptr(), PANEL);
            if accumulate {
                c.each(|i, element| block[i] = *element);
            }
            if c.rows > STRIP {
                N::two_strips(self, steps, a, b, at, accumulate);
            } else {
                N::one_strip(self, steps, a[0], b, at, accumulate);
            }
            c.each(|i, element| *element = block[i]);
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the CPU has tiles, since they were configured. Releasing them makes a switch of threads cheap again.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}

/// Where a block of a product lies.
pub(super) struct Corner {
    pub(super) ptr: *mut f32,
    /// Elements from row to row, and from column to column.
    pub(super) row: usize,
    pub(super) col: usize,
    /// At most 32 of either.
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Corner {
    /// Calls `f` with each element, and its position in a dense block of 32 columns.
    ///
    /// # Safety
    /// The elements exist, and nobody else accesses them.
    unsafe fn each(&self, mut f: impl FnMut(usize, &mut f32)) {
        for i in 0..self.rows {
            for j in 0..self.columns {
                // SAFETY: the caller's promise.
                f(i * PANEL + j, unsafe {
                    &mut *self.ptr.add(i * self.row + j * self.col)
                });
            }
        }
    }
}
