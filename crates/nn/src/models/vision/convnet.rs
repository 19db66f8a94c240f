//! ConvNet of the papers on dataset condensation (Zhao, Mopuri and Bilen 2021), and MLP, LeNet, AlexNet and VGG-11, as
//! in these papers for images of 32 x 32 pixels, and as in torchvision.

use super::parts::Norm;
use super::plain::{Dense, Part, PlainNet, Start};
use crate::activation::Activation;

/// Pooling of ConvNet after each convolution, by 2 x 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pooling {
    /// None.
    None,
    /// The largest pixel.
    Max,
    /// The mean.
    Average,
}

/// ConvNet: as many blocks as its depth, of a 3 x 3 convolution, norm, activation and pooling, then a linear layer.
///
/// Parameters are named as in the published code: `features.0` (convolution), `features.1` (norm), .., `classifier`.
#[derive(Clone, PartialEq, Debug)]
pub struct ConvNet {
    /// Channels of each convolution.
    pub width: usize,
    /// Number of blocks.
    pub depth: usize,
    /// How results of convolutions are normalized. Instance normalization is one with scale and shift; group
    /// normalization is of 4 groups in the papers.
    pub norm: Norm,
    /// Activation.
    pub activation: Activation,
    /// Pooling.
    pub pooling: Pooling,
    /// Number of classes.
    pub classes: usize,
}

impl ConvNet {
    /// ConvNet-3 of the papers: width 128, instance normalization, ReLU, average pooling.
    pub fn new(classes: usize) -> ConvNet {
        ConvNet {
            width: 128,
            depth: 3,
            norm: Norm::Instance,
            activation: Activation::Relu,
            pooling: Pooling::Average,
            classes,
        }
    }

    /// Description of its body and head.
    pub fn plain(&self) -> PlainNet {
        let (kernel, stride) = (2, 2);
        let pooling = match self.pooling {
            Pooling::None => None,
            Pooling::Max => Some(Part::MaxPool { kernel, stride }),
            Pooling::Average => Some(Part::AvgPool { kernel, stride }),
        };
        let block = || [Some(Part::same(self.width, 3)), pooling].into_iter().flatten();
        PlainNet {
            features: (0..self.depth).flat_map(|_| block()).collect(),
            norm: self.norm,
            activation: self.activation,
            ..plain(Vec::new(), vec![dense("classifier", self.classes)])
        }
    }
}

/// The network without convolutions of the papers on condensation, with two hidden layers of 128 and ReLU: `fc_1`,
/// `fc_2`, `fc_3`.
pub fn mlp(classes: usize) -> PlainNet {
    plain(
        Vec::new(),
        vec![dense("fc_1", 128), dense("fc_2", 128), dense("fc_3", classes)],
    )
}

/// [`mlp`] with a linear layer over all elements beside it: `wide`.
pub fn wide_mlp(classes: usize) -> PlainNet {
    PlainNet {
        wide: Some("wide"),
        ..mlp(classes)
    }
}

/// A linear layer over all elements of an image, or of a row of a table: `fc`.
pub fn linear_array(classes: usize) -> PlainNet {
    plain(Vec::new(), vec![dense("fc", classes)])
}

/// LeNet (LeCun et al. 1998) as in the papers on condensation, with ReLU and maximum pooling: `features.0`,
/// `features.3`, `fc_1`, `fc_2`, `fc_3`.
pub fn lenet(classes: usize) -> PlainNet {
    let valid = |out: usize| Part::Convolution {
        out,
        kernel: 5,
        stride: 1,
        padding: 0,
    };
    plain(
        vec![valid(6), HALF, valid(16), HALF],
        vec![dense("fc_1", 120), dense("fc_2", 84), dense("fc_3", classes)],
    )
}

/// AlexNet as in the papers on condensation, with one linear layer: `features.0`, .., `fc`.
pub fn small_alexnet(classes: usize) -> PlainNet {
    let features = vec![
        Part::same(128, 5),
        HALF,
        Part::same(192, 5),
        HALF,
        Part::same(256, 3),
        Part::same(192, 3),
        Part::same(192, 3),
        HALF,
    ];
    plain(features, vec![dense("fc", classes)])
}

/// AlexNet (Krizhevsky 2014) as in torchvision, for images of 63 x 63 pixels and more.
pub fn alexnet(classes: usize) -> PlainNet {
    let pool = Part::MaxPool { kernel: 3, stride: 2 };
    let first = Part::Convolution {
        out: 64,
        kernel: 11,
        stride: 4,
        padding: 2,
    };
    let features = vec![
        first,
        pool,
        Part::same(192, 5),
        pool,
        Part::same(384, 3),
        Part::same(256, 3),
        Part::same(256, 3),
        pool,
    ];
    let dropout = 0.5;
    let hidden = |name| Dense {
        dropout,
        ..dense(name, 4096)
    };
    PlainNet {
        size: Some(6),
        ..plain(
            features,
            vec![
                hidden("classifier.1"),
                hidden("classifier.4"),
                dense("classifier.6", classes),
            ],
        )
    }
}

/// VGG-11 as in the papers on condensation, with one linear layer, `classifier`, and PyTorch's initial values. The
/// papers' networks have instance or batch normalization.
pub fn small_vgg11(norm: Norm, classes: usize) -> PlainNet {
    PlainNet {
        norm,
        ..plain(vgg11_features(), vec![dense("classifier", classes)])
    }
}

/// VGG-11 (Simonyan and Zisserman 2015) as in torchvision: without norms, or with batch normalization (`vgg11_bn`).
pub fn vgg11(norm: Norm, classes: usize) -> PlainNet {
    vgg(norm, vgg11_features(), classes)
}

/// VGG-19 (Simonyan and Zisserman 2015) as in torchvision: without norms, or with batch normalization (`vgg19_bn`).
pub fn vgg19(norm: Norm, classes: usize) -> PlainNet {
    vgg(norm, vgg_features([2, 2, 4, 4, 4]), classes)
}

fn vgg(norm: Norm, features: Vec<Part>, classes: usize) -> PlainNet {
    let dropped = |name, out| Dense {
        dropout: 0.5,
        ..dense(name, out)
    };
    PlainNet {
        norm,
        size: Some(7),
        start: Start::Normal,
        ..plain(
            features,
            vec![
                dense("classifier.0", 4096),
                dropped("classifier.3", 4096),
                dropped("classifier.6", classes),
            ],
        )
    }
}

fn vgg11_features() -> Vec<Part> {
    vgg_features([1, 1, 2, 2, 2])
}

/// The features of a VGG with this many convolutions in each stage.
fn vgg_features(stages: [usize; 5]) -> Vec<Part> {
    let mut features = Vec::new();
    for (count, width) in stages.into_iter().zip([64, 128, 256, 512, 512]) {
        features.extend(vec![Part::same(width, 3); count]);
        features.push(HALF);
    }
    features
}

/// Maximum pooling by 2 x 2.
const HALF: Part = Part::MaxPool { kernel: 2, stride: 2 };

/// A network without norms, with ReLU and PyTorch's initial values.
fn plain(features: Vec<Part>, dense: Vec<Dense>) -> PlainNet {
    PlainNet {
        features,
        norm: Norm::None,
        activation: Activation::Relu,
        size: None,
        dense,
        wide: None,
        start: Start::Uniform,
    }
}

/// A linear layer without dropout.
fn dense(name: &'static str, out: usize) -> Dense {
    Dense {
        name,
        out,
        dropout: 0.0,
    }
}
