//! Convolutions of sequences `[N, T, C]`, the time in the middle and the channels of a step side by side.
//!
//! Parameters are PyTorch's: `NAME.weight` of [`conv1d`] is `[out, in / groups, kernel]`, that of [`conv_transpose1d`]
//! `[in, out / groups, kernel]`, and `NAME.bias` `[out]`.

use lessen_graph::{Conv1dOptions, Tensor};

use crate::context::Cx;
use crate::init::Init;

/// A convolution of sequences without its parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Convolution1d {
    /// Channels of the result.
    pub out: usize,
    /// Steps of the kernel.
    pub kernel: usize,
    /// Stride, padding, dilation and groups.
    pub options: Conv1dOptions,
    /// Initial values of the weight.
    pub init: Init,
    /// Initial values of the bias, if it has one.
    pub bias: Option<Init>,
}

impl Convolution1d {
    /// A kernel of this stride without bias, with padding such that an odd kernel of stride 1 keeps the length of the
    /// sequence, and the initial values of [`Convolution::square`](super::Convolution::square).
    pub fn centred(out: usize, kernel: usize, stride: usize) -> Convolution1d {
        Convolution1d {
            out,
            kernel,
            options: Conv1dOptions {
                stride,
                padding: [kernel.saturating_sub(1) / 2; 2],
                ..Conv1dOptions::default()
            },
            init: Init::Normal {
                std: (2.0 / (out as f64 * kernel as f64)).sqrt(),
            },
            bias: None,
        }
    }

    /// [`Convolution1d::centred`] of stride 1 with this dilation, whose padding lies before the sequence alone: a step
    /// of the result depends on its own step and earlier ones (van den Oord et al. 2016).
    pub fn causal(out: usize, kernel: usize, dilation: usize) -> Convolution1d {
        let mut causal = Convolution1d::centred(out, kernel, 1);
        causal.options.dilation = dilation;
        causal.options.padding = [kernel.saturating_sub(1).saturating_mul(dilation), 0];
        causal
    }

    /// Returns the convolution in groups of channels.
    pub fn grouped(mut self, groups: usize) -> Convolution1d {
        self.options.groups = groups;
        self
    }

    /// Returns the convolution with a bias, which is zeros initially.
    pub fn with_bias(self) -> Convolution1d {
        let bias = Some(Init::Zeros);
        Convolution1d { bias, ..self }
    }
}

/// A convolution of sequences: `[N, T, in]` to `[N, OT, out]`; see [`Tensor::conv1d`].
///
/// # Panics
/// If the extents do not fit.
#[track_caller]
pub fn conv1d(cx: Cx, name: &str, x: Tensor, how: Convolution1d) -> Tensor {
    let cx = cx.enter(name);
    let inputs = x.dim(-1) / how.options.groups.max(1);
    let weight = cx.param("weight", &[how.out, inputs, how.kernel], how.init);
    let [x, weight] = quantized(*cx, x, weight, 0);
    with_bias(*cx, x.conv1d(weight, how.options), how)
}

/// A transposed convolution of sequences: `[N, T, in]` to `[N, OT, out]`, longer by about the stride; see
/// [`Tensor::conv_transpose1d`].
///
/// # Panics
/// If the extents do not fit, or `output_padding` is not below the stride.
#[track_caller]
pub fn conv_transpose1d(cx: Cx, name: &str, x: Tensor, how: Convolution1d, output_padding: usize) -> Tensor {
    let cx = cx.enter(name);
    let outputs = how.out / how.options.groups.max(1);
    let weight = cx.param("weight", &[x.dim(-1), outputs, how.kernel], how.init);
    let [x, weight] = quantized(*cx, x, weight, 1);
    with_bias(*cx, x.conv_transpose1d(weight, how.options, output_padding), how)
}

/// Input and weight as the layer multiplies them. A sequence has one range, as an image has: a kernel reads several
/// steps.
#[track_caller]
fn quantized(cx: Cx, x: Tensor, weight: Tensor, axis: usize) -> [Tensor; 2] {
    let [row, weight] = cx.quantized(x.unsqueeze(1), weight, axis);
    [row.reshape(&x.shape()), weight]
}

#[track_caller]
fn with_bias(cx: Cx, y: Tensor, how: Convolution1d) -> Tensor {
    match how.bias {
        Some(init) => y + cx.param("bias", &[how.out], init),
        None => y,
    }
}
