//! Convolution without patches: products of the pixels that windows read, where they lie, with the packed weight.
//!
//! A tap of a window is a run of the pixel's channels. Where windows reach into no padding at the left and right, the
//! taps of a row lie side by side, and are one run. A weight that never changes is packed once.

use std::sync::Arc;

use super::super::kernel::{FixedInput, Round, TaskFn, WholeKernel, Work};
use super::super::rows::Rows;
use super::blocks::{BLOCK, Blocks, Cut};
use super::products::Products;
use super::reads::Pixels;
use super::sums::{Block, Sums};
use crate::kernels::codes::sums::column_sums;
use crate::kernels::x86::words::Word;
use crate::kernels::x86::words::right::{Left, Right};

/// The tasks that few blocks are cut into by columns, and the multiplications that are worth one.
const TASKS: usize = 8;
const TASK: usize = 1 << 16;

/// Columns of a task: whole panels of the packed weight, or a few of its vectors.
const PANEL: usize = 64;
const LEAST: usize = 32;

/// A convolution without patches: its packed weight, and its memory, which is the same on all machines.
#[derive(Clone, Copy)]
pub(super) struct Direct {
    products: Products,
    right: Right,
    sums: Sums,
    cut: Cut,
    /// The byte of the numbers that stand for padding.
    padding: u8,
    /// Bytes of the zeros that stand for padding, of the packed weight of a group, and of the table of pixels that
    /// blocks read.
    zeros: usize,
    packed: usize,
    table: usize,
}

/// Where the packed weight is, after its zeros.
#[derive(Clone, Copy)]
enum Weight {
    /// In the memory that all workers share, before the table.
    Shared,
    /// In the place of an input.
    Input,
}

impl Direct {
    /// Of a convolution whose numbers make whole words.
    fn of<N: Word>(products: Products, sums: Sums, padding: u8) -> Option<Direct> {
        let joined = products.joined;
        let runs = products.count() / joined;
        let whole = products.inputs.is_multiple_of(N::NUMBERS);
        let right = Right::new::<N>(runs, joined * products.inputs, products.outputs).filter(|_| whole)?;
        let cut = Cut::of(products.images, products.image);
        Some(Direct {
            cut,
            table: cut.table(runs),
            products,
            right,
            sums,
            padding,
            zeros: (joined * products.inputs * size_of::<N>()).next_multiple_of(64),
            packed: right.bytes().next_multiple_of(64),
        })
    }

    /// Runs of a pixel.
    fn runs(&self) -> usize {
        self.products.count() / self.products.joined
    }

    /// Where the sums of the levels of the weight's channels are, after the zeros and the packed weight, if numbers
    /// are codes.
    fn levels(&self) -> usize {
        self.zeros + self.products.groups * self.packed
    }

    /// Bytes of the zeros, the packed weight and these sums.
    fn weight_bytes(&self) -> usize {
        let channels = if self.sums.are_of_codes() {
            self.products.groups * self.products.outputs
        } else {
            0
        };
        self.levels() + (channels * size_of::<i32>()).next_multiple_of(64)
    }

    /// Tasks that pack the weight: one for each tap of a group and, where numbers are codes, one for each group.
    fn pack_tasks(&self) -> usize {
        self.products.groups * (self.products.count() + usize::from(self.sums.are_of_codes()))
    }

    /// Bytes that all workers share.
    fn shared(&self) -> usize {
        self.weight_bytes() + self.table
    }

    /// Packs a tap of a group of the weight into memory for zeros and the packed weight; the first task writes the
    /// zeros.
    ///
    /// # Safety
    /// `weight` has the weight, `to` has [`Direct::weight_bytes`], and nobody else accesses the tap.
    unsafe fn pack<N: Word>(&self, task: usize, weight: *const N, to: *mut u8) {
        let p = self.products;
        let (group, tap) = (task / p.count(), task % p.count());
        if group >= p.groups {
            // SAFETY: passed on.
            return unsafe { self.add_levels(task - p.groups * p.count(), weight.cast(), to) };
        }
        // SAFETY: passed on.
        unsafe {
            if task == 0 {
                to.write_bytes(self.padding, self.zeros);
            }
            let from = weight.wrapping_add(tap * p.tap_stride + group * p.group_stride);
            let first = tap % p.joined * p.inputs;
            self.right.pack(
                (tap / p.joined, 0..self.right.panels()),
                (first, p.inputs),
                from,
                (p.input_stride, p.output_stride),
                to.add(self.zeros + group * self.packed),
            );
        }
    }

    /// Writes the sums of the levels of a group's channels, whose codes lie side by side.
    ///
    /// # Safety
    /// As for [`Direct::pack`].
    unsafe fn add_levels(&self, group: usize, weight: *const u8, to: *mut u8) {
        let p = self.products;
        let of_group = Rows::dense(weight.wrapping_add(group * p.group_stride).cast_mut(), p.output_stride);
        let sums = to
            .wrapping_add(self.levels())
            .cast::<i32>()
            .wrapping_add(group * p.outputs);
        // SAFETY: the weight has the group's channels, and the memory their sums.
        unsafe { column_sums(0..p.outputs, p.count() * p.inputs, of_group, sums) };
    }

    /// The rounds: the weight is packed, tap by tap, the table is filled, and blocks are multiplied.
    fn rounds<N: Word>(self, read: Pixels<usize>) -> Vec<Round> {
        let taps = self.pack_tasks();
        let blocks = Arc::new(self.blocks(read));
        let fill = self.fill::<N>(blocks.clone());
        let pack = Round {
            tasks: taps + fill.tasks,
            run: Box::new(move |w, task| match task.checked_sub(taps) {
                Some(block) => (fill.run)(w, block),
                // SAFETY: see `Work`; the shared scratch has room for the zeros and the weight.
                None => unsafe { self.pack::<N>(task, w.dense::<N>(self.weight()), w.shared) },
            }),
        };
        vec![pack, self.multiply::<N>(blocks, Weight::Shared)]
    }

    /// The replacement of the rounds where the weight never changes.
    fn fixed<N: Word>(self, read: Pixels<usize>) -> FixedInput {
        let blocks = Arc::new(self.blocks(read));
        FixedInput {
            input: self.weight(),
            bytes: self.weight_bytes(),
            pack: Round {
                tasks: self.pack_tasks(),
                // SAFETY: see `Work`; the packed weight has memory of its own.
                run: Box::new(move |w, task| unsafe {
                    self.pack::<N>(task, w.dense::<N>(self.weight()), w.shared);
                }),
            },
            rounds: vec![
                self.fill::<N>(blocks.clone()),
                self.multiply::<N>(blocks, Weight::Input),
            ],
        }
    }

    /// The number of the operand that is the weight.
    fn weight(&self) -> usize {
        if self.sums.are_of_codes() { 2 } else { 1 }
    }

    fn blocks(&self, read: Pixels<usize>) -> Blocks {
        let [rows, columns] = self.products.taps;
        Blocks::new(read, [rows, columns / self.products.joined], self.cut)
    }

    /// Fills the table, if there is one.
    fn fill<N: Word>(self, blocks: Arc<Blocks>) -> Round {
        let at = self.weight_bytes();
        Round {
            tasks: blocks.table_tasks::<N>(),
            // SAFETY: see `Work`; the shared scratch has room for the table.
            run: Box::new(move |w, block| unsafe { blocks.fill::<N>(block, w.shared.add(at)) }),
        }
    }

    /// The columns of a task, and the tasks of a block: several where there are few blocks and each is much work.
    fn columns(&self) -> (usize, usize) {
        let p = self.products;
        let factors = [p.count(), p.inputs, p.outputs];
        let work = factors.into_iter().fold(self.cut.pixels(), usize::saturating_mul);
        let wanted = (TASKS / self.cut.count().max(1)).min(work / TASK).max(1);
        let even = p.outputs.div_ceil(wanted);
        let columns = even.next_multiple_of(if even >= PANEL { PANEL } else { LEAST });
        if (self.sums.is_apart() && !self.sums.are_of_codes()) || columns >= p.outputs {
            return (p.outputs, 1);
        }
        (columns, p.outputs.div_ceil(columns))
    }

    /// Multiplies blocks of pixels with the packed weight.
    fn multiply<N: Word>(self, blocks: Arc<Blocks>, weight: Weight) -> Round {
        let p = self.products;
        let has_table = blocks.table_tasks::<N>() > 0;
        let (columns, parts) = self.columns();
        let run: TaskFn = Box::new(move |w: &Work<'_>, task| {
            let (task, part) = (task / parts, task % parts);
            let columns = part * columns..p.outputs.min((part + 1) * columns);
            let block = self.cut.block(task);
            let zeros = match weight {
                Weight::Shared => w.shared.cast_const(),
                Weight::Input => w.packed(self.weight()),
            };
            for group in 0..p.groups {
                // SAFETY: see `Work`; the scratch has room for the pointers of a block, and the weight is packed.
                unsafe {
                    let x = w.dense::<N>(0).add(group * p.inputs);
                    let of_block = Block {
                        pixels: block.clone(),
                        group,
                        room: w.scratch.add(Blocks::scratch(self.runs())),
                        levels: zeros.wrapping_add(self.levels()).cast(),
                    };
                    let (y, row) = self.sums.begin(w.outputs[0], &of_block);
                    let table = has_table.then(|| w.shared.add(self.weight_bytes()).cast_const());
                    let pointers = blocks.point::<N>(task, (x, zeros), (y, row), table, w.scratch);
                    let left = Left {
                        pointers: pointers.read,
                        apart: BLOCK,
                        rows: block.len(),
                        // Padding of codes has a sum.
                        zeros: if self.sums.are_of_codes() {
                            std::ptr::null()
                        } else {
                            zeros
                        },
                    };
                    let packed = zeros.add(self.zeros + group * self.packed);
                    (self.right).multiply::<N>(left, (packed, columns.clone()), pointers.written, false);
                    self.sums.end(w, &of_block, columns.clone());
                }
            }
        });
        Round {
            tasks: self.cut.count() * parts,
            run,
        }
    }
}

/// The kernel of products with these sums and bytes of padding, where the machine has vectors for it; elsewhere the
/// kernel `other`, with memory for either kernel. `read` has the first tap of each run.
pub(super) fn direct<N: Word>(
    (products, sums, padding): (Products, Sums, u8),
    read: impl Fn() -> Pixels<usize> + Clone + Send + Sync + 'static,
    other: WholeKernel,
) -> WholeKernel {
    let Some(direct) = Direct::of::<N>(products, sums, padding) else {
        return other;
    };
    let shared = direct.shared().max(other.scratch.shared);
    let own = Blocks::scratch(direct.runs()) + direct.sums.bytes(BLOCK);
    let worker = own.max(other.scratch.worker);
    let fixed = read.clone();
    let kernel = if N::is_used() {
        WholeKernel::rounds(move |_| direct.rounds::<N>(read()))
    } else {
        other
    };
    // Tiles would have patches of any number of pixels written first.
    let kernel = if N::is_packed(0) {
        kernel.with_fixed(move || direct.fixed::<N>(fixed()))
    } else {
        kernel
    };
    kernel.with_shared(shared).with_scratch(worker)
}
