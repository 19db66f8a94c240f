//! Rows times one shared matrix: the matrix is packed before the rows are, by all threads, and each tile of rows when
//! it comes, or with the matrix where all rows are one tile.

use super::amx::{PANEL_BYTES, STRIP_BYTES, Tiles};
use super::block::{Factor, Packed, Product, multiply};
use super::{MOST_SHARED, PANEL, STEP, STRIP, is_used, is_worth, steps_of_block};
use crate::kernels::kernel::{Prepare, RowKernel, Run};
use crate::target::{is_one_tile, most_tile_rows};

/// The most steps of `k` of a tile's rows, so that they stay in the second-level cache with a panel.
const MOST_STEPS: usize = 32;

/// The same where the tile may have 512 rows.
const MOST_STEPS_OF_ONE_TILE: usize = 16;

/// The product of `rows` rows of `k` numbers and a matrix of `columns` columns.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) k: usize,
    pub(crate) columns: usize,
    /// Whether the rows of the shared matrix are columns of the product.
    pub(crate) transposed: bool,
}

impl Shape {
    fn steps(&self) -> usize {
        self.k.div_ceil(STEP)
    }

    fn panels(&self) -> usize {
        self.columns.div_ceil(PANEL)
    }

    /// Strips that are packed before; none where each tile packs its own.
    fn strips(&self) -> usize {
        if is_one_tile(self.rows) {
            self.rows.div_ceil(STRIP)
        } else {
            0
        }
    }

    /// Bytes before the panels: one for each panel and strip says whether it is finite.
    fn flags(&self) -> usize {
        (self.panels() + self.strips()).next_multiple_of(64)
    }

    fn panel_bytes(&self) -> usize {
        self.steps() * PANEL_BYTES
    }

    fn strip_bytes(&self) -> usize {
        self.steps() * STRIP_BYTES
    }

    /// Where the strips begin that are packed before.
    fn strips_at(&self) -> usize {
        self.flags() + self.panels() * self.panel_bytes()
    }

    /// Bytes that all workers share.
    fn shared(&self) -> usize {
        self.strips_at() + self.strips() * self.strip_bytes()
    }

    /// Steps of one block of `k`.
    fn block(&self) -> usize {
        let one = is_one_tile(self.rows);
        steps_of_block(self.k, if one { MOST_STEPS_OF_ONE_TILE } else { MOST_STEPS })
    }

    /// Bytes of each worker, for one block of a tile's strips.
    fn worker(&self) -> usize {
        if is_one_tile(self.rows) {
            return 0;
        }
        most_tile_rows(self.rows).div_ceil(STRIP) * self.block() * STRIP_BYTES
    }

    fn right(&self, r: &Run<'_>) -> Factor {
        let b = r.inputs[1];
        let (line, k) = if self.transposed {
            (b.row, b.col)
        } else {
            (b.col, b.row)
        };
        Factor {
            ptr: b.ptr.cast(),
            line,
            k,
            lines: self.columns,
            depth: self.k,
        }
    }

    fn left(&self, r: &Run<'_>) -> Factor {
        let a = r.inputs[0];
        Factor {
            ptr: a.ptr.cast(),
            line: a.row,
            k: a.col,
            lines: r.n,
            depth: self.k,
        }
    }

    /// Packs a panel, or a strip.
    fn prepare(&self, r: &Run<'_>, task: usize) {
        let all = 0..self.steps();
        // SAFETY: see `Run`; the plan gives the product its shared memory, of which each task writes its own part.
        unsafe {
            let finite = if task < self.panels() {
                let to = r.shared.add(self.flags() + task * self.panel_bytes());
                self.right(r).pack_panel(task, all, to)
            } else {
                let strip = task - self.panels();
                let to = r.shared.add(self.strips_at() + strip * self.strip_bytes());
                self.left(r).pack_strip(strip, all, to)
            };
            *r.shared.add(task) = u8::from(finite);
        }
    }

    /// Whether the memory that this kernel asks for is enough for these rows: a plan may have other tiles than shapes
    /// of this size.
    fn holds(&self, r: &Run<'_>) -> bool {
        if is_one_tile(self.rows) {
            r.n == self.rows
        } else {
            r.n <= most_tile_rows(self.rows) && !r.scratch.is_null()
        }
    }

    /// Computes a tile, and returns false where it has to be computed otherwise.
    fn run(&self, r: &Run<'_>) -> bool {
        if !self.holds(r) {
            return false;
        }
        let (first, end) = r.columns;
        let y = r.outputs[0];
        let c = Product {
            ptr: y.ptr.cast(),
            row: y.row,
            col: y.col,
        };
        // SAFETY: `prepare` has run for all panels and strips.
        let finite = |i: usize| unsafe { *r.shared.add(i) == 1 };
        let panels = first / PANEL..end.div_ceil(PANEL);
        if !panels.chain(self.panels()..self.panels() + self.strips()).all(finite) {
            return false;
        }
        // SAFETY: this kernel is only made at the level of AMX.
        let tiles = unsafe { Tiles::configure() };
        for step in (0..self.steps()).step_by(self.block()) {
            let steps = step..(step + self.block()).min(self.steps());
            let (len, accumulate) = (steps.len(), step > 0);
            // SAFETY: see `Run`; what is read has been packed, and the tile's columns are this task's.
            unsafe {
                let strips = if self.strips() > 0 {
                    Packed {
                        ptr: r.shared.add(self.strips_at() + step * STRIP_BYTES),
                        apart: self.strip_bytes(),
                    }
                } else {
                    let apart = len * STRIP_BYTES;
                    let left = self.left(r);
                    let pack = |i: usize| left.pack_strip(i, steps.clone(), r.scratch.add(i * apart));
                    if !(0..r.n.div_ceil(STRIP)).all(pack) {
                        return false;
                    }
                    Packed { ptr: r.scratch, apart }
                };
                let panels = Packed {
                    ptr: r.shared.add(self.flags() + step * PANEL_BYTES),
                    apart: self.panel_bytes(),
                };
                multiply(&tiles, len, (strips, 0..r.n), (panels, first..end), c, accumulate);
            }
        }
        true
    }
}

/// The kernel of a product over packed panels where that is worth it, with the memory that it takes on machines of
/// every kind, so that plans do not depend on them. Tiles that are not finite run `plain`.
pub(crate) fn packed(shape: Shape, plain: RowKernel) -> RowKernel {
    if !is_worth(shape.rows, shape.k, shape.columns) || shape.shared() > MOST_SHARED {
        return plain;
    }
    let kernel = plain.with_scratch(shape.worker(), shape.shared());
    if !is_used() {
        return kernel;
    }
    let prepare = Prepare {
        tasks: shape.panels() + shape.strips(),
        run: Box::new(move |r, task| shape.prepare(r, task)),
    };
    kernel.prepared(prepare, move |r, plain| {
        if !shape.run(r) {
            plain(r);
        }
    })
}
