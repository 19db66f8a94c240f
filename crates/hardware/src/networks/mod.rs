//! Layers of published networks, to compare with their published energies.

mod classic;
mod densenet;
mod mobilenet;

pub use classic::{resnet50, vgg16};
pub use densenet::densenet_bc;
pub use mobilenet::{mobilenet_v1, mobilenet_v2, mobilenet_v2_cifar};

use lessen_base::{Error, Result};

use crate::layer::{Bits, Layer, LayerShape};

/// A published network that a command takes by name.
#[derive(Clone, Copy, Debug)]
pub struct PublishedNetwork {
    /// Its name on command lines.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    layers: fn(u64, Bits) -> Vec<Layer>,
}

/// All of them.
pub const NETWORKS: [PublishedNetwork; 6] = [
    PublishedNetwork {
        name: "mobilenet-v1",
        title: "MobileNetV1 on images of 224 x 224 and 1000 classes",
        layers: |batch, bits| mobilenet_v1(batch, 224, 1000, bits),
    },
    PublishedNetwork {
        name: "mobilenet-v2",
        title: "MobileNetV2 on images of 224 x 224 and 1000 classes",
        layers: |batch, bits| mobilenet_v2(batch, 224, 1000, bits),
    },
    PublishedNetwork {
        name: "mobilenet-v2-cifar",
        title: "MobileNetV2 without its first two reductions, on images of 32 x 32 and 100 classes",
        layers: |batch, bits| mobilenet_v2_cifar(batch, 100, bits),
    },
    PublishedNetwork {
        name: "vgg-16",
        title: "VGG-16 on images of 224 x 224 and 1000 classes",
        layers: |batch, bits| vgg16(batch, 1000, bits),
    },
    PublishedNetwork {
        name: "resnet-50",
        title: "ResNet-50 on images of 224 x 224 and 1000 classes",
        layers: |batch, bits| resnet50(batch, 224, 1000, bits),
    },
    PublishedNetwork {
        name: "densenet-bc-190",
        title: "DenseNet-BC-190 of growth 40 on images of 32 x 32 and 100 classes",
        layers: |batch, bits| densenet_bc(batch, 190, 40, 100, bits),
    },
];

impl PublishedNetwork {
    /// The network of this name.
    pub fn named(name: &str) -> Option<PublishedNetwork> {
        NETWORKS.into_iter().find(|network| network.name == name)
    }

    /// Its layers for a batch of images.
    ///
    /// # Errors
    /// A batch of 0.
    pub fn layers(&self, batch: u64, bits: Bits) -> Result<Vec<Layer>> {
        match batch {
            0 => Err(Error::user("a batch of 0 images computes nothing; give at least 1")),
            _ => Ok((self.layers)(batch, bits)),
        }
    }
}

/// The layers of a network of square images, one after another.
struct Chain {
    layers: Vec<Layer>,
    batch: u64,
    bits: Bits,
    /// Channels of the result so far.
    channels: u64,
    /// Pixels of a side of the result so far.
    size: u64,
}

impl Chain {
    fn new(batch: u64, channels: u64, size: u64, bits: Bits) -> Chain {
        Chain {
            layers: Vec::new(),
            batch,
            bits,
            channels,
            size,
        }
    }

    /// Appends a convolution with padding "same".
    fn convolution(&mut self, name: impl Into<String>, outputs: u64, kernel: u64, stride: u64) {
        self.grouped(name, outputs, [kernel, stride], 1);
    }

    /// Appends a depthwise convolution of 3 x 3.
    fn depthwise(&mut self, name: impl Into<String>, stride: u64) {
        self.grouped(name, self.channels, [3, stride], self.channels);
    }

    fn grouped(&mut self, name: impl Into<String>, outputs: u64, window: [u64; 2], groups: u64) {
        let shape = LayerShape::convolution(self.batch, [self.channels, outputs], groups, self.size, window);
        let shape = if self.layers.is_empty() { shape.first() } else { shape };
        self.size = shape.output_size[0];
        self.channels = outputs;
        self.layers.push(Layer::new(name, shape, self.bits));
    }

    /// Halves the size, rounded up.
    fn pool(&mut self) {
        self.size = self.size.div_ceil(2);
    }

    /// Appends a linear layer of `inputs` numbers of each image.
    fn linear(&mut self, name: impl Into<String>, inputs: u64, outputs: u64) {
        let shape = LayerShape::linear(self.batch, inputs, outputs);
        self.layers.push(Layer::new(name, shape, self.bits));
    }
}
