//! DenseNet (Huang et al. 2017): each layer reads the channels of all layers of its block before it.
//!
//! Parameters have torchvision's names: `features.conv0.weight`, `features.denseblock1.denselayer1.norm1.weight`, ..,
//! `features.transition1.conv.weight`, `features.norm5.running_var`, `classifier.weight`. Convolutions are drawn from
//! the normal distribution of He et al. (2015) for values, not for cotangents.

use lessen_graph::{Pool2d, Tensor, concat};

use super::parts::{Stem, activate, uniform_of};
use crate::activation::Activation;
use crate::context::Cx;
use crate::init::Init;
use crate::layers::{BatchNorm, Convolution, batch_norm, conv2d, linear_from};

/// Channels of a layer's 1 x 1 convolution, as a multiple of those that the layer adds.
const BOTTLENECK: usize = 4;

/// A DenseNet with bottlenecks and compression by one half (DenseNet-BC), for images of ImageNet.
#[derive(Clone, PartialEq, Debug)]
pub struct DenseNet {
    /// Channels that a layer adds.
    pub growth: usize,
    /// Layers of each block.
    pub layers: [usize; 4],
    /// Batch normalization.
    pub norm: BatchNorm,
    /// Activation.
    pub activation: Activation,
    /// Number of classes.
    pub classes: usize,
}

impl DenseNet {
    /// DenseNet-121.
    pub fn new(classes: usize) -> DenseNet {
        DenseNet {
            growth: 32,
            layers: [6, 12, 24, 16],
            norm: BatchNorm::default(),
            activation: Activation::Relu,
            classes,
        }
    }

    /// The logits of the classes, `[N, classes]`, of images `[N, H, W, C]`.
    #[track_caller]
    pub fn forward(&self, cx: Cx, images: Tensor) -> Tensor {
        self.forward_with_features(cx, images).0
    }

    /// The logits, and the features that the last layer reads, `[N, width]`.
    #[track_caller]
    pub fn forward_with_features(&self, cx: Cx, images: Tensor) -> (Tensor, Tensor) {
        let features = cx.enter("features");
        let stem = Stem::Large.convolution(2 * self.growth);
        let x = conv2d(*features, "conv0", images, of_values(stem, images));
        let mut x = Stem::Large.pool(self.activated(*features, "norm0", x));
        for (block, &layers) in self.layers.iter().enumerate() {
            if block > 0 {
                x = self.transition(*features.enter(&format!("transition{block}")), x);
            }
            let own = features.enter(&format!("denseblock{}", block + 1));
            for layer in 1..=layers {
                let more = self.layer(*own.enter(&format!("denselayer{layer}")), x);
                x = concat(&[x, more], -1);
            }
        }
        let pooled = self.activated(*features, "norm5", x).global_avg_pool2d();
        drop(features);
        let init = [uniform_of(pooled.dim(-1)), Init::Zeros];
        (linear_from(cx, "classifier", pooled, self.classes, init), pooled)
    }

    /// The channels that a layer adds: 1 x 1 and 3 x 3, each of normalized and activated channels.
    #[track_caller]
    fn layer(&self, cx: Cx, x: Tensor) -> Tensor {
        let mut y = x;
        let parts = [
            ("norm1", "conv1", BOTTLENECK * self.growth, 1),
            ("norm2", "conv2", self.growth, 3),
        ];
        for (norm, conv, out, kernel) in parts {
            y = self.activated(cx, norm, y);
            y = conv2d(cx, conv, y, of_values(Convolution::square(out, kernel, 1), y));
        }
        y
    }

    /// Half of the channels, and the means of 2 x 2 pixels.
    #[track_caller]
    fn transition(&self, cx: Cx, x: Tensor) -> Tensor {
        let x = self.activated(cx, "norm", x);
        let half = Convolution::square(x.dim(-1) / 2, 1, 1);
        conv2d(cx, "conv", x, of_values(half, x)).avg_pool2d(Pool2d::square(2), true)
    }

    #[track_caller]
    fn activated(&self, cx: Cx, norm: &str, x: Tensor) -> Tensor {
        activate(cx, self.activation, batch_norm(cx, norm, x, self.norm))
    }
}

/// A convolution whose initial values keep the variance of values through ReLU.
fn of_values(how: Convolution, x: Tensor) -> Convolution {
    let inputs: usize = x.dim(-1) * how.kernel.iter().product::<usize>();
    let std = (2.0 / inputs as f64).sqrt();
    Convolution {
        init: Init::Normal { std },
        ..how
    }
}
