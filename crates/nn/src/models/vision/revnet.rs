//! Reversible residual networks (Gomez et al. 2017): two halves of the channels. A function of each half is added to
//! the other half, so that in a unit that changes no sizes the inputs follow from the outputs.
//!
//! A unit computes `y1 = s(x1) + F(x2)` and `y2 = s(x2) + G(y1)`. `F` and `G` are residual branches in which norm and
//! activation come before each convolution. `s` is the identity, so that `x2 = y2 - G(y1)` and `x1 = y1 - F(x2)`,
//! except in the first unit of a stage that changes sizes.
//!
//! Parameters have names in the manner of torchvision, which has no such network: `conv1`, `bn1`, `layer1.0.f.bn1`,
//! `layer1.0.f.conv1`, `layer1.0.g.bn1`, ..; with bottlenecks `layer2.0.downsample1` and `layer2.0.downsample2`, the
//! convolutions of the shortcuts of both halves; `bn` after the last unit, and `fc`. `layer1.0.f` begins with `conv1`,
//! because its input is activated already.

use lessen_graph::{Pool2d, Tensor, concat};

use super::parts::{Norm, Stem, activate, classifier, pad_channels};
use super::resnet::Block;
use crate::activation::Activation;
use crate::context::Cx;
use crate::layers::{Convolution, conv2d};

/// A reversible residual network.
#[derive(Clone, PartialEq, Debug)]
pub struct RevNet {
    /// How it begins.
    pub stem: Stem,
    /// Channels after `conv1`, in both halves together.
    pub stem_width: usize,
    /// Number of units of each stage, and its width in both halves together. Each stage after the first one has half
    /// the height and width of the one before.
    pub stages: Vec<(usize, usize)>,
    /// Layers of `F` and `G`.
    pub block: Block,
    /// How inputs of convolutions are normalized.
    pub norm: Norm,
    /// Activation.
    pub activation: Activation,
    /// Number of classes.
    pub classes: usize,
}

impl RevNet {
    /// For CIFAR: three stages of `units` units each, with these widths. RevNet-38 has basic blocks, 3 units and widths
    /// 32, 64 and 112.
    pub fn cifar(block: Block, units: usize, widths: [usize; 3], classes: usize) -> RevNet {
        RevNet {
            stem: Stem::Small,
            stem_width: 32,
            stages: widths.map(|width| (units, width)).to_vec(),
            block,
            norm: Norm::default(),
            activation: Activation::Relu,
            classes,
        }
    }

    /// For ImageNet: bottlenecks in four stages, with these numbers of units and the widths 128, 256, 512 and 832.
    /// RevNet-104 has 2, 2, 11 and 2 units.
    pub fn imagenet(units: [usize; 4], classes: usize) -> RevNet {
        RevNet {
            stem: Stem::Large,
            stem_width: 128,
            stages: units.into_iter().zip([128, 256, 512, 832]).collect(),
            ..RevNet::cifar(Block::BOTTLENECK, 0, [0; 3], classes)
        }
    }

    /// The logits of the classes, `[N, classes]`, of images `[N, H, W, C]`.
    ///
    /// # Panics
    /// If the width of the stem is odd.
    #[track_caller]
    pub fn forward(&self, cx: Cx, images: Tensor) -> Tensor {
        self.forward_with_features(cx, images).0
    }

    /// The logits, and the features that the last layer reads, `[N, width]`.
    #[track_caller]
    pub fn forward_with_features(&self, cx: Cx, images: Tensor) -> (Tensor, Tensor) {
        let x = conv2d(cx, "conv1", images, self.stem.convolution(self.stem_width));
        let x = self.stem.pool(self.norm_activate(cx, "bn1", x));
        let halves = x.split(-1, &[self.stem_width / 2; 2]);
        let mut pair = [halves[0], halves[1]];
        for (stage, &(units, width)) in self.stages.iter().enumerate() {
            for unit in 0..units {
                let at = At {
                    width: width / 2,
                    stride: if stage > 0 && unit == 0 { 2 } else { 1 },
                    is_first: stage == 0 && unit == 0,
                };
                let name = format!("layer{}.{unit}", stage + 1);
                pair = cx.scope(&name, |cx| self.unit(cx, pair, at));
            }
        }
        let x = self.norm_activate(cx, "bn", concat(&pair, -1));
        let features = x.global_avg_pool2d();
        (classifier(cx, "fc", features, self.classes), features)
    }

    /// A unit on both halves.
    #[track_caller]
    fn unit(&self, cx: Cx, [x1, x2]: [Tensor; 2], at: At) -> [Tensor; 2] {
        let f = cx.scope("f", |cx| self.branch(cx, x2, at));
        let y1 = self.skip(cx, "downsample1", x1, at) + f;
        let rest = At {
            stride: 1,
            is_first: false,
            ..at
        };
        let g = cx.scope("g", |cx| self.branch(cx, y1, rest));
        [y1, self.skip(cx, "downsample2", x2, at) + g]
    }

    /// `F` or `G`.
    #[track_caller]
    fn branch(&self, cx: Cx, x: Tensor, at: At) -> Tensor {
        let mut y = x;
        for (how, number) in self.block.convolutions(at.width, at.stride).into_iter().zip(1..) {
            if number > 1 || !at.is_first {
                y = self.norm_activate(cx, &format!("bn{number}"), y);
            }
            y = conv2d(cx, &format!("conv{number}"), y, how);
        }
        y
    }

    /// The shortcut, to which a branch is added: the half itself, or with other sizes a convolution of it
    /// (bottlenecks), or means of its pixels with channels of zeros on both sides (basic blocks).
    #[track_caller]
    fn skip(&self, cx: Cx, name: &str, x: Tensor, at: At) -> Tensor {
        let out = self.block.outputs(at.width);
        if at.stride == 1 && x.dim(-1) == out {
            return x;
        }
        match self.block {
            Block::Basic => pad_channels(halve(x, at.stride), out),
            Block::Bottleneck { .. } => conv2d(cx, name, x, Convolution::square(out, 1, at.stride)),
        }
    }

    #[track_caller]
    fn norm_activate(&self, cx: Cx, name: &str, x: Tensor) -> Tensor {
        activate(cx, self.activation, self.norm.apply(cx, name, x))
    }
}

/// Where a unit is.
#[derive(Clone, Copy)]
struct At {
    /// Width of a half in this stage.
    width: usize,
    /// Stride of the first branch and of the shortcuts.
    stride: usize,
    /// Whether it is the first unit of all, whose input is activated.
    is_first: bool,
}

/// Means of windows of `stride` x `stride` pixels. The last windows of an odd height or width have fewer pixels, so
/// that there are as many windows as in a convolution of this stride.
#[track_caller]
fn halve(x: Tensor, stride: usize) -> Tensor {
    if stride == 1 {
        return x;
    }
    let missing = |size: usize| size.next_multiple_of(stride) - size;
    let shape = x.shape();
    let windows = Pool2d {
        padding: [0, missing(shape[1]), 0, missing(shape[2])],
        ..Pool2d::square(stride)
    };
    x.avg_pool2d(windows, false)
}
