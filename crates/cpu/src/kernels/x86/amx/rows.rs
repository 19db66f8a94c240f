//! Rows times one shared matrix. Where there are many tiles of rows, the matrix is packed before they are, by all
//! threads, and each tile's rows when it comes. Where all rows are one tile, these are packed before, and each task
//! packs the columns that it computes.

use super::block::{Factor, Packed, Product, multiply};
use super::number::Number;
use super::tiles::Tiles;
use super::{MOST_SHARED, PANEL, STEP, STRIP, TILE_BYTES, is_used, is_worth, steps_of_block};
use crate::kernels::elementwise::cast::Bf16;
use crate::kernels::kernel::{Prepare, RowKernel, Run};
use lessen_compile::Scratch;

use crate::tiles::{is_one_tile, tile_rows};

/// The most steps of `k` of a tile's rows, so that they stay in the second-level cache with a panel.
const MOST_STEPS: usize = 32;

/// The same where the tile may have 512 rows, and a task some panels.
const MOST_STEPS_OF_ONE_TILE: usize = 16;

/// The product of `rows` rows of `k` numbers and a matrix of `columns` columns.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    rows: usize,
    k: usize,
    columns: usize,
    transposed: bool,
    task_columns: usize,
    /// Parts of a number.
    parts: usize,
}

impl Shape {
    /// The product of rows, `k` and columns; whether the rows of the shared matrix are columns of the product; and the
    /// most columns of a task where all rows are one tile.
    pub(crate) fn new((rows, k, columns): (usize, usize, usize), transposed: bool, task_columns: usize) -> Shape {
        Shape {
            rows,
            k,
            columns,
            transposed,
            task_columns,
            parts: f32::PARTS,
        }
    }

    fn one_tile(&self) -> bool {
        is_one_tile(self.rows)
    }

    fn steps(&self) -> usize {
        self.k.div_ceil(STEP)
    }

    /// Steps of one block of `k`.
    fn block(&self) -> usize {
        let most = if self.one_tile() {
            MOST_STEPS_OF_ONE_TILE
        } else {
            MOST_STEPS
        };
        steps_of_block(self.k, most)
    }

    /// Strips or panels that are packed before.
    fn packed_before(&self) -> usize {
        if self.one_tile() {
            self.rows.div_ceil(STRIP)
        } else {
            self.columns.div_ceil(PANEL)
        }
    }

    /// Bytes of one step of a strip or panel that is packed before, and of one that is packed when a tile or task
    /// comes.
    fn step_bytes(&self) -> (usize, usize) {
        let (strip, panel) = (self.parts * TILE_BYTES, 2 * self.parts * TILE_BYTES);
        if self.one_tile() {
            (strip, panel)
        } else {
            (panel, strip)
        }
    }

    /// Bytes of flags before strips and panels that are packed before: one for each says whether it is finite.
    fn flags(&self) -> usize {
        self.packed_before().next_multiple_of(64)
    }

    /// Bytes from one strip or panel that is packed before to the next.
    fn apart(&self) -> usize {
        self.steps() * self.step_bytes().0
    }

    /// Bytes that all workers share.
    fn shared(&self) -> usize {
        self.flags() + self.packed_before() * self.apart()
    }

    /// Bytes of each worker, for one block of `k` of a tile's strips or a task's panels.
    fn worker(&self) -> usize {
        let most = if self.one_tile() {
            self.task_columns.div_ceil(PANEL)
        } else {
            tile_rows(self.rows).div_ceil(STRIP)
        };
        most * self.block() * self.step_bytes().1
    }

    fn right<N: Number>(&self, r: &Run<'_>) -> Factor<N> {
        let b = r.inputs[1].matrix::<N>();
        let (line, k) = if self.transposed {
            (b.row, b.col)
        } else {
            (b.col, b.row)
        };
        Factor {
            ptr: b.ptr,
            line,
            k,
            lines: self.columns,
            depth: self.k,
        }
    }

    fn left<N: Number>(&self, r: &Run<'_>) -> Factor<N> {
        let a = r.inputs[0].matrix::<N>();
        Factor {
            ptr: a.ptr,
            line: a.row,
            k: a.col,
            lines: r.n,
            depth: self.k,
        }
    }

    /// Packs a strip or panel before the tiles.
    fn prepare<N: Number>(&self, r: &Run<'_>, task: usize) {
        let all = 0..self.steps();
        // SAFETY: see `Run`; the plan gives the product its shared memory, and each task writes its own part of it.
        unsafe {
            let to = r.shared.add(self.flags() + task * self.apart());
            let finite = if !self.one_tile() {
                self.right::<N>(r).pack_panel(task, all, to)
            } else {
                // A plan with other tiles gives no rows here, and `holds` leaves its products to the plain kernel.
                r.n > 0 && self.left::<N>(r).pack_strip(task, all, to)
            };
            *r.shared.add(task) = u8::from(finite);
        }
    }

    /// Whether the memory that this kernel asks for is enough for these rows and columns: a plan may have other tiles
    /// than shapes of this size.
    fn holds(&self, r: &Run<'_>) -> bool {
        if self.one_tile() {
            r.n == self.rows && r.columns.1 - r.columns.0 <= self.task_columns
        } else {
            r.n <= tile_rows(self.rows) && r.columns.0.is_multiple_of(PANEL)
        }
    }

    /// Computes a tile or a task's columns of it, and returns false where that has to be computed otherwise.
    fn run<N: Number>(&self, r: &Run<'_>) -> bool {
        if !self.holds(r) {
            return false;
        }
        // SAFETY: `prepare` has run for all strips or panels.
        if !(0..self.packed_before()).all(|i| unsafe { *r.shared.add(i) == 1 }) {
            return false;
        }
        let (first, end) = r.columns;
        let y = r.y(0);
        let c = Product {
            ptr: y.element(0, first),
            row: y.row,
            col: y.col,
        };
        let (rows, columns) = (0..r.n, 0..end - first);
        // SAFETY: this kernel is only made at the level of AMX.
        let tiles = unsafe { Tiles::configure() };
        for step in (0..self.steps()).step_by(self.block()) {
            let steps = step..(step + self.block()).min(self.steps());
            let len = steps.len();
            let apart = len * self.step_bytes().1;
            let before = |i: usize| Packed {
                ptr: r
                    .shared
                    .wrapping_add(self.flags() + i * self.apart() + step * self.step_bytes().0),
                apart: self.apart(),
            };
            let now = Packed { ptr: r.scratch, apart };
            // SAFETY: see `Run`; the memory that is read has been packed, and the tile's columns are this task's.
            unsafe {
                let to = |i: usize| r.scratch.add(i * apart);
                let (strips, panels) = if self.one_tile() {
                    let right = self.right::<N>(r).from(first);
                    let pack = |i: usize| right.pack_panel(i, steps.clone(), to(i));
                    if !(0..columns.len().div_ceil(PANEL)).all(pack) {
                        return false;
                    }
                    (before(0), now)
                } else {
                    let left = self.left::<N>(r);
                    let pack = |i: usize| left.pack_strip(i, steps.clone(), to(i));
                    if !(0..r.n.div_ceil(STRIP)).all(pack) {
                        return false;
                    }
                    (now, before(first / PANEL))
                };
                let (a, b) = ((strips, rows.clone()), (panels, columns.clone()));
                multiply::<N>(&tiles, len, a, b, c, step > 0);
            }
        }
        true
    }
}

/// The kernel of a product over packed panels where that is worth it, with the memory that it takes on machines of
/// every kind, so that plans do not depend on them. Tiles that cannot be held run `plain`.
fn packed<N: Number>(shape: Shape, plain: RowKernel) -> RowKernel {
    if !is_worth(shape.rows, shape.k, shape.columns) || shape.shared() > MOST_SHARED {
        return plain;
    }
    let Scratch { worker, shared } = plain.scratch;
    let kernel = plain.with_scratch(worker.max(shape.worker()), shared.max(shape.shared()));
    if !is_used() {
        return kernel;
    }
    let prepare = Prepare {
        tasks: shape.packed_before(),
        run: Box::new(move |r, task| shape.prepare::<N>(r, task)),
    };
    kernel.prepared(prepare, move |r, plain| {
        if !shape.run::<N>(r) {
            plain(r);
        }
    })
}

/// [`packed`] for factors in `f32`.
pub(crate) fn packed_f32(shape: Shape, plain: RowKernel) -> RowKernel {
    packed::<f32>(shape, plain)
}

/// [`packed`] for factors in `bf16`.
pub(crate) fn packed_bf16(shape: Shape, plain: RowKernel) -> RowKernel {
    packed::<Bf16>(
        Shape {
            parts: Bf16::PARTS,
            ..shape
        },
        plain,
    )
}
