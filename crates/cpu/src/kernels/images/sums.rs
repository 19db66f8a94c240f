//! Where the sums of a block of pixels are: in the result itself, or in memory of the worker where they become the
//! result's numbers afterwards: `bf16`, or integers with scales.

use std::ops::Range;

use lessen_graph::DType;

use super::super::kernel::Work;
use super::super::rows::Rows;
use super::products::Products;
use crate::kernels::codes::sums::{Scaling, scaled, scaled_to_codes};
use crate::kernels::codes::to_code::ToCode;
use crate::kernels::elementwise::cast::{Bf16, cast};

/// What sums become.
#[derive(Clone, Copy)]
enum Becomes {
    /// They are the result.
    Themselves,
    /// Numbers in `bf16`.
    Narrow,
    /// Sums of codes become numbers in `f32`, or codes.
    Scaled(OfCodes),
}

/// What sums of products of codes become.
#[derive(Clone, Copy)]
pub(crate) struct OfCodes {
    /// The code of zero of the images.
    pub(crate) zero: u8,
    pub(crate) has_bias: bool,
    /// The codes that numbers become, if they do.
    pub(crate) codes: Option<ToCode>,
}

impl OfCodes {
    /// What becomes of the sums of channels from the first one on, whose levels add up to these numbers.
    pub(crate) fn scaling(&self, w: &Work<'_>, first: usize, levels: *const i32) -> Scaling {
        Scaling {
            zero: self.zero.into(),
            levels,
            bias: if self.has_bias {
                w.dense::<i32>(4).wrapping_add(first)
            } else {
                std::ptr::null()
            },
            scale: w.x(3).wrapping_add(first),
            added: std::ptr::null(),
        }
    }

    /// Makes elements of the result of some channels of a pixel's sums, with the scale of its image, at an element of
    /// the result.
    ///
    /// # Safety
    /// As for [`scaled`]; the result has the elements.
    pub(crate) unsafe fn write(
        &self,
        columns: Range<usize>,
        (scale, sums): (f32, *const i32),
        scaling: Scaling,
        (y, element): (*mut u8, usize),
    ) {
        // SAFETY: passed on.
        unsafe {
            match self.codes {
                None => scaled(columns, scale, sums, scaling, y.cast::<f32>().add(element)),
                Some(codes) => scaled_to_codes(columns, scale, sums, scaling, codes, y.add(element)),
            }
        }
    }
}

/// The sums of a convolution.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    becomes: Becomes,
    /// Channels of a group of the result, and of all.
    group: usize,
    all: usize,
    /// Pixels of a result.
    image: usize,
}

/// Where the sums of a block are.
#[derive(Clone)]
pub(super) struct Block {
    pub(super) pixels: Range<usize>,
    pub(super) group: usize,
    /// Memory of the worker for the sums of a block.
    pub(super) room: *mut u8,
    /// The sums of the levels of the weight's channels, where numbers are codes.
    pub(super) levels: *const i32,
}

impl Sums {
    pub(super) fn new(narrow: bool, products: Products) -> Sums {
        let becomes = if narrow { Becomes::Narrow } else { Becomes::Themselves };
        Sums::which(becomes, products)
    }

    /// Of products of codes.
    pub(super) fn of_codes(of_codes: OfCodes, products: Products) -> Sums {
        Sums::which(Becomes::Scaled(of_codes), products)
    }

    fn which(becomes: Becomes, products: Products) -> Sums {
        Sums {
            becomes,
            group: products.outputs,
            all: products.groups * products.outputs,
            image: products.image,
        }
    }

    /// Whether sums are in memory of the worker.
    pub(super) fn is_apart(&self) -> bool {
        !matches!(self.becomes, Becomes::Themselves)
    }

    /// Whether numbers are codes.
    pub(super) fn are_of_codes(&self) -> bool {
        matches!(self.becomes, Becomes::Scaled(_))
    }

    /// Bytes of each worker for blocks of this many pixels.
    pub(super) fn bytes(&self, pixels: usize) -> usize {
        if self.is_apart() {
            pixels * self.group * size_of::<f32>()
        } else {
            0
        }
    }

    /// Where the sums of a group begin for a block that begins at a pixel, and elements from pixel to pixel.
    pub(super) fn begin(&self, y: *mut u8, block: &Block) -> (*mut f32, usize) {
        if self.is_apart() {
            return (block.room.cast(), self.group);
        }
        let first = block.pixels.start * self.all + block.group * self.group;
        (y.cast::<f32>().wrapping_add(first), self.all)
    }

    /// Makes the result of the sums of some channels of a group of a block, where they are not there yet.
    ///
    /// # Safety
    /// See [`Work`]; the block lies in the result, whose elements of these channels nobody else accesses, and its room
    /// has the sums.
    pub(super) unsafe fn end(&self, w: &Work<'_>, block: &Block, columns: Range<usize>) {
        let y = w.outputs[0];
        let (pixels, first) = (block.pixels.len(), block.group * self.group);
        match self.becomes {
            Becomes::Themselves => {}
            Becomes::Narrow => {
                let to = Rows {
                    ptr: y.cast::<Bf16>().wrapping_add(block.pixels.start * self.all + first),
                    row: self.all,
                    col: 1,
                };
                let from = Rows::dense(block.room.cast::<f32>(), self.group);
                // SAFETY: passed on.
                unsafe { cast(DType::F32, DType::BF16, pixels, self.group, from.cast(), to.cast()) }
            }
            // SAFETY: passed on; see `Scaling` for the inputs.
            Becomes::Scaled(of_codes) => unsafe {
                let scaling = of_codes.scaling(w, first, block.levels.add(first));
                for (i, pixel) in block.pixels.clone().enumerate() {
                    let scale = *w.x(1).add(pixel / self.image);
                    let sums = block.room.cast::<i32>().add(i * self.group);
                    of_codes.write(columns.clone(), (scale, sums), scaling, (y, pixel * self.all + first));
                }
            },
        }
    }
}
