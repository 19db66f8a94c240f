//! Rows times one shared matrix, which is packed. All threads pack it before the tiles of rows where there are many
//! tiles; each task packs its own columns where all rows are one tile.

use super::number::Word;
use super::right::{Left, Right};
use super::{MOST_SHARED, PANEL, WORD};
use crate::kernels::kernel::{Prepare, RowKernel, Run};
use crate::tiles::{is_one_tile, tile_rows};
use lessen_compile::Scratch;

/// The most numbers along `k` of the columns of a task that are packed at a time.
const BLOCK: usize = 512;

/// The product of `rows` rows of `k` numbers and a matrix of `columns` columns.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) k: usize,
    pub(crate) columns: usize,
    /// Whether the rows of the shared matrix are columns of the product.
    pub(crate) transposed: bool,
    /// The most columns of a task where all rows are one tile.
    pub(crate) task_columns: usize,
}

impl Shape {
    fn one_tile(&self) -> bool {
        is_one_tile(self.rows)
    }

    fn right<N: Word>(&self) -> Option<Right> {
        Some(Right::new::<N>(1, self.k, self.columns)?.with_cached(N::CACHED))
    }

    /// Bytes that all workers share, and bytes of each: two pointers for each row, and the columns of a task.
    fn scratch<N: Word>(&self) -> Option<Scratch> {
        let pointers = 2 * tile_rows(self.rows).max(self.rows_of_one_tile()) * size_of::<usize>();
        let (shared, columns) = if self.one_tile() {
            let block = Right::new::<N>(1, self.k.min(BLOCK), self.task_columns)?;
            (0, block.bytes())
        } else {
            (self.right::<N>()?.bytes(), 0)
        };
        Some(Scratch {
            worker: pointers.next_multiple_of(64) + columns,
            shared,
        })
    }

    fn rows_of_one_tile(&self) -> usize {
        if self.one_tile() { self.rows } else { 0 }
    }

    /// Elements of the shared matrix from one `k` to the next, and from column to column.
    fn strides(&self, r: &Run<'_>) -> (usize, usize) {
        let b = r.inputs[1].matrix::<u8>();
        if self.transposed {
            (b.col, b.row)
        } else {
            (b.row, b.col)
        }
    }

    /// Whether rows lie as they are read here, and whether the memory that this kernel asks for is enough for these
    /// rows and columns: a plan may have other tiles than shapes of this size.
    fn holds(&self, r: &Run<'_>) -> bool {
        let fits = if self.one_tile() {
            r.n == self.rows && r.columns.1 - r.columns.0 <= self.task_columns
        } else {
            r.n <= tile_rows(self.rows) && r.columns.0.is_multiple_of(PANEL) && r.columns.1 == self.columns
        };
        fits && r.inputs[0].matrix::<u8>().col == 1 && r.outputs[0].rows::<u8>().col == 1
    }

    /// Computes a tile, or a task's columns of it.
    fn run<N: Word>(&self, right: Right, r: &Run<'_>) {
        let (a, y) = (r.inputs[0].matrix::<N>(), r.y(0));
        let (first, end) = r.columns;
        let (k, column) = self.strides(r);
        let (read, written) = (
            r.scratch.cast::<*const u8>(),
            r.scratch.cast::<*mut f32>().wrapping_add(r.n),
        );
        let left = Left {
            pointers: read,
            apart: 0,
            rows: r.n,
            zeros: std::ptr::null(),
        };
        // SAFETY: see `Run`; the scratch has room for the pointers and for the columns of a task, `prepare` has packed
        // the panels of all columns, and the tile's columns are this task's.
        unsafe {
            for i in 0..r.n {
                read.add(i).write(a.at(i).cast_const().cast());
                written.add(i).write(y.at(i));
            }
            if !self.one_tile() {
                return right.multiply::<N>(left, (r.shared, first..self.columns), written, false);
            }
            let packed = r.scratch.add((2 * r.n * size_of::<usize>()).next_multiple_of(64));
            for i in 0..r.n {
                *written.add(i) = (*written.add(i)).add(first);
            }
            for from in (0..self.k).step_by(BLOCK) {
                let Some(block) = Right::new::<N>(1, (self.k - from).min(BLOCK), end - first) else {
                    unreachable!("blocks of whole words");
                };
                let b = r.inputs[1].matrix::<N>().ptr.add(from * k + first * column);
                let count = (self.k - from).min(BLOCK);
                block.pack((0, 0..block.panels()), (0, count), b.cast_const(), (k, column), packed);
                block.multiply::<N>(left, (packed, 0..end - first), written, from > 0);
                for i in 0..r.n {
                    *read.add(i) = (*read.add(i)).add((self.k - from).min(BLOCK) / N::NUMBERS * WORD);
                }
            }
        }
    }

    /// Packs a panel before the tiles.
    pub(crate) fn prepare<N: Word>(&self, right: Right, r: &Run<'_>, panel: usize) {
        let b = r.inputs[1].matrix::<N>().ptr.cast_const();
        // SAFETY: see `Run`; the plan gives the product its shared memory, and each task writes its own part of it.
        unsafe { right.pack((0, panel..panel + 1), (0, self.k), b, self.strides(r), r.shared) };
    }
}

/// The kernel of a product by words where that is worth it, with the memory that it takes on machines of every kind, so
/// that plans do not depend on them. Rows that lie otherwise run `plain`.
pub(crate) fn by_words<N: Word>(shape: Shape, plain: RowKernel) -> RowKernel {
    let (Some(right), Some(own)) = (shape.right::<N>(), shape.scratch::<N>()) else {
        return plain;
    };
    if !N::is_worth_rows(shape.rows, shape.k, shape.columns) || own.shared > MOST_SHARED {
        return plain;
    }
    let Scratch { worker, shared } = plain.scratch;
    let kernel = plain.with_scratch(worker.max(own.worker), shared.max(own.shared));
    if !N::packs_factors() {
        return kernel;
    }
    let prepare = Prepare {
        tasks: if shape.one_tile() { 0 } else { right.panels() },
        run: Box::new(move |r, task| shape.prepare::<N>(right, r, task)),
    };
    kernel.prepared(prepare, move |r, plain| {
        if shape.holds(r) {
            shape.run::<N>(right, r);
        } else {
            plain(r);
        }
    })
}
