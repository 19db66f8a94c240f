//! Numbers as codes by their range: one round finds the range of each part, the next one writes codes.

use lessen_graph::ops;

use super::to_code::ToCode;
use crate::kernels::kernel::{Kernel, Round, Types, WholeKernel, Work};
use crate::kernels::map::map;
use crate::kernels::rows::Rows;
use crate::kernels::widths::{self, widths};
use crate::simd::{LANES, Level, dispatch};

/// Elements of a part, and the most parts.
const PART: usize = 1 << 14;
const PARTS: usize = 64;

dispatch! {
    /// Writes the least and the greatest of some numbers and 0; NaN counts as 0.
    ///
    /// # Safety
    /// `x` has `n` numbers, and `to` room for two.
    unsafe fn range(n: usize, x: *const f32, to: *mut f32) = range_body;
}

#[inline(always)]
unsafe fn range_body<L: Level>(n: usize, x: *const f32, to: *mut f32) {
    let (mut least, mut most) = ([0f32; LANES], [0f32; LANES]);
    widths!(n, |j, W| {
        // SAFETY: numbers j..j+W exist.
        let xs: [f32; W] = unsafe { widths::load(x.add(j)) };
        for i in 0..W {
            // Comparisons with NaN are false.
            least[i] = if xs[i] < least[i] { xs[i] } else { least[i] };
            most[i] = if xs[i] > most[i] { xs[i] } else { most[i] };
        }
    });
    // SAFETY: passed on.
    unsafe {
        to.write(least.into_iter().fold(0.0, f32::min));
        to.add(1).write(most.into_iter().fold(0.0, f32::max));
    }
}

/// The kernel of [`ops::QuantizeByRange`].
pub(crate) fn quantize_by_range_kernel(_: &ops::QuantizeByRange, types: &Types<'_>) -> Option<Kernel> {
    let count = types.inputs[0].numel();
    let part = count.div_ceil(PARTS).max(PART);
    let parts = count.div_ceil(part);
    let of_part = move |task: usize| task * part..count.min((task + 1) * part);
    let find = move |w: &Work<'_>, task: usize| {
        let some = of_part(task);
        // SAFETY: see `Work`; the shared scratch has two numbers for each part.
        unsafe { range(some.len(), w.x(0).add(some.start), w.shared.cast::<f32>().add(2 * task)) };
    };
    let write = move |w: &Work<'_>, task: usize| {
        let some = of_part(task);
        // SAFETY: see `Work`; the round before has written the range of each part.
        unsafe {
            let ranges = std::slice::from_raw_parts(w.shared.cast::<[f32; 2]>(), parts);
            let least = ranges.iter().fold(0f32, |least, range| least.min(range[0]));
            let most = ranges.iter().fold(0f32, |most, range| most.max(range[1]));
            let (scale, zero) = ops::QuantizeByRange::scale(least, most);
            if task == 0 {
                w.y(1).write(scale);
                w.outputs[2].write(zero);
            }
            let to_code = ToCode::of(ops::QuantizeLinear {
                scale: scale.into(),
                zero,
            });
            let x = Rows::dense(w.x(0).add(some.start).cast_mut(), some.len());
            let codes = Rows::dense(w.outputs[0].add(some.start), some.len());
            map(to_code, 1, some.len(), x, codes);
        }
    };
    let rounds = move |_: &[Vec<usize>]| {
        vec![
            Round {
                tasks: parts,
                run: Box::new(find),
            },
            Round {
                tasks: parts,
                run: Box::new(write),
            },
        ]
    };
    Kernel::Whole(WholeKernel::rounds(rounds).with_shared(parts * size_of::<[f32; 2]>())).into()
}
