//! Products of stacks of matrices, and of transposed ones, over any strides. A large product of two matrices over their
//! rows, such as the gradient of a weight, is added up slice by slice of the rows, so that it has the same bits where
//! the slices come one after another.

use std::collections::VecDeque;
use std::ops::Range;

use lessen_graph::{Type, numel, ops};

use super::gemm::gemm;
use super::gemm_bf16::{gemm_bf16, widened_bytes};
use crate::kernels::elementwise::cast::Bf16;
#[cfg(target_arch = "x86_64")]
use crate::kernels::kernel::Work;
use crate::kernels::kernel::{Kernel, Reads, Round, TaskFn, Types, WholeKernel};
use crate::kernels::rows::Rows;
#[cfg(target_arch = "x86_64")]
use crate::kernels::x86::amx;
#[cfg(target_arch = "x86_64")]
use crate::kernels::x86::words;
use crate::tiles::SLICE_ROWS;

/// The fewest elements of a product over rows that is added up slice by slice: smaller ones are cut along the rows
/// among threads.
const LEAST_SLICED: usize = 1 << 16;

/// Elements of a sum that one task copies.
const COPIED: usize = 1 << 16;

/// The kernel of a product that is no product of rows with a shared matrix.
pub(crate) fn stack(op: &ops::MatMul, types: &Types<'_>) -> WholeKernel {
    let product = Product::of(*op, types, false);
    let slices = product.is_sliced().then_some(SLICE_ROWS);
    product.kernel().in_slices(slices)
}

/// The kernel of [`ops::AddMatMul`].
pub(crate) fn add_matmul_kernel(op: &ops::AddMatMul, types: &Types<'_>) -> Option<Kernel> {
    let is_read = op.widens || types.floats_are_f32();
    is_read.then(|| Product::of(op.product(), types, true).kernel().into())?
}

/// A product, or one that is added to input 2.
#[derive(Clone)]
struct Product {
    op: ops::MatMul,
    a: Type,
    b: Type,
    m: usize,
    k: usize,
    n: usize,
    batch: usize,
    adds: bool,
}

/// How far the rows and columns of a matrix lie apart.
type Steps = (isize, isize);

impl Product {
    fn of(op: ops::MatMul, types: &Types<'_>, adds: bool) -> Product {
        let (a, b) = (types.inputs[0].clone(), types.inputs[1].clone());
        let (m, k, n) = op.sizes(&a, &b);
        let batch = numel(&a.shape[..a.rank() - 2]);
        Product {
            op,
            a,
            b,
            m,
            k,
            n,
            batch,
            adds,
        }
    }

    /// Whether the rows are added up slice by slice.
    fn is_sliced(&self) -> bool {
        self.op.transpose_a && !self.op.transpose_b && self.a.rank() == 2 && self.m * self.n >= LEAST_SLICED
    }

    /// The slices of `k`.
    fn slices(&self) -> Vec<Range<usize>> {
        let step = if self.is_sliced() { SLICE_ROWS } else { self.k.max(1) };
        let begins = (0..self.k.max(1)).step_by(step);
        begins.map(|begin| begin..self.k.min(begin + step)).collect()
    }

    fn kernel(self) -> WholeKernel {
        let (m, n, widens) = (self.m, self.n, self.op.widens);
        #[cfg(target_arch = "x86_64")]
        let scratch = self.packed_scratch();
        let kernel = WholeKernel::rounds(move |strides| self.rounds(strides))
            .reading(0, Reads::Any)
            .reading(1, Reads::Any);
        let kernel = if widens {
            kernel.with_scratch(widened_bytes(m, n))
        } else {
            kernel
        };
        #[cfg(target_arch = "x86_64")]
        let kernel = match scratch {
            Some((shared, worker)) => {
                let worker = kernel.scratch.worker.max(worker);
                kernel.with_shared(shared).with_scratch(worker)
            }
            None => kernel,
        };
        kernel
    }

    fn rounds(&self, strides: &[Vec<usize>]) -> Vec<Round> {
        if self.batch * self.m * self.n == 0 {
            return Vec::new();
        }
        let matrix = |strides: &[usize], transposed: bool| -> Steps {
            let (row, col) = (strides[strides.len() - 2] as isize, strides[strides.len() - 1] as isize);
            if transposed { (col, row) } else { (row, col) }
        };
        let (a, b) = (
            matrix(&strides[0], self.op.transpose_a),
            matrix(&strides[1], self.op.transpose_b),
        );
        let mut rounds = Vec::new();
        if self.adds {
            rounds.push(self.copied());
        }
        let mut left = VecDeque::from(self.slices());
        #[cfg(target_arch = "x86_64")]
        while let Some(slice) = left.front()
            && let Some(packed) = self.packed(slice, a, b)
        {
            rounds.extend(packed);
            left.pop_front();
        }
        if !left.is_empty() {
            rounds.push(self.tiled(left.into(), strides, a, b));
        }
        rounds
    }

    /// Copies the sum to the result, unless it lies there.
    fn copied(&self) -> Round {
        let len = self.m * self.n;
        Round {
            tasks: len.div_ceil(COPIED),
            run: Box::new(move |w, task| {
                let (from, first) = (w.x(2), task * COPIED);
                // SAFETY: see `Work`; tasks have elements of their own, and two operands are the same or apart.
                unsafe {
                    if !std::ptr::eq(from, w.y(0)) {
                        let count = COPIED.min(len - first);
                        w.y(0).add(first).copy_from_nonoverlapping(from.add(first), count);
                    }
                }
            }),
        }
    }

    /// The rounds of a slice by a kernel that packs both factors, where there is such a kernel.
    #[cfg(target_arch = "x86_64")]
    fn packed(&self, slice: &Range<usize>, a: Steps, b: Steps) -> Option<Vec<Round>> {
        if self.batch != 1 {
            return None;
        }
        let adds = self.adds || slice.start > 0;
        let part = Product {
            k: slice.len(),
            ..self.clone()
        };
        let by_words = || {
            let steps = |line: isize, k: isize| words::whole::Strides {
                line: line as usize,
                k: k as usize,
            };
            let factors = (steps(a.0, a.1), steps(b.1, b.0));
            if self.op.widens {
                part.words().rounds::<Bf16>(factors.0, factors.1, adds)
            } else {
                part.words().rounds::<f32>(factors.0, factors.1, adds)
            }
        };
        let by_panels = || {
            let factors = ((a.0 as usize, a.1 as usize), (b.0 as usize, b.1 as usize));
            part.panels().rounds(factors.0, factors.1, adds)
        };
        let rounds = by_words().or_else(by_panels)?;
        let size = self.a.dtype.bytes();
        let bytes = [a.1, b.0].map(|step| slice.start * step as usize * size);
        Some(rounds.into_iter().map(|round| moved(round, bytes)).collect())
    }

    #[cfg(target_arch = "x86_64")]
    fn panels(&self) -> amx::whole::Extents {
        amx::whole::Extents {
            m: self.m,
            k: self.k,
            n: self.n,
            of_bf16: self.op.widens,
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn words(&self) -> words::whole::Extents {
        words::whole::Extents {
            m: self.m,
            k: self.k,
            n: self.n,
        }
    }

    /// Bytes of scratch that workers share, and bytes of scratch of each worker, for kernels that pack; none where no
    /// kernel packs.
    #[cfg(target_arch = "x86_64")]
    fn packed_scratch(&self) -> Option<(usize, usize)> {
        if self.a.numel() != self.m * self.k {
            return None;
        }
        let first = Product {
            k: self.slices()[0].len(),
            ..self.clone()
        };
        let (shared, worker) = if self.op.widens {
            first.words().scratch::<Bf16>()
        } else {
            first.words().scratch::<f32>()
        };
        Some((first.panels().shared().max(shared), worker))
    }

    /// The round of the tiles of the result; each tile adds up some slices of `k`.
    fn tiled(&self, slices: Vec<Range<usize>>, strides: &[Vec<usize>], a_steps: Steps, b_steps: Steps) -> Round {
        let (m, n, batch, widens) = (self.m, self.n, self.batch, self.op.widens);
        let lead: Vec<usize> = self.a.shape[..self.a.rank() - 2].to_vec();
        let a_lead = strides[0][..lead.len()].to_vec();
        let b_lead = if self.b.rank() == 2 {
            vec![0; lead.len()]
        } else {
            strides[1][..lead.len()].to_vec()
        };
        let (tm, tn) = tiles(m, n, batch);
        let (rows, cols) = (m.div_ceil(tm), n.div_ceil(tn));
        let adds = self.adds;
        let ((a_row, a_col), (b_row, b_col)) = (a_steps, b_steps);
        let run: TaskFn = Box::new(move |w, task| {
            let (tile, mut rest) = (task % (rows * cols), task / (rows * cols));
            let (i, j) = (tile / cols * tm, tile % cols * tn);
            let (mut a_at, mut b_at, at) = (0, 0, rest * m * n);
            for axis in (0..lead.len()).rev() {
                a_at += rest % lead[axis] * a_lead[axis];
                b_at += rest % lead[axis] * b_lead[axis];
                rest /= lead[axis];
            }
            let (m, n_of_tile) = (tm.min(m - i), tn.min(n - j));
            for slice in &slices {
                let (first, k, accumulate) = (slice.start, slice.len(), adds || slice.start > 0);
                let a_at = a_at + first * a_col as usize + i * a_row as usize;
                let b_at = b_at + first * b_row as usize + j * b_col as usize;
                // SAFETY: see `Work`; the tile lies within the result, tiles do not overlap.
                unsafe {
                    if widens {
                        let rows = |ptr: *const Bf16, at: usize, row: isize, col: isize| Rows {
                            ptr: ptr.add(at).cast_mut(),
                            row: row as usize,
                            col: col as usize,
                        };
                        let a = rows(w.strided(0), a_at, a_row, a_col);
                        let b = rows(w.strided(1), b_at, b_row, b_col);
                        let y = Rows::dense(w.y(0).add(at + i * n + j), n);
                        gemm_bf16((m, k, n_of_tile), a, b, y, accumulate, w.scratch.cast());
                        continue;
                    }
                    gemm(
                        m,
                        k,
                        n_of_tile,
                        (w.strided::<f32>(0).add(a_at), a_row, a_col),
                        (w.strided::<f32>(1).add(b_at), b_row, b_col),
                        (w.y(0).add(at + i * n + j), n as isize, 1),
                        accumulate,
                    );
                }
            }
        });
        Round {
            tasks: batch * rows * cols,
            run,
        }
    }
}

/// A round whose factors begin `bytes` bytes after the factors of the step.
#[cfg(target_arch = "x86_64")]
fn moved(round: Round, bytes: [usize; 2]) -> Round {
    let Round { tasks, run } = round;
    if bytes == [0, 0] {
        return Round { tasks, run };
    }
    Round {
        tasks,
        run: Box::new(move |w, task| {
            let inputs = [0, 1].map(|i| w.inputs[i].from(bytes[i]));
            run(&Work { inputs: &inputs, ..*w }, task);
        }),
    }
}

/// The extents of the tiles that a product's result is cut into: about 192 by 384, smaller where there would be fewer
/// tasks than a few threads need.
fn tiles(m: usize, n: usize, batch: usize) -> (usize, usize) {
    let (mut tm, mut tn) = (192.min(m).max(1), 384.min(n).max(1));
    while batch * m.div_ceil(tm) * n.div_ceil(tn) < 8 && tm.max(tn) > 64 {
        if tm >= tn {
            tm = tm.div_ceil(2)
        } else {
            tn = tn.div_ceil(2)
        }
    }
    let even = |size: usize, tile: usize| size.div_ceil(size.div_ceil(tile)).div_ceil(16) * 16;
    (even(m, tm), even(n, tn))
}
