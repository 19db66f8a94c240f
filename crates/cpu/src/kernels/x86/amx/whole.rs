//! A product of two matrices, other than rows times one shared matrix, such as the gradient of a weight: block by block
//! of `k`, all threads pack both factors, and then compute.

use super::block::{Factor, Packed, Product, multiply};
use super::number::Number;
use super::tiles::Tiles;
use super::{MOST_SHARED, PANEL, STEP, STRIP, TILE_BYTES, is_used, is_worth, steps_of_block};
use crate::kernels::elementwise::cast::Bf16;
use crate::kernels::kernel::{Round, TaskFn};
use crate::kernels::products::gemm::gemm;

/// The least steps of `k` that are packed at a time, and the most.
const STEPS: (usize, usize) = (4, 16);

/// Rows and columns of one task.
const TASK: (usize, usize) = (128, 128);

/// The extents of a product.
#[derive(Clone, Copy)]
pub(crate) struct Extents {
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
    /// Whether the factors are `bf16`.
    pub(crate) of_bf16: bool,
}

impl Extents {
    fn parts(&self) -> usize {
        if self.of_bf16 { Bf16::PARTS } else { f32::PARTS }
    }

    fn strips(&self) -> usize {
        self.m.div_ceil(STRIP)
    }

    fn panels(&self) -> usize {
        self.n.div_ceil(PANEL)
    }

    fn flags(&self) -> usize {
        (self.panels() + self.strips()).next_multiple_of(64)
    }

    /// Bytes of one step of all strips and panels.
    fn step_bytes(&self) -> usize {
        (self.strips() + 2 * self.panels()) * self.parts() * TILE_BYTES
    }

    /// Steps of one block of `k`; none where even few take too much memory.
    fn block(&self) -> Option<usize> {
        if !is_worth(self.m, self.k, self.n) {
            return None;
        }
        let most = (MOST_SHARED / self.step_bytes()).min(STEPS.1);
        (most >= STEPS.0).then(|| steps_of_block(self.k, most))
    }

    /// The memory that the product takes on machines of every kind, so that plans do not depend on them.
    pub(crate) fn shared(&self) -> usize {
        self.block().map_or(0, |block| self.flags() + block * self.step_bytes())
    }

    /// The rounds of the product, where it is computed here, for factors whose elements lie `a` and `b` apart: along
    /// rows and along columns; with `adds` it is added to the present elements of the result.
    pub(crate) fn rounds(self, a: (usize, usize), b: (usize, usize), adds: bool) -> Option<Vec<Round>> {
        let block = self.block().filter(|_| is_used())?;
        let steps = self.k.div_ceil(STEP);
        let blocks = (0..steps).step_by(block).map(move |first| StepBlock {
            extents: self,
            first,
            steps: block.min(steps - first),
            a,
            b,
            adds,
        });
        Some(if self.of_bf16 {
            blocks.flat_map(StepBlock::rounds::<Bf16>).collect()
        } else {
            blocks.flat_map(StepBlock::rounds::<f32>).collect()
        })
    }
}

/// A block of `k` of a product.
#[derive(Clone, Copy)]
struct StepBlock {
    extents: Extents,
    /// Its first step, and how many it has.
    first: usize,
    steps: usize,
    a: (usize, usize),
    b: (usize, usize),
    /// Whether the result holds a sum before the first block.
    adds: bool,
}

impl StepBlock {
    fn rounds<N: Number>(self) -> [Round; 2] {
        let Extents { m, n, .. } = self.extents;
        let (rows, columns) = (m.div_ceil(TASK.0), n.div_ceil(TASK.1));
        let pack: TaskFn = Box::new(move |w, task| self.pack::<N>((w.strided(0), w.strided(1)), w.shared, task));
        let compute: TaskFn = Box::new(move |w, task| {
            let (i, j) = (task / columns * TASK.0, task % columns * TASK.1);
            self.compute::<N>((w.strided(0), w.strided(1)), w.shared, (i, j), w.y(0));
        });
        [
            Round {
                tasks: self.extents.panels() + self.extents.strips(),
                run: pack,
            },
            Round {
                tasks: rows * columns,
                run: compute,
            },
        ]
    }

    /// Where panels and strips begin.
    fn places<N: Number>(&self, shared: *mut u8) -> (*mut u8, *mut u8) {
        let panels = shared.wrapping_add(self.extents.flags());
        let bytes = self.extents.panels() * self.steps * N::PANEL_BYTES;
        (panels, panels.wrapping_add(bytes))
    }

    /// Packs a panel or a strip.
    fn pack<N: Number>(&self, (a, b): (*const N, *const N), shared: *mut u8, task: usize) {
        let Extents { m, k, n, .. } = self.extents;
        let steps = self.first..self.first + self.steps;
        let (panels, strips) = self.places::<N>(shared);
        // SAFETY: see `Work`; the plan gives the product its shared memory, and each task writes its own part of it.
        unsafe {
            let finite = if task < self.extents.panels() {
                let right = Factor {
                    ptr: b,
                    line: self.b.1,
                    k: self.b.0,
                    lines: n,
                    depth: k,
                };
                right.pack_panel(task, steps, panels.add(task * self.steps * N::PANEL_BYTES))
            } else {
                let strip = task - self.extents.panels();
                let left = Factor {
                    ptr: a,
                    line: self.a.0,
                    k: self.a.1,
                    lines: m,
                    depth: k,
                };
                left.pack_strip(strip, steps, strips.add(strip * self.steps * N::STRIP_BYTES))
            };
            *shared.add(task) = u8::from(finite);
        }
    }

    /// Computes the rows and columns of a task.
    fn compute<N: Number>(
        &self,
        factors: (*const u8, *const u8),
        shared: *mut u8,
        (i, j): (usize, usize),
        y: *mut f32,
    ) {
        let Extents { m, k, n, .. } = self.extents;
        let (rows, columns) = (i..m.min(i + TASK.0), j..n.min(j + TASK.1));
        let (panels, strips) = self.places::<N>(shared);
        let accumulate = self.adds || self.first > 0;
        let first_strip = self.extents.panels();
        let mut flags = (i / STRIP..rows.end.div_ceil(STRIP))
            .map(|strip| first_strip + strip)
            .chain(j / PANEL..columns.end.div_ceil(PANEL));
        // SAFETY: see `Work`; the round before has packed all strips and panels, and tasks have rows and columns of
        // their own.
        unsafe {
            // Tiles hold every number of `bf16`, so the factors are `f32`.
            if !flags.all(|flag| *shared.add(flag) == 1) {
                let from = self.first * STEP;
                let depth = (self.steps * STEP).min(k - from);
                let (a, b) = (self.a, self.b);
                return gemm(
                    rows.len(),
                    depth,
                    columns.len(),
                    (
                        factors.0.cast::<f32>().add(i * a.0 + from * a.1),
                        a.0 as isize,
                        a.1 as isize,
                    ),
                    (
                        factors.1.cast::<f32>().add(from * b.0 + j * b.1),
                        b.0 as isize,
                        b.1 as isize,
                    ),
                    (y.add(i * n + j), n as isize, 1),
                    accumulate,
                );
            }
            let c = Product { ptr: y, row: n, col: 1 };
            let strips = Packed {
                ptr: strips,
                apart: self.steps * N::STRIP_BYTES,
            };
            let panels = Packed {
                ptr: panels,
                apart: self.steps * N::PANEL_BYTES,
            };
            let tiles = Tiles::configure();
            multiply::<N>(&tiles, self.steps, (strips, rows), (panels, columns), c, accumulate);
        }
    }
}
