//! Pooling of sequences `[N, T, C]`, as images of one row.

use super::window::Pool2d;
use crate::tensor::Tensor;

/// Windows of pooling along the time. Each has a step of the sequence: padding is never pooled alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool1d {
    /// Steps of a window.
    pub kernel: usize,
    /// Steps from window to window.
    pub stride: usize,
    /// Padding before and after the sequence.
    pub padding: [usize; 2],
}

impl Pool1d {
    /// Windows side by side, without padding.
    pub fn of(kernel: usize) -> Pool1d {
        Pool1d {
            kernel,
            stride: kernel,
            padding: [0; 2],
        }
    }

    /// The windows of images of one row.
    fn of_row(self) -> Pool2d {
        let [before, after] = self.padding;
        Pool2d {
            kernel: [1, self.kernel],
            stride: [1, self.stride],
            padding: [0, 0, before, after],
        }
    }
}

impl Tensor {
    /// The largest element of each window of sequences `[N, T, C]`, channel by channel: `[N, OT, C]`. It is
    /// [`Tensor::max_pool2d`] of images of one row, whose width is the time.
    ///
    /// # Panics
    /// If no window fits, or one lies in the padding alone.
    #[track_caller]
    pub fn max_pool1d(self, windows: Pool1d) -> Tensor {
        self.with_row("max_pool1d").max_pool2d(windows.of_row()).without_row()
    }

    /// The mean of each window of sequences `[N, T, C]`, channel by channel: `[N, OT, C]`; padding counts as zeros, or
    /// does not count.
    ///
    /// # Panics
    /// If no window fits, or one lies in the padding alone.
    #[track_caller]
    pub fn avg_pool1d(self, windows: Pool1d, count_padding: bool) -> Tensor {
        let x = self.with_row("avg_pool1d");
        x.avg_pool2d(windows.of_row(), count_padding).without_row()
    }

    /// The mean of all steps of each sequence: `[N, T, C]` to `[N, C]`.
    ///
    /// # Panics
    /// If it has not three axes.
    #[track_caller]
    pub fn global_avg_pool1d(self) -> Tensor {
        self.with_row("global_avg_pool1d").global_avg_pool2d()
    }

    /// The largest of all steps of each sequence, channel by channel: `[N, T, C]` to `[N, C]`. Equal ones share the
    /// cotangent.
    ///
    /// # Panics
    /// If it has not three axes, or there are no steps.
    #[track_caller]
    pub fn global_max_pool1d(self) -> Tensor {
        self.with_row("global_max_pool1d").global_max_pool2d()
    }

    /// The largest of all pixels of each image, channel by channel: `[N, H, W, C]` to `[N, C]`. Equal ones share the
    /// cotangent.
    ///
    /// # Panics
    /// If it has not four axes, or there are no pixels.
    #[track_caller]
    pub fn global_max_pool2d(self) -> Tensor {
        if self.rank() != 4 {
            let sentence = format!("global_max_pool2d: the images {} are not [N,H,W,C]", self.ty());
            self.trace().fail(sentence);
        }
        self.max_axes(&[1, 2])
    }
}
