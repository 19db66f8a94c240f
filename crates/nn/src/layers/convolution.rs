//! Convolutions of images `[N, H, W, C]`, patch embedding, channel shuffle, squeeze and excitation.
//!
//! Parameters are PyTorch's: `NAME.weight` of a convolution is `[out, in / groups, height, width]` and `NAME.bias`
//! `[out]`, in checkpoints and in the graph alike; the operations read the weight in this order.

use lessen_graph::{Conv2dOptions, Tensor};

use crate::activation::hard_sigmoid;
use crate::context::Cx;
use crate::init::Init;

/// A convolution without its parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Convolution {
    /// Channels of the result.
    pub out: usize,
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Stride, padding, dilation and groups.
    pub options: Conv2dOptions,
    /// Initial values of the weight.
    pub init: Init,
    /// Initial values of the bias, if it has one.
    pub bias: Option<Init>,
}

impl Convolution {
    /// A square kernel of this stride without bias, with padding such that an odd kernel of stride 1 keeps the size of
    /// the image. The weight is drawn from a normal distribution that keeps the variance of cotangents through ReLU (He
    /// et al. 2015), as torchvision's convolutional networks do.
    pub fn square(out: usize, kernel: usize, stride: usize) -> Convolution {
        Convolution {
            out,
            kernel: [kernel; 2],
            options: Conv2dOptions {
                stride: [stride; 2],
                padding: [kernel.saturating_sub(1) / 2; 4],
                ..Conv2dOptions::default()
            },
            init: Init::Normal {
                std: (2.0 / (out as f64 * kernel as f64 * kernel as f64)).sqrt(),
            },
            bias: None,
        }
    }

    /// Returns the convolution in groups of channels.
    pub fn grouped(mut self, groups: usize) -> Convolution {
        self.options.groups = groups;
        self
    }

    /// Returns the convolution with a bias, which is zeros initially.
    pub fn with_bias(self) -> Convolution {
        let bias = Some(Init::Zeros);
        Convolution { bias, ..self }
    }
}

/// A convolution of images: `[N, H, W, in]` to `[N, OH, OW, out]`; see [`Conv2d`](lessen_graph::ops::Conv2d).
#[track_caller]
pub fn conv2d(cx: Cx, name: &str, x: Tensor, how: Convolution) -> Tensor {
    let cx = cx.enter(name);
    let [height, width] = how.kernel;
    let inputs = x.dim(-1) / how.options.groups.max(1);
    let weight = cx.param("weight", &[how.out, inputs, height, width], how.init);
    let [x, weight] = cx.quantized(x, weight, 0);
    with_bias(*cx, x.conv2d(weight, how.options), how)
}

/// A transposed convolution of images: `[N, H, W, in]` to `[N, OH, OW, out]`, larger by about the stride; see
/// [`Tensor::conv_transpose2d`]. `NAME.weight` is `[in, out / groups, height, width]`, as PyTorch's is.
///
/// # Panics
/// If the extents do not fit, or `output_padding` is not below the stride.
#[track_caller]
pub fn conv_transpose2d(cx: Cx, name: &str, x: Tensor, how: Convolution, output_padding: [usize; 2]) -> Tensor {
    let cx = cx.enter(name);
    let [height, width] = how.kernel;
    let outputs = how.out / how.options.groups.max(1);
    let weight = cx.param("weight", &[x.dim(-1), outputs, height, width], how.init);
    let [x, weight] = cx.quantized(x, weight, 1);
    with_bias(*cx, x.conv_transpose2d(weight, how.options, output_padding), how)
}

#[track_caller]
fn with_bias(cx: Cx, y: Tensor, how: Convolution) -> Tensor {
    match how.bias {
        Some(init) => y + cx.param("bias", &[how.out], init),
        None => y,
    }
}

/// Patch embedding (Dosovitskiy et al. 2021): images `[N, H, W, C]` in patches of this height and width, row by row,
/// each of them multiplied with a matrix: `[N, patches, out]`. `NAME.weight` is `[out, C, height, width]` and
/// `NAME.bias` `[out]`, as of a convolution whose stride is its kernel.
///
/// # Panics
/// If the patches do not divide the image.
#[track_caller]
pub fn patch_embedding(cx: Cx, name: &str, x: Tensor, out: usize, [height, width]: [usize; 2], init: Init) -> Tensor {
    let cx = cx.enter(name);
    let shape = x.shape();
    let divides = |n: usize, patch: usize| patch > 0 && n.is_multiple_of(patch);
    if shape.len() != 4 || !divides(shape[1], height) || !divides(shape[2], width) {
        let sentence = format!("images {} do not divide into patches of {height} x {width}", x.ty());
        cx.trace().fail(sentence);
    }
    let (rows, columns, channels) = (shape[1] / height, shape[2] / width, shape[3]);
    let patches = x
        .reshape(&[shape[0], rows, height, columns, width, channels])
        .permute(&[0, 1, 3, 5, 2, 4])
        .reshape(&[shape[0], rows * columns, channels * height * width]);
    let weight = cx.param("weight", &[out, channels, height, width], init);
    let matrix = weight.reshape(&[out, channels * height * width]);
    let [patches, matrix] = cx.quantized(patches, matrix, 0);
    patches.matmul_t(matrix) + cx.param("bias", &[out], Init::Zeros)
}

/// Channel shuffle (Zhang et al. 2018): of `[.., C]` in groups of channels, the first channels of all groups, then the
/// second ones, and so on.
///
/// # Panics
/// If the groups do not divide the channels.
#[track_caller]
pub fn channel_shuffle(x: Tensor, groups: usize) -> Tensor {
    let channels = x.dim(-1);
    if groups == 0 || !channels.is_multiple_of(groups) {
        let sentence = format!("{channels} channels do not divide into {groups} groups");
        x.trace().fail(sentence);
    }
    let shape = x.shape();
    let lead = &shape[..shape.len() - 1];
    let split = x.reshape(&[lead, &[groups, channels / groups]].concat());
    split.transpose(-1, -2).reshape(&shape)
}

/// Function of a squeeze-and-excitation block that gives the factors of channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// The logistic function, as in SENet and EfficientNet.
    Sigmoid,
    /// `x / 6 + 1/2` from 0 to 1, as in MobileNetV3.
    HardSigmoid,
}

/// Squeeze and excitation (Hu, Shen and Sun 2018): scales each channel of `[N, H, W, C]` by a function of the means of
/// all channels, `gate(W2 relu(W1 mean + b1) + b2)`, with `squeeze` channels between. Parameters are torchvision's
/// `NAME.fc1` and `NAME.fc2`, weights of `[out, in, 1, 1]` with biases.
#[track_caller]
pub fn squeeze_excitation(cx: Cx, name: &str, x: Tensor, squeeze: usize, gate: Gate) -> Tensor {
    let cx = cx.enter(name);
    let shape = x.shape();
    let means = x.global_avg_pool2d().reshape(&[shape[0], 1, 1, shape[3]]);
    let layer = |out: usize| Convolution::square(out, 1, 1).with_bias();
    let hidden = conv2d(*cx, "fc1", means, layer(squeeze)).relu();
    let scale = conv2d(*cx, "fc2", hidden, layer(shape[3]));
    x * match gate {
        Gate::Sigmoid => scale.sigmoid(),
        Gate::HardSigmoid => hard_sigmoid(scale),
    }
}
