//! The networks that have names.

use lessen_base::word::Word;
use std::fmt;

use super::{
    Block, ConvNet, DenseNet, MixedArchitecture, MixedMobileNet, MobileNetV2, Norm, ResNet, RevNet, Stem, VisionModel,
};
use super::{alexnet, lenet, linear_array, mlp, small_alexnet, small_vgg11, vgg11, vgg19, wide_mlp};

/// A network with this number of classes.
type Make = fn(usize) -> VisionModel;

/// The bottleneck of ResNeXt-101 (32x8d).
const RESNEXT: Block = Block::Bottleneck {
    groups: 32,
    group_width: 8,
};

/// The network whose blocks a description says; without one they are MobileNetV2's with 8 bits.
const MIXED: &str = "mixed-mobilenet";

/// Networks by name.
const PRESETS: [(&str, Make); 34] = [
    ("convnet-3", |classes| ConvNet::new(classes).into()),
    ("linear-array", |classes| linear_array(classes).into()),
    ("mlp", |classes| mlp(classes).into()),
    ("wide-mlp", |classes| wide_mlp(classes).into()),
    ("lenet", |classes| lenet(classes).into()),
    ("alexnet", |classes| alexnet(classes).into()),
    ("alexnet-cifar", |classes| small_alexnet(classes).into()),
    ("vgg11", |classes| vgg11(Norm::None, classes).into()),
    ("vgg11-bn", |classes| vgg11(Norm::default(), classes).into()),
    ("vgg19-bn", |classes| vgg19(Norm::default(), classes).into()),
    ("vgg11-cifar", |classes| small_vgg11(Norm::Instance, classes).into()),
    ("vgg11-cifar-bn", |classes| small_vgg11(Norm::default(), classes).into()),
    ("resnet18", |classes| {
        ResNet::imagenet(Block::Basic, [2, 2, 2, 2], classes).into()
    }),
    ("resnet34", |classes| {
        ResNet::imagenet(Block::Basic, [3, 4, 6, 3], classes).into()
    }),
    ("resnet50", |classes| {
        ResNet::imagenet(Block::BOTTLENECK, [3, 4, 6, 3], classes).into()
    }),
    ("resnext101-32x8d", |classes| {
        ResNet::imagenet(RESNEXT, [3, 4, 23, 3], classes).into()
    }),
    ("resnet18-cifar", |classes| {
        let stem = Stem::Small;
        let large = ResNet::imagenet(Block::Basic, [2, 2, 2, 2], classes);
        ResNet { stem, ..large }.into()
    }),
    ("resnet18-instance", |classes| ResNet::instance(classes).into()),
    ("resnet20", |classes| ResNet::cifar(3, classes).into()),
    ("resnet32", |classes| ResNet::cifar(5, classes).into()),
    ("resnet44", |classes| ResNet::cifar(7, classes).into()),
    ("resnet56", |classes| ResNet::cifar(9, classes).into()),
    ("resnet110", |classes| ResNet::cifar(18, classes).into()),
    ("resnet1202", |classes| ResNet::cifar(200, classes).into()),
    ("wide-resnet-16-2", |classes| ResNet::wide(2, 2, classes).into()),
    ("wide-resnet-28-10", |classes| ResNet::wide(4, 10, classes).into()),
    ("wide-resnet-40-4", |classes| ResNet::wide(6, 4, classes).into()),
    ("revnet-38", |classes| {
        RevNet::cifar(Block::Basic, 3, [32, 64, 112], classes).into()
    }),
    ("revnet-110", |classes| {
        RevNet::cifar(Block::Basic, 9, [32, 64, 128], classes).into()
    }),
    ("revnet-164", |classes| {
        RevNet::cifar(Block::BOTTLENECK, 9, [32, 64, 128], classes).into()
    }),
    ("revnet-104", |classes| RevNet::imagenet([2, 2, 11, 2], classes).into()),
    ("densenet-121", |classes| DenseNet::new(classes).into()),
    (MIXED, |classes| {
        MixedMobileNet::new(MixedArchitecture::mobilenet_v2(8, 1.0, 0), classes).into()
    }),
    ("mobilenet-v2", |classes| MobileNetV2::new(classes).into()),
];

/// A network with a name, such as `resnet20`, whose number of classes is open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Network {
    place: usize,
}

impl Network {
    /// All of them.
    pub const ALL: [Network; PRESETS.len()] = {
        let mut all = [Network { place: 0 }; PRESETS.len()];
        let mut place = 0;
        while place < all.len() {
            all[place].place = place;
            place += 1;
        }
        all
    };

    /// The names of all of them, in the same order.
    pub const NAMES: [&'static str; PRESETS.len()] = {
        let mut names = [""; PRESETS.len()];
        let mut place = 0;
        while place < names.len() {
            names[place] = PRESETS[place].0;
            place += 1;
        }
        names
    };

    /// The network of this name.
    pub fn of(name: &str) -> Option<Network> {
        Network::ALL.into_iter().find(|network| network.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        PRESETS[self.place].0
    }

    /// Whether a [`MixedArchitecture`] says what its blocks are.
    pub fn takes_architecture(self) -> bool {
        self.name() == MIXED
    }

    /// The network with this number of classes, at least 1.
    pub fn with_classes(self, classes: usize) -> VisionModel {
        PRESETS[self.place].1(classes)
    }
}

impl Word for Network {
    const WORDS: &'static [&'static str] = &Network::NAMES;

    fn word(self) -> &'static str {
        self.name()
    }

    fn from_word(word: &str) -> Option<Network> {
        Network::of(word)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
