//! The products of a convolution, or of its derivative for the image.

use super::factor::Factor;

/// Elements of a patch that are written at once, as far as a tap of one group has not more.
const PATCH: usize = 1024;

/// The products of a convolution, or of its derivative for the image. The weight's element for a tap and two channels
/// of a group is at `tap * tap_stride + group * group_stride + input * input_stride + output * output_stride`.
#[derive(Clone, Copy)]
pub(super) struct Products {
    /// Number of results, and pixels of each.
    pub(super) images: usize,
    pub(super) image: usize,
    /// Rows and columns of taps.
    pub(super) taps: [usize; 2],
    /// How many taps of a row lie side by side in every window, and are one run: all of the row, or one.
    pub(super) joined: usize,
    /// Groups of channels.
    pub(super) groups: usize,
    /// Channels of a group that are read.
    pub(super) inputs: usize,
    /// Channels of a group that are written.
    pub(super) outputs: usize,
    pub(super) tap_stride: usize,
    pub(super) group_stride: usize,
    pub(super) input_stride: usize,
    pub(super) output_stride: usize,
}

impl Products {
    pub(super) fn count(&self) -> usize {
        self.taps[0] * self.taps[1]
    }

    /// Taps of a patch that are written at once.
    pub(super) fn taps_at_once(&self) -> usize {
        (PATCH / self.inputs).clamp(1, self.count())
    }

    /// The weight of a tap of a group, `[inputs, outputs]`.
    ///
    /// # Safety
    /// `weight` has the weight, and `to` room for the tap's.
    pub(super) unsafe fn turn<N: Factor>(&self, group: usize, tap: usize, weight: *const N, to: *mut N) {
        for (i, o) in (0..self.inputs).flat_map(|i| (0..self.outputs).map(move |o| (i, o))) {
            let from =
                tap * self.tap_stride + group * self.group_stride + i * self.input_stride + o * self.output_stride;
            // SAFETY: the caller's promise.
            unsafe { *to.add(i * self.outputs + o) = *weight.add(from) };
        }
    }
}
