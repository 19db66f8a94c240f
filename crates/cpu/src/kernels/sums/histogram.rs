//! Histogram: the bin of a number is read off its exponent and the first bits of its mantissa.

use lessen_graph::ops;

use crate::kernels::kernel::{RowKernel, Types};
use crate::kernels::rows::Rows;
use crate::simd::{LANES, Level, chunks, dispatch, load};

/// The bits of infinity; the bits of NaN without the sign are larger.
const INFINITE: u32 = 0x7F80_0000;

dispatch! {
    /// Adds to `acc[i]` the number of elements in bin `i` of the histogram; see [`ops::Histogram`].
    ///
    /// # Safety
    /// `x` covers `n` rows of `c` elements, and `acc` has as many as `bins` has bins; they do not overlap.
    pub unsafe fn histogram(
        bins: ops::Histogram, n: usize, c: usize, x: Rows<f32>, acc: *mut f32,
    ) = histogram_body;
}

#[inline(always)]
unsafe fn histogram_body<L: Level>(bins: ops::Histogram, n: usize, c: usize, x: Rows<f32>, acc: *mut f32) {
    let count = bins.bins();
    let (zero, largest) = ((count / 2) as u32, (count / 2 - 1) as u32);
    let shift = 23 - bins.parts.trailing_zeros();
    let lowest = ((127 + bins.least) as u32) << (23 - shift);
    for r in 0..n {
        let row = x.at(r) as *const f32;
        chunks!(c, |j, len| {
            // SAFETY: elements j..j+len lie within the row.
            let xs = unsafe { load(row.add(j * x.col), x.col, len, 0.0) };
            let mut to = [0; LANES];
            for i in 0..LANES {
                let size = xs[i].to_bits() & !(1 << 31);
                // Bins of one sign are numbered from 0, that of the smallest numbers, which lie below `lowest`.
                let magnitude = ((size >> shift) + 1).saturating_sub(lowest).min(largest);
                let signed = if xs[i] > 0.0 {
                    zero + 1 + magnitude
                } else {
                    largest - magnitude
                };
                let bin = if size == 0 { zero } else { signed };
                to[i] = if size > INFINITE { u32::MAX } else { bin };
            }
            for &bin in to[..len].iter().filter(|&&bin| bin != u32::MAX) {
                // SAFETY: a bin is below twice the magnitudes and one, which is the number of bins.
                unsafe { *acc.add(bin as usize) += 1.0 };
            }
        });
    }
}

/// The kernel of [`ops::Histogram`].
pub(crate) fn histogram_kernel(op: &ops::Histogram, _: &Types<'_>) -> RowKernel {
    let bins = *op;
    // SAFETY: see `Run`; the sum has an element for each bin.
    RowKernel::sums(move |r| unsafe {
        histogram(bins, r.n, r.inputs[0].columns(), r.x(0), r.column(0));
    })
}
