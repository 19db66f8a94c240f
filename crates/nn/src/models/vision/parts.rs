//! What convolutional networks are made of beside convolutions: norms, stems, shortcuts without parameters, the
//! classifier, and initial values.

use lessen_graph::{Pool2d, Tensor};

use crate::activation::Activation;
use crate::context::Cx;
use crate::init::Init;
use crate::layers::{BatchNorm, Convolution, batch_norm, group_norm, linear_from};
use crate::observations;

/// Epsilon that norms other than batch normalization add to the variance, as PyTorch does.
const EPS: f64 = 1e-5;

/// How a convolution's result is normalized.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Norm {
    /// Not at all.
    None,
    /// By batch normalization; see [`batch_norm`].
    Batch(BatchNorm),
    /// Each channel of an image by itself, with a scale and a shift of each channel.
    Instance,
    /// This many groups of channels of an image; see [`group_norm`].
    Group(usize),
    /// Each image as a whole, with a scale and a shift of each element: `NAME.weight` and `NAME.bias` are `[C, H, W]`.
    Layer,
}

impl Norm {
    /// Normalizes `x`, `[N, H, W, C]`.
    ///
    /// # Panics
    /// If groups do not divide the channels, or batch normalization in training has a single element of each channel.
    #[track_caller]
    pub fn apply(self, cx: Cx, name: &str, x: Tensor) -> Tensor {
        match self {
            Norm::None => x,
            Norm::Batch(how) => batch_norm(cx, name, x, how),
            Norm::Instance => group_norm(cx, name, x, x.dim(-1), EPS),
            Norm::Group(groups) => group_norm(cx, name, x, groups, EPS),
            Norm::Layer => image_layer_norm(cx, name, x),
        }
    }
}

impl Default for Norm {
    /// Batch normalization with PyTorch's settings.
    fn default() -> Norm {
        Norm::Batch(BatchNorm::default())
    }
}

/// Layer normalization of images `[N, H, W, C]`, with parameters `[C, H, W]` as in PyTorch.
#[track_caller]
fn image_layer_norm(cx: Cx, name: &str, x: Tensor) -> Tensor {
    let cx = cx.enter(name);
    let shape = x.shape();
    let (height, width, channels) = (shape[1], shape[2], shape[3]);
    let size = height * width * channels;
    let parameter = |name: &str, init| {
        let lying = cx.param(name, &[channels, height, width], init);
        lying.permute(&[1, 2, 0]).reshape(&[size])
    };
    let (weight, bias) = (parameter("weight", Init::Ones), parameter("bias", Init::Zeros));
    let images = x.reshape(&[shape[0], size]);
    images.layer_norm(weight, bias, EPS).reshape(&shape)
}

/// How a residual network begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stem {
    /// A 3 x 3 convolution that keeps the size, for images of CIFAR.
    Small,
    /// A 7 x 7 convolution of stride 2, and maximum pooling by 3 x 3 of stride 2, for images of ImageNet.
    Large,
}

impl Stem {
    /// The convolution to this many channels.
    pub(super) fn convolution(self, width: usize) -> Convolution {
        match self {
            Stem::Small => Convolution::square(width, 3, 1),
            Stem::Large => Convolution::square(width, 7, 2),
        }
    }

    /// The pooling after it, if there is one.
    #[track_caller]
    pub(super) fn pool(self, x: Tensor) -> Tensor {
        match self {
            Stem::Small => x,
            Stem::Large => x.max_pool2d(Pool2d {
                kernel: [3; 2],
                stride: [2; 2],
                padding: [1; 4],
            }),
        }
    }
}

/// Applies an activation to images, which is observed as `pre_activation`.
#[track_caller]
pub(super) fn activate(cx: Cx, activation: Activation, x: Tensor) -> Tensor {
    observations::activate(cx, activation, x, |_| None)
}

/// Every `stride`-th row and column of images, from the first one on.
#[track_caller]
pub(super) fn subsample(x: Tensor, stride: usize) -> Tensor {
    if stride == 1 {
        return x;
    }
    let windows = Pool2d {
        kernel: [1; 2],
        stride: [stride; 2],
        padding: [0; 4],
    };
    x.avg_pool2d(windows, false)
}

/// Adds channels of zeros to images up to `channels` channels, as many before the present channels as after them (one
/// more after, if the number of added channels is odd).
///
/// # Panics
/// If there are more channels already.
#[track_caller]
pub(super) fn pad_channels(x: Tensor, channels: usize) -> Tensor {
    let present = x.dim(-1);
    let Some(missing) = channels.checked_sub(present) else {
        let sentence = format!("a shortcut without parameters from {present} to {channels} channels");
        x.trace().fail(sentence);
    };
    if missing == 0 {
        return x;
    }
    x.pad(-1, missing / 2, missing - missing / 2, 0.0)
}

/// The initial values that PyTorch gives weight and bias of a layer, each of whose outputs has this many inputs:
/// uniform within `1 / sqrt(inputs)`.
pub(crate) fn uniform_of(inputs: usize) -> Init {
    Init::Uniform {
        bound: 1.0 / (inputs as f64).sqrt(),
    }
}

/// A linear layer with PyTorch's initial values.
#[track_caller]
pub(super) fn classifier(cx: Cx, name: &str, x: Tensor, classes: usize) -> Tensor {
    linear_from(cx, name, x, classes, [uniform_of(x.dim(-1)); 2])
}
