//! Convolution without patches: products of the pixels that windows read, where they lie, with the packed weight.

use std::sync::Arc;

use super::super::kernel::{Round, WholeKernel};
use super::super::words::right::{Left, Right};
use super::blocks::{BLOCK, Blocks, Cut};
use super::factor::Factor;
use super::products::Products;
use super::reads::Pixels;
use super::sums::Sums;

/// A convolution without patches: its packed weight, and its memory, which is the same on all machines.
#[derive(Clone, Copy)]
pub(super) struct Direct {
    products: Products,
    right: Right,
    sums: Sums,
    cut: Cut,
    /// Bytes of the zeros that stand for padding, of the packed weight of a group, and of the table of pixels that
    /// blocks read.
    zeros: usize,
    packed: usize,
    table: usize,
}

impl Direct {
    /// Of a convolution whose numbers make whole words.
    fn of<N: Factor>(products: Products, narrow: bool) -> Option<Direct> {
        let right = Right::new::<N>(products.count(), products.inputs, products.outputs)?;
        let cut = Cut::of(products.images, products.image);
        Some(Direct {
            cut,
            table: cut.table(products.count()),
            products,
            right,
            sums: Sums::new(narrow, products),
            zeros: (products.inputs * size_of::<N>()).next_multiple_of(64),
            packed: right.bytes().next_multiple_of(64),
        })
    }

    /// Bytes that all workers share.
    fn shared(&self) -> usize {
        self.zeros + self.products.groups * self.packed + self.table
    }

    /// The rounds: the weight is packed, tap by tap, the table is filled, and blocks are multiplied.
    fn rounds<N: Factor>(self, read: Pixels<usize>) -> Vec<Round> {
        let p = self.products;
        let taps = p.count();
        let blocks = Arc::new(Blocks::new(read, p.taps, self.cut));
        let table_at = self.zeros + p.groups * self.packed;
        let has_table = blocks.table_tasks::<N>() > 0;
        let in_table = blocks.clone();
        let pack = Round {
            tasks: p.groups * taps + blocks.table_tasks::<N>(),
            run: Box::new(move |w, task| {
                if let Some(block) = task.checked_sub(p.groups * taps) {
                    // SAFETY: see `Work`; the shared scratch has room for the table.
                    return unsafe { in_table.fill::<N>(block, w.shared.add(table_at)) };
                }
                let (group, tap) = (task / taps, task % taps);
                // SAFETY: see `Work`; the shared scratch has room for the zeros and the weight.
                unsafe {
                    if task == 0 {
                        w.shared.write_bytes(0, self.zeros);
                    }
                    let from = w.inputs[1].cast::<N>().add(tap + group * p.group_stride);
                    let to = w.shared.add(self.zeros + group * self.packed);
                    (self.right).pack(
                        (tap, 0..self.right.panels()),
                        from.cast_const(),
                        (p.input_stride, p.output_stride),
                        to,
                    );
                }
            }),
        };
        let multiply = Round {
            tasks: self.cut.count(),
            run: Box::new(move |w, task| {
                let block = self.cut.block(task);
                for group in 0..p.groups {
                    // SAFETY: see `Work`; the scratch has room for the pointers of a block, and the round before has
                    // packed the weights.
                    unsafe {
                        let x = w.inputs[0].cast::<N>().add(group * p.inputs).cast_const();
                        let room = w.scratch.add(Blocks::scratch(taps));
                        let (y, row) = self.sums.begin(w.outputs[0], room, block.start, group);
                        let (x, zeros) = (x, w.shared.cast_const());
                        let table = has_table.then(|| w.shared.add(table_at).cast_const());
                        let pointers = blocks.point::<N>(task, (x, zeros), (y, row), table, w.scratch);
                        let left = Left {
                            pointers: pointers.read,
                            apart: BLOCK,
                            rows: block.len(),
                            zeros: w.shared,
                        };
                        let packed = w.shared.add(self.zeros + group * self.packed);
                        let panels = 0..self.right.panels();
                        (self.right).multiply::<N>(left, (packed, panels), pointers.written, false);
                        self.sums.end(w.outputs[0], room, block.clone(), group);
                    }
                }
            }),
        };
        vec![pack, multiply]
    }
}

/// The kernel, where the machine has vectors for it; elsewhere the kernel `other`, with memory for either kernel.
pub(super) fn direct<N: Factor>(
    products: Products,
    read: impl Fn() -> Pixels<usize> + Send + Sync + 'static,
    narrow: bool,
    other: WholeKernel,
) -> WholeKernel {
    let Some(direct) = Direct::of::<N>(products, narrow) else {
        return other;
    };
    let shared = direct.shared().max(other.scratch.shared);
    let own = Blocks::scratch(products.count()) + direct.sums.bytes(BLOCK);
    let worker = own.max(other.scratch.worker);
    let kernel = if N::is_used() {
        WholeKernel::rounds(move |_| direct.rounds::<N>(read()))
    } else {
        other
    };
    kernel.with_shared(shared).with_scratch(worker)
}
