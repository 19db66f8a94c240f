//! Where the sums of a block of pixels are: in the result itself, or in memory of the worker where it is `bf16`.

use std::ops::Range;

use lessen_graph::DType;

use super::super::cast::{Bf16, cast};
use super::super::rows::Rows;
use super::products::Products;

/// The sums of a convolution.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    /// Whether the result is `bf16`.
    narrow: bool,
    /// Channels of a group of the result, and of all.
    group: usize,
    all: usize,
}

impl Sums {
    pub(super) fn new(narrow: bool, products: Products) -> Sums {
        Sums {
            narrow,
            group: products.outputs,
            all: products.groups * products.outputs,
        }
    }

    /// Whether the result is `bf16`.
    pub(super) fn is_narrow(&self) -> bool {
        self.narrow
    }

    /// Bytes of each worker for blocks of this many pixels.
    pub(super) fn bytes(&self, pixels: usize) -> usize {
        if self.narrow {
            pixels * self.group * size_of::<f32>()
        } else {
            0
        }
    }

    /// Where the sums of a group begin for a block that begins at a pixel, and elements from pixel to pixel.
    pub(super) fn begin(&self, y: *mut u8, room: *mut u8, pixel: usize, group: usize) -> (*mut f32, usize) {
        if self.narrow {
            return (room.cast(), self.group);
        }
        let first = pixel * self.all + group * self.group;
        (y.cast::<f32>().wrapping_add(first), self.all)
    }

    /// Rounds the sums of a group of a block to the result, where they are not there yet.
    ///
    /// # Safety
    /// The block lies in the result, whose elements of the group nobody else accesses, and `room` has its sums.
    pub(super) unsafe fn end(&self, y: *mut u8, room: *mut u8, block: Range<usize>, group: usize) {
        if !self.narrow {
            return;
        }
        let to = Rows {
            ptr: y
                .cast::<Bf16>()
                .wrapping_add(block.start * self.all + group * self.group),
            row: self.all,
            col: 1,
        };
        let from = Rows::dense(room.cast::<f32>(), self.group);
        // SAFETY: passed on.
        unsafe { cast(DType::F32, DType::BF16, block.len(), self.group, from.cast(), to.cast()) }
    }
}
