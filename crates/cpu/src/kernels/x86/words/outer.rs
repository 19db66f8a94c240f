//! A part of the gradient of a convolution's weight: for each pixel of a block, the product of the channels that a tap
//! of its window reads and of its cotangents.

use super::number::Word;
use super::terms::{Begins, Columns, Place};
use super::{PANEL, VECTOR, WORD, width};
use crate::kernels::x86::avx512::pair::pair;

/// The extents of the products: pixels of a block, channels that are read, and cotangents of a pixel.
#[derive(Clone, Copy)]
pub(crate) struct Outer {
    pub(crate) pixels: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

impl Outer {
    fn words<N: Word>(&self) -> usize {
        self.pixels.div_ceil(N::NUMBERS)
    }

    fn padded_outputs(&self) -> usize {
        self.outputs.next_multiple_of(VECTOR)
    }

    /// Bytes of each worker, the same on every machine: pointers, and the words where a word holds two pixels.
    pub(crate) fn scratch<N: Word>(&self) -> usize {
        let words = self.words::<N>();
        let packed = match N::NUMBERS {
            1 => 0,
            _ => words * (self.padded_outputs() + self.inputs) * WORD,
        };
        (words * size_of::<usize>()).next_multiple_of(64) + packed
    }
}

/// The cotangents of a block of pixels, as the right factor of the products of all taps.
#[derive(Clone, Copy)]
pub(crate) struct Cotangents {
    outer: Outer,
    pointers: *mut *const u8,
    /// The words of the cotangents, and bytes from one word of pixels to the next.
    right: *const u8,
    right_row: usize,
    /// Room for the words of the pixels that a tap reads.
    left: *mut u8,
}

impl Cotangents {
    /// Prepares the cotangents `dy` of the pixels of a block, `row` elements apart.
    ///
    /// # Safety
    /// [`Word::is_used`]; `dy` has the cotangents, and `scratch` [`Outer::scratch`] for these or larger extents.
    pub(crate) unsafe fn new<N: Word>(outer: Outer, dy: *const N, row: usize, scratch: *mut u8) -> Cotangents {
        let words = outer.words::<N>();
        let packed = scratch.wrapping_add((words * size_of::<usize>()).next_multiple_of(64));
        let mut cotangents = Cotangents {
            outer,
            pointers: scratch.cast(),
            right: dy.cast(),
            right_row: row * size_of::<N>(),
            left: packed,
        };
        if N::NUMBERS == 2 {
            let padded = outer.padded_outputs();
            cotangents.right = packed;
            cotangents.right_row = padded * WORD;
            cotangents.left = packed.wrapping_add(words * padded * WORD);
            for word in 0..words {
                let at = |i: usize| (2 * word + i < outer.pixels).then(|| dy.wrapping_add((2 * word + i) * row).cast());
                // SAFETY: passed on.
                unsafe {
                    pair(
                        outer.outputs,
                        padded,
                        [at(0), at(1)],
                        packed.add(word * padded * WORD).cast(),
                    )
                };
            }
        }
        cotangents
    }

    /// `sums += a b` or `sums = a b` for the channels that a tap reads: `read` points to the channels of each pixel, or
    /// to zeros outside the image. Rows of `sums` are dense.
    ///
    /// # Safety
    /// The channels and the sums are there, and nobody else accesses the sums.
    pub(crate) unsafe fn add<N: Word>(&self, read: &[*const N], sums: *mut f32, accumulate: bool) {
        let inputs = self.outer.inputs;
        // SAFETY: passed on; there is a pointer for each word, and room for the words where a word holds two pixels.
        unsafe {
            for word in 0..self.outer.words::<N>() {
                let pointer = if N::NUMBERS == 1 {
                    read[word].cast()
                } else {
                    let to = self.left.add(word * inputs * WORD);
                    let at = |i: usize| read.get(2 * word + i).map(|from| from.cast());
                    pair(inputs, inputs, [at(0), at(1)], to.cast());
                    to.cast_const()
                };
                self.pointers.add(word).write(pointer);
            }
            self.add_words::<N>(self.pointers, sums, accumulate);
        }
    }

    /// [`Cotangents::add`] for words: there is a pointer to the channels of each word of pixels.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn add_words<N: Word>(&self, read: *const *const u8, sums: *mut f32, accumulate: bool) {
        let Outer { inputs, outputs, .. } = self.outer;
        let words = self.outer.words::<N>();
        // SAFETY: passed on.
        unsafe {
            for first in (0..outputs).step_by(PANEL) {
                let terms = Columns {
                    words,
                    pointers: read,
                    offset: 0,
                    right: self.right.add(first * WORD),
                    right_row: self.right_row,
                };
                let to = Place::panel(Begins::Apart(sums, outputs), first, outputs);
                N::columns(inputs, width(outputs - first), terms, to, accumulate);
            }
        }
    }
}
