//! Networks without shortcuts: convolutions, each followed by norm and activation, and pooling between them, then
//! linear layers.
//!
//! Convolutions and norms are named by their place in a list of all layers, activations and pooling among them, as in
//! PyTorch's `Sequential`: `features.0.weight`, `features.3.weight`. The first linear layer reads features channel by
//! channel (`C`, `H`, `W`), as PyTorch's networks do, so they share checkpoints.
//!
//! Images of 28 x 28 pixels and one channel, handwritten digits, get 2 more pixels of padding on each side in the first
//! convolution, which makes them 32 x 32, as in the papers on dataset condensation.

use lessen_graph::{Pool2d, Tensor};

use super::parts::{Norm, activate, uniform_of};
use crate::activation::Activation;
use crate::context::Cx;
use crate::init::Init;
use crate::layers::{Convolution, conv2d, linear_from, projection};

/// A part of the features.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// A convolution with bias, and norm and activation after it.
    Convolution {
        /// Channels of the result.
        out: usize,
        /// Height and width of the kernel.
        kernel: usize,
        /// Stride.
        stride: usize,
        /// Padding on each side.
        padding: usize,
    },
    /// The largest pixel of each window.
    MaxPool {
        /// Height and width of a window.
        kernel: usize,
        /// Pixels from window to window.
        stride: usize,
    },
    /// The mean of each window.
    AvgPool {
        /// Height and width of a window.
        kernel: usize,
        /// Pixels from window to window.
        stride: usize,
    },
}

impl Part {
    /// A convolution of stride 1 that keeps the size, for an odd kernel.
    pub fn same(out: usize, kernel: usize) -> Part {
        Part::Convolution {
            out,
            kernel,
            stride: 1,
            padding: (kernel - 1) / 2,
        }
    }
}

/// A linear layer. An activation comes after all of them but the last.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dense {
    /// Name of its parameters.
    pub name: &'static str,
    /// Width of the result.
    pub out: usize,
    /// Dropout probability of its input.
    pub dropout: f64,
}

/// Initial values of weights and biases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// PyTorch's: weights and biases uniform within `1 / sqrt(inputs)` of an output.
    Uniform,
    /// VGG's in torchvision: convolutions as [`Convolution::square`], linear layers normal with standard deviation
    /// 0.01, biases zeros.
    Normal,
}

/// A network without shortcuts.
#[derive(Clone, PartialEq, Debug)]
pub struct PlainNet {
    /// Convolutions and pooling.
    pub features: Vec<Part>,
    /// How results of convolutions are normalized.
    pub norm: Norm,
    /// Activation.
    pub activation: Activation,
    /// Height and width to which features are averaged before the linear layers; `None` means as they are.
    pub size: Option<usize>,
    /// Linear layers; the last one gives the logits.
    pub dense: Vec<Dense>,
    /// Name of a matrix beside the linear layers, whose products with what the first one reads are added to the logits
    /// (Cheng et al. 2016); it begins with zeros. `None` means none.
    pub wide: Option<&'static str>,
    /// Initial values.
    pub start: Start,
}

impl PlainNet {
    /// The logits of the classes, `[N, classes]`, of images `[N, H, W, C]`.
    #[track_caller]
    pub fn forward(&self, cx: Cx, images: Tensor) -> Tensor {
        self.forward_with_features(cx, images).0
    }

    /// The logits, and the features that the last layer reads, `[N, width]`.
    #[track_caller]
    pub fn forward_with_features(&self, cx: Cx, images: Tensor) -> (Tensor, Tensor) {
        let mut more_padding = if images.shape()[1..] == [28, 28, 1] { 2 } else { 0 };
        let (mut x, mut place) = (images, 0);
        for &part in &self.features {
            let windows = |kernel: usize, stride: usize| Pool2d {
                stride: [stride; 2],
                ..Pool2d::square(kernel)
            };
            match part {
                Part::Convolution {
                    out,
                    kernel,
                    stride,
                    padding,
                } => {
                    let how = self.convolution(x.dim(-1), out, [kernel, stride, padding + more_padding]);
                    more_padding = 0;
                    x = conv2d(cx, &format!("features.{place}"), x, how);
                    if self.norm != Norm::None {
                        place += 1;
                        x = self.norm.apply(cx, &format!("features.{place}"), x);
                    }
                    place += 1;
                    x = activate(cx, self.activation, x);
                }
                Part::MaxPool { kernel, stride } => x = x.max_pool2d(windows(kernel, stride)),
                Part::AvgPool { kernel, stride } => x = x.avg_pool2d(windows(kernel, stride), true),
            }
            place += 1;
        }
        if let Some(size) = self.size {
            x = x.adaptive_avg_pool2d([size; 2]);
        }
        let shape = x.shape();
        let lying = x.permute(&[0, 3, 1, 2]);
        let mut x = lying.reshape(&[shape[0], shape[1..].iter().product()]);
        let (read, mut features) = (x, x);
        for (i, layer) in self.dense.iter().enumerate() {
            if i > 0 {
                x = activate(cx, self.activation, x);
            }
            features = x;
            let init = match self.start {
                Start::Uniform => [uniform_of(x.dim(-1)); 2],
                Start::Normal => [Init::Normal { std: 0.01 }, Init::Zeros],
            };
            x = linear_from(cx, layer.name, cx.dropout(x, layer.dropout), layer.out, init);
        }
        if let Some(name) = self.wide {
            x = x + projection(cx, name, read, x.dim(-1), Init::Zeros);
        }
        (x, features)
    }

    fn convolution(&self, inputs: usize, out: usize, [kernel, stride, padding]: [usize; 3]) -> Convolution {
        let mut how = Convolution::square(out, kernel, stride).with_bias();
        how.options.padding = [padding; 4];
        if self.start == Start::Uniform {
            let init = uniform_of(inputs * kernel * kernel);
            (how.init, how.bias) = (init, Some(init));
        }
        how
    }
}
