//! VGG-16 (Simonyan, Zisserman 2014) and ResNet-50 (He et al. 2015).

use super::Chain;
use crate::layer::{Bits, Layer};

/// VGG-16 on `batch` images of 224 x 224: 13 convolutions and 3 linear layers.
pub fn vgg16(batch: u64, classes: u64, bits: Bits) -> Vec<Layer> {
    /// Channels and number of the convolutions before each pooling.
    const STAGES: [(u64, u64); 5] = [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)];
    let mut chain = Chain::new(batch, 3, 224, bits);
    for (stage, (channels, count)) in (1..).zip(STAGES) {
        for number in 1..=count {
            chain.convolution(format!("conv{stage}_{number}"), channels, 3, 1);
        }
        chain.pool();
    }
    let pixels = chain.size * chain.size * chain.channels;
    chain.linear("fc6", pixels, 4096);
    chain.linear("fc7", 4096, 4096);
    chain.linear("fc8", 4096, classes);
    chain.layers
}

/// ResNet-50 on `batch` images of `size` pixels a side: 53 convolutions and a linear layer. The stride of a stage is in
/// its first 3 x 3 convolution and in its shortcut.
pub fn resnet50(batch: u64, size: u64, classes: u64, bits: Bits) -> Vec<Layer> {
    /// Inner channels and blocks of each stage.
    const STAGES: [(u64, u64); 4] = [(64, 3), (128, 4), (256, 6), (512, 3)];
    let mut chain = Chain::new(batch, 3, size, bits);
    chain.convolution("stem", 64, 7, 2);
    chain.pool();
    for (stage, (inner, blocks)) in (1..).zip(STAGES) {
        for block in 1..=blocks {
            let name = format!("stage{stage}.{block}");
            let stride = if block == 1 && stage > 1 { 2 } else { 1 };
            let (channels, size) = (chain.channels, chain.size);
            if block == 1 {
                chain.convolution(format!("{name}.shortcut"), 4 * inner, 1, stride);
                (chain.channels, chain.size) = (channels, size);
            }
            chain.convolution(format!("{name}.reduce"), inner, 1, 1);
            chain.convolution(format!("{name}.conv"), inner, 3, stride);
            chain.convolution(format!("{name}.expand"), 4 * inner, 1, 1);
        }
    }
    chain.linear("classifier", 2048, classes);
    chain.layers
}
