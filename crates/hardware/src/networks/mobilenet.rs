//! MobileNetV1 (Howard et al. 2017) and MobileNetV2 (Sandler et al. 2018).

use lessen_base::mobilenet::{STAGES, Stage};

use super::Chain;
use crate::layer::{Bits, Layer};

/// MobileNetV1 of width 1 on `batch` images of `size` pixels a side: 28 layers.
pub fn mobilenet_v1(batch: u64, size: u64, classes: u64, bits: Bits) -> Vec<Layer> {
    /// Channels and stride of each separable block.
    const BLOCKS: [(u64, u64); 13] = [
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        (512, 1),
        (512, 1),
        (512, 1),
        (512, 1),
        (512, 1),
        (1024, 2),
        (1024, 1),
    ];
    let mut chain = Chain::new(batch, 3, size, bits);
    chain.convolution("stem", 32, 3, 2);
    for (number, (channels, stride)) in (1..).zip(BLOCKS) {
        chain.depthwise(format!("block{number}.depthwise"), stride);
        chain.convolution(format!("block{number}.pointwise"), channels, 1, 1);
    }
    chain.linear("classifier", 1024, classes);
    chain.layers
}

/// MobileNetV2 of width 1 on `batch` images of `size` pixels a side: 53 layers.
pub fn mobilenet_v2(batch: u64, size: u64, classes: u64, bits: Bits) -> Vec<Layer> {
    inverted([batch, size, 2, classes], STAGES, bits)
}

/// MobileNetV2 on `batch` images of 32 x 32 pixels, without its first two convolutions of stride 2.
pub fn mobilenet_v2_cifar(batch: u64, classes: u64, bits: Bits) -> Vec<Layer> {
    let mut stages = STAGES;
    stages[1].stride = 1;
    inverted([batch, 32, 1, classes], stages, bits)
}

fn inverted([batch, size, stride, classes]: [u64; 4], stages: [Stage; 7], bits: Bits) -> Vec<Layer> {
    let mut chain = Chain::new(batch, 3, size, bits);
    chain.convolution("stem", 32, 3, stride);
    for (number, stage) in (1..).zip(stages) {
        for block in 1..=stage.blocks {
            let name = format!("stage{number}.{block}");
            if stage.expansion > 1 {
                let inner = chain.channels * stage.expansion as u64;
                chain.convolution(format!("{name}.expand"), inner, 1, 1);
            }
            let stride = if block == 1 { stage.stride } else { 1 };
            chain.depthwise(format!("{name}.depthwise"), stride as u64);
            chain.convolution(format!("{name}.project"), stage.channels as u64, 1, 1);
        }
    }
    chain.convolution("head", 1280, 1, 1);
    chain.linear("classifier", 1280, classes);
    chain.layers
}
