//! Convolutional networks that classify images `[N, H, W, C]`, one family a file.
//!
//! Parameters and buffers have the names, shapes and initial values of torchvision's networks, where it has them, so
//! checkpoints go both ways; other networks say their names in their files. Weights of convolutions are drawn from the
//! normal distribution of He et al. (2015) for cotangents, and linear layers have PyTorch's uniform initial values;
//! where a family differs, it says so.
//!
//! The images decide the number of their channels, not the network. [`Network`] has the networks with names, and
//! [`ImageClassifier`] is one of them as a [`Model`](crate::Model), with the size of its images.

mod classifier;
mod convnet;
mod densenet;
mod mixed_mobilenet;
mod mobilenet;
mod network;
mod parts;
mod plain;
mod resnet;
mod revnet;

use lessen_base::{Error, Result};
use lessen_graph::{DType, Tensor, Trace};

use crate::activation::Activation;
use crate::context::Cx;
use crate::layers::Spread;
use crate::models::class::is_of;
use crate::params::ParamSpec;

pub use classifier::{ImageClassifier, ImageClassifierConfig};
pub use convnet::{
    ConvNet, Pooling, alexnet, lenet, linear_array, mlp, small_alexnet, small_vgg11, vgg11, vgg19, wide_mlp,
};
pub use densenet::DenseNet;
pub use mixed_mobilenet::{MixedArchitecture, MixedBlock, MixedMobileNet, QuantizedLayer};
pub use mobilenet::MobileNetV2;
pub use network::Network;
pub(crate) use parts::uniform_of;
pub use parts::{Norm, Stem};
pub use plain::{Dense, Part, PlainNet, Start};
pub use resnet::{Block, ResNet, Shortcut};
pub use revnet::RevNet;

/// A network that classifies images.
#[derive(Clone, PartialEq, Debug)]
pub enum VisionModel {
    /// A linear layer, MLP, ConvNet, LeNet, AlexNet, VGG.
    Plain(PlainNet),
    /// ResNet, ResNeXt, Wide ResNet.
    ResNet(ResNet),
    /// RevNet.
    RevNet(RevNet),
    /// DenseNet.
    DenseNet(DenseNet),
    /// MobileNetV2.
    MobileNetV2(MobileNetV2),
    /// Blocks of MobileNetV2, each with its own kernel, expansion and bits.
    MixedMobileNet(MixedMobileNet),
}

impl VisionModel {
    /// The names of all networks.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Network::NAMES.into_iter()
    }

    /// The network of this name, such as `resnet20`, `wide-resnet-16-2` or `convnet-3`.
    ///
    /// # Errors
    /// An unknown name, or no classes.
    pub fn preset(name: &str, classes: usize) -> Result<VisionModel> {
        let Some(network) = Network::of(name) else {
            return Err(Error::user(format!(
                "there is no network `{name}`; choose one of {}",
                Network::NAMES.join(", ")
            )));
        };
        if classes == 0 {
            return Err(Error::user(format!(
                "the network `{name}` has 0 classes; give it at least 1"
            )));
        }
        Ok(network.with_classes(classes))
    }

    /// Its activation.
    pub fn activation(&self) -> Activation {
        match self {
            VisionModel::Plain(model) => model.activation,
            VisionModel::ResNet(model) => model.activation,
            VisionModel::RevNet(model) => model.activation,
            VisionModel::DenseNet(model) => model.activation,
            VisionModel::MobileNetV2(model) => model.activation,
            VisionModel::MixedMobileNet(model) => model.activation,
        }
    }

    /// Replaces its activation.
    pub fn set_activation(&mut self, activation: Activation) {
        match self {
            VisionModel::Plain(model) => model.activation = activation,
            VisionModel::ResNet(model) => model.activation = activation,
            VisionModel::RevNet(model) => model.activation = activation,
            VisionModel::DenseNet(model) => model.activation = activation,
            VisionModel::MobileNetV2(model) => model.activation = activation,
            VisionModel::MixedMobileNet(model) => model.activation = activation,
        }
    }

    /// Sets how batch normalization measures the spread of channels. Returns whether the network has any.
    pub fn set_spread(&mut self, spread: Spread) -> bool {
        let norm = match self {
            VisionModel::Plain(model) => &mut model.norm,
            VisionModel::ResNet(model) => &mut model.norm,
            VisionModel::RevNet(model) => &mut model.norm,
            VisionModel::DenseNet(model) => {
                model.norm.spread = spread;
                return true;
            }
            VisionModel::MobileNetV2(model) => {
                model.norm.spread = spread;
                return true;
            }
            VisionModel::MixedMobileNet(model) => {
                model.norm.spread = spread;
                return true;
            }
        };
        match norm {
            Norm::Batch(how) => how.spread = spread,
            _ => return false,
        }
        true
    }

    /// Sets the dropout of its linear layers, where it has any, to `p`, at least 0 and below 1.
    pub fn set_dropout(&mut self, p: f64) {
        match self {
            VisionModel::Plain(model) => {
                let dropped = model.dense.iter_mut().filter(|layer| layer.dropout > 0.0);
                dropped.for_each(|layer| layer.dropout = p);
            }
            VisionModel::MobileNetV2(model) => model.dropout = p,
            VisionModel::MixedMobileNet(model) => model.dropout = p,
            VisionModel::ResNet(_) | VisionModel::RevNet(_) | VisionModel::DenseNet(_) => {}
        }
    }

    /// Whether a parameter is of the layer that gives the logits, or of the matrix beside it.
    pub(crate) fn is_head(&self, name: &str) -> bool {
        let wide = match self {
            VisionModel::Plain(model) => model.wide,
            _ => None,
        };
        is_of(self.head(), name) || wide.is_some_and(|wide| is_of(wide, name))
    }

    /// The layer that gives the logits; its parameters are `NAME.weight` and `NAME.bias`.
    pub fn head(&self) -> &'static str {
        match self {
            VisionModel::Plain(model) => model.dense.last().map_or("", |layer| layer.name),
            VisionModel::ResNet(_) | VisionModel::RevNet(_) => "fc",
            VisionModel::MobileNetV2(_) => "classifier.1",
            VisionModel::DenseNet(_) | VisionModel::MixedMobileNet(_) => "classifier",
        }
    }

    /// Adds the network to the graph and returns the logits of the classes, `f32[N, classes]`, of images `f32[N, H, W,
    /// C]`.
    ///
    /// # Panics
    /// If the images have not four axes, or are too small; see [`VisionModel::parameters`].
    #[track_caller]
    pub fn forward(&self, cx: Cx, images: Tensor) -> Tensor {
        self.forward_with_features(cx, images).0
    }

    /// As [`VisionModel::forward`], with the features that the last layer reads, `f32[N, width]`.
    ///
    /// # Panics
    /// As [`VisionModel::forward`].
    #[track_caller]
    pub fn forward_with_features(&self, cx: Cx, images: Tensor) -> (Tensor, Tensor) {
        if images.rank() != 4 {
            cx.trace().fail(format!("the images {} are not [N,H,W,C]", images.ty()));
        }
        match self {
            VisionModel::Plain(model) => model.forward_with_features(cx, images),
            VisionModel::ResNet(model) => model.forward_with_features(cx, images),
            VisionModel::RevNet(model) => model.forward_with_features(cx, images),
            VisionModel::DenseNet(model) => model.forward_with_features(cx, images),
            VisionModel::MobileNetV2(model) => model.forward_with_features(cx, images),
            VisionModel::MixedMobileNet(model) => model.forward_with_features(cx, images),
        }
    }

    /// Returns all parameters and buffers for images of this height, width and number of channels, in order of first
    /// use.
    ///
    /// # Errors
    /// Images that are too small for the network.
    pub fn parameters(&self, [height, width, channels]: [usize; 3]) -> Result<Vec<ParamSpec>> {
        let trace = Trace::new();
        let traced = trace.attempt(|| {
            let cx = Cx::new(*trace, false);
            let images = cx.input("images", DType::F32, &[1, height, width, channels]);
            self.forward(cx, images);
            cx.params()
        });
        traced.map_err(|error| {
            Error::user(format!(
                "images of {height} x {width} pixels with {channels} channels do not fit the network; use larger ones: \
                 {}",
                error.message()
            ))
        })
    }
}

macro_rules! into_vision_model {
    ($($variant:ident: $class:ident),*) => {$(
        impl From<$class> for VisionModel {
            fn from(model: $class) -> VisionModel {
                VisionModel::$variant(model)
            }
        }
    )*};
}

into_vision_model!(
    Plain: PlainNet, ResNet: ResNet, RevNet: RevNet, DenseNet: DenseNet, MobileNetV2: MobileNetV2,
    MixedMobileNet: MixedMobileNet
);

impl From<ConvNet> for VisionModel {
    fn from(model: ConvNet) -> VisionModel {
        VisionModel::Plain(model.plain())
    }
}
