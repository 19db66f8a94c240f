//! Residual networks: ResNet (He et al. 2016) for ImageNet and CIFAR, ResNeXt (Xie et al. 2017) and Wide ResNet
//! (Zagoruyko and Komodakis 2016).
//!
//! Parameters have torchvision's names: `conv1`, `bn1`, `layer1.0.conv1`, `layer1.0.bn1`, `layer2.0.downsample.0` (a
//! convolution), `layer2.0.downsample.1` (its norm) and `fc`, for CIFAR too. Pre-activation networks, such as Wide
//! ResNet, which torchvision does not have in this form, have these names as well, with two differences:
//! `downsample.0` stands alone, for nothing normalizes the shortcut, and the norm after the last block is `bn`, while
//! there is none after `conv1`.

use lessen_graph::Tensor;

use super::parts::{Norm, Stem, activate, classifier, pad_channels, subsample, uniform_of};
use crate::activation::Activation;
use crate::context::Cx;
use crate::layers::{Convolution, conv2d};

/// The convolutions of a residual branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Block {
    /// Two of 3 x 3; the first one has the stride.
    Basic,
    /// 1 x 1, 3 x 3, and 1 x 1 to four times the width of the stage; the second one has the stride and the groups, as
    /// in torchvision.
    Bottleneck {
        /// Groups of channels of the 3 x 3 convolution.
        groups: usize,
        /// Channels of each group in a stage of width 64; they grow with the width.
        group_width: usize,
    },
}

impl Block {
    /// The bottleneck of ResNet, without groups.
    pub const BOTTLENECK: Block = Block::Bottleneck {
        groups: 1,
        group_width: 64,
    };

    /// Channels of the result in a stage of this width.
    pub fn outputs(self, width: usize) -> usize {
        match self {
            Block::Basic => width,
            Block::Bottleneck { .. } => 4 * width,
        }
    }

    /// The convolutions in a stage of this width, in order.
    pub(super) fn convolutions(self, width: usize, stride: usize) -> Vec<Convolution> {
        match self {
            Block::Basic => vec![Convolution::square(width, 3, stride), Convolution::square(width, 3, 1)],
            Block::Bottleneck { groups, group_width } => {
                let inner = width * group_width / 64 * groups;
                vec![
                    Convolution::square(inner, 1, 1),
                    Convolution::square(inner, 3, stride).grouped(groups),
                    Convolution::square(self.outputs(width), 1, 1),
                ]
            }
        }
    }
}

/// Shortcut beside a branch that changes size or number of channels; elsewhere it is the input itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shortcut {
    /// Every other row and column, and channels of zeros, half of them before the other channels and half after them:
    /// option A of He et al., without parameters.
    Padding,
    /// A 1 x 1 convolution: option B.
    Projection,
}

/// A residual network.
#[derive(Clone, PartialEq, Debug)]
pub struct ResNet {
    /// How it begins.
    pub stem: Stem,
    /// Channels after `conv1`.
    pub stem_width: usize,
    /// Width of the first stage; each later one has twice the width of the one before, and half its height and width.
    pub width: usize,
    /// Number of blocks of each stage.
    pub blocks: Vec<usize>,
    /// Block of the network.
    pub block: Block,
    /// Shortcut where sizes change.
    pub shortcut: Shortcut,
    /// Whether norm and activation come before each convolution (He et al. 2016b), not after it.
    pub pre_activation: bool,
    /// How results of convolutions are normalized.
    pub norm: Norm,
    /// Whether convolutions have PyTorch's uniform initial values, and not those of He et al. (2015).
    pub uniform_start: bool,
    /// Activation.
    pub activation: Activation,
    /// Number of classes.
    pub classes: usize,
}

impl ResNet {
    /// For ImageNet, as in torchvision: shortcuts by projection (option B).
    pub fn imagenet(block: Block, blocks: [usize; 4], classes: usize) -> ResNet {
        ResNet {
            stem: Stem::Large,
            stem_width: 64,
            width: 64,
            blocks: blocks.to_vec(),
            block,
            shortcut: Shortcut::Projection,
            pre_activation: false,
            norm: Norm::default(),
            uniform_start: false,
            activation: Activation::Relu,
            classes,
        }
    }

    /// ResNet-18 of the papers on dataset condensation (Zhao, Mopuri and Bilen 2021), for images of CIFAR: instance
    /// normalization with scale and shift, PyTorch's initial values. Its parameters keep torchvision's names, where the
    /// published code has `shortcut` for `downsample` and `classifier` for `fc`.
    pub fn instance(classes: usize) -> ResNet {
        ResNet {
            stem: Stem::Small,
            norm: Norm::Instance,
            uniform_start: true,
            ..ResNet::imagenet(Block::Basic, [2, 2, 2, 2], classes)
        }
    }

    /// For CIFAR (He et al. 2016, section 4.2): `6 · blocks + 2` layers in three stages of width 16, 32 and 64, whose
    /// shortcuts have no parameters (option A).
    pub fn cifar(blocks: usize, classes: usize) -> ResNet {
        ResNet {
            stem: Stem::Small,
            stem_width: 16,
            width: 16,
            blocks: vec![blocks; 3],
            shortcut: Shortcut::Padding,
            ..ResNet::imagenet(Block::Basic, [0; 4], classes)
        }
    }

    /// Wide ResNet for CIFAR, of `6 · blocks + 4` layers, `factor` times as wide as the layers of [`ResNet::cifar`]. It
    /// is a pre-activation network; where channels change, the shortcut is a projection of the activated input.
    pub fn wide(blocks: usize, factor: usize, classes: usize) -> ResNet {
        ResNet {
            width: 16 * factor,
            shortcut: Shortcut::Projection,
            pre_activation: true,
            ..ResNet::cifar(blocks, classes)
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
        let stem = self.started(images, self.stem.convolution(self.stem_width));
        let mut x = conv2d(cx, "conv1", images, stem);
        if !self.pre_activation {
            x = self.norm_activate(cx, "bn1", x);
        }
        x = self.stem.pool(x);
        for (stage, &blocks) in self.blocks.iter().enumerate() {
            for block in 0..blocks {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let name = format!("layer{}.{block}", stage + 1);
                x = cx.scope(&name, |cx| self.residual(cx, x, self.width << stage, stride));
            }
        }
        if self.pre_activation {
            x = self.norm_activate(cx, "bn", x);
        }
        let features = x.global_avg_pool2d();
        (classifier(cx, "fc", features, self.classes), features)
    }

    /// A block: the branch and its shortcut.
    #[track_caller]
    fn residual(&self, cx: Cx, x: Tensor, width: usize, stride: usize) -> Tensor {
        let entry = if self.pre_activation {
            self.norm_activate(cx, "bn1", x)
        } else {
            x
        };
        let convolutions = self.block.convolutions(width, stride);
        let last = convolutions.len();
        let mut y = entry;
        for (how, number) in convolutions.into_iter().zip(1..) {
            let norm = format!("bn{number}");
            if self.pre_activation && number > 1 {
                y = self.norm_activate(cx, &norm, y);
            }
            y = conv2d(cx, &format!("conv{number}"), y, self.started(y, how));
            if !self.pre_activation {
                y = if number == last {
                    self.norm.apply(cx, &norm, y)
                } else {
                    self.norm_activate(cx, &norm, y)
                };
            }
        }
        let sum = y + self.skip(cx, x, entry, self.block.outputs(width), stride);
        if self.pre_activation {
            sum
        } else {
            activate(cx, self.activation, sum)
        }
    }

    /// Shortcut beside a branch with the input `entry`, from the input `x` of the block.
    #[track_caller]
    fn skip(&self, cx: Cx, x: Tensor, entry: Tensor, out: usize, stride: usize) -> Tensor {
        if stride == 1 && x.dim(-1) == out {
            return x;
        }
        match self.shortcut {
            Shortcut::Padding => pad_channels(subsample(x, stride), out),
            Shortcut::Projection => {
                let how = self.started(entry, Convolution::square(out, 1, stride));
                let y = conv2d(cx, "downsample.0", entry, how);
                if self.pre_activation {
                    y
                } else {
                    self.norm.apply(cx, "downsample.1", y)
                }
            }
        }
    }

    /// A convolution of `x` with the network's initial values.
    fn started(&self, x: Tensor, mut how: Convolution) -> Convolution {
        if self.uniform_start {
            let [height, width] = how.kernel;
            how.init = uniform_of(x.dim(-1) / how.options.groups.max(1) * height * width);
        }
        how
    }

    #[track_caller]
    fn norm_activate(&self, cx: Cx, name: &str, x: Tensor) -> Tensor {
        activate(cx, self.activation, self.norm.apply(cx, name, x))
    }
}
