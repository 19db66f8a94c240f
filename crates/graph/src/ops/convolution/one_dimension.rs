//! Convolution of sequences `[N, T, C]`, as images of one row.

use super::sizes::Conv2dOptions;
use crate::tensor::Tensor;

/// How a convolution slides over a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conv1dOptions {
    /// Steps from window to window.
    pub stride: usize,
    /// Steps of zeros before and after the sequence. Of a kernel of `K` taps with dilation `D`, `[(K - 1) D, 0]` makes
    /// each result depend on its own step and earlier ones alone.
    pub padding: [usize; 2],
    /// Steps from tap to tap.
    pub dilation: usize,
    /// Groups of channels: the output channels of group `g` read the input channels of group `g` alone.
    pub groups: usize,
}

impl Default for Conv1dOptions {
    /// Stride 1, no padding, dilation 1, one group.
    fn default() -> Conv1dOptions {
        Conv1dOptions {
            stride: 1,
            padding: [0; 2],
            dilation: 1,
            groups: 1,
        }
    }
}

impl Conv1dOptions {
    /// The options for images of one row.
    fn of_row(self) -> Conv2dOptions {
        let [before, after] = self.padding;
        Conv2dOptions {
            stride: [1, self.stride],
            padding: [0, 0, before, after],
            dilation: [1, self.dilation],
            groups: self.groups,
            widens: false,
        }
    }
}

impl Tensor {
    /// The convolution of sequences `[N, T, C]` with a weight `[O, C / G, K]`: `[N, OT, O]`. It is
    /// [`Tensor::conv2d`] of images of one row, whose width is the time.
    ///
    /// # Panics
    /// If the extents do not fit.
    #[track_caller]
    pub fn conv1d(self, weight: Tensor, options: Conv1dOptions) -> Tensor {
        let [x, kernel] = rows("conv1d", self, weight);
        x.conv2d(kernel, options.of_row()).without_row()
    }

    /// The transposed convolution of sequences `[N, T, C]` with a weight `[C, O / G, K]`: `[N, OT, O]`, where
    /// `OT = (T - 1) stride + (K - 1) dilation + 1 + output_padding - padding`. See [`Tensor::conv_transpose2d`].
    ///
    /// # Panics
    /// If the extents do not fit, or `output_padding` is not below the stride.
    #[track_caller]
    pub fn conv_transpose1d(self, weight: Tensor, options: Conv1dOptions, output_padding: usize) -> Tensor {
        let [x, kernel] = rows("conv_transpose1d", self, weight);
        x.conv_transpose2d(kernel, options.of_row(), [0, output_padding])
            .without_row()
    }

    /// Images of one row, `[N, 1, T, C]`, of sequences `[N, T, C]`.
    ///
    /// # Panics
    /// If it has not three axes; `name` begins the sentence.
    #[track_caller]
    pub(crate) fn with_row(self, name: &str) -> Tensor {
        if self.rank() != 3 {
            let sentence = format!("{name}: the sequences {} are not [N,T,C]", self.ty());
            self.trace().fail(sentence);
        }
        self.unsqueeze(1)
    }

    /// Sequences of images of one row.
    #[track_caller]
    pub(crate) fn without_row(self) -> Tensor {
        let shape = self.shape();
        self.reshape(&[shape[0], shape[2], shape[3]])
    }
}

/// Sequences and a weight of three axes, as images and a kernel of one row.
#[track_caller]
fn rows(name: &str, x: Tensor, weight: Tensor) -> [Tensor; 2] {
    let trace = x.trace();
    trace.check_related(format_args!("{name}:"), &[weight]);
    if weight.rank() != 3 || weight.dtype() != x.dtype() {
        let sentence = format!(
            "{name}: the weight {} is not one of three axes of the dtype of {}",
            weight.ty(),
            x.ty()
        );
        trace.fail(sentence);
    }
    [x.with_row(name), weight.unsqueeze(2)]
}
