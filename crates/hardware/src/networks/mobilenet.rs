//! MobileNetV1 (Howard et al. 2017) and MobileNetV2 (Sandler et al. 2018).

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

/// Expansion, channels, repetitions and stride of each stage of MobileNetV2.
type Stages = [(u64, u64, u64, u64); 7];

const STAGES: Stages = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
];

/// MobileNetV2 of width 1 on `batch` images of `size` pixels a side: 53 layers.
pub fn mobilenet_v2(batch: u64, size: u64, classes: u64, bits: Bits) -> Vec<Layer> {
    inverted([batch, size, 2, classes], STAGES, bits)
}

/// MobileNetV2 on `batch` images of 32 x 32 pixels, without its first two convolutions of stride 2.
pub fn mobilenet_v2_cifar(batch: u64, classes: u64, bits: Bits) -> Vec<Layer> {
    let mut stages = STAGES;
    stages[1].3 = 1;
    inverted([batch, 32, 1, classes], stages, bits)
}

fn inverted([batch, size, stride, classes]: [u64; 4], stages: Stages, bits: Bits) -> Vec<Layer> {
    let mut chain = Chain::new(batch, 3, size, bits);
    chain.convolution("stem", 32, 3, stride);
    for (stage, (expansion, channels, repetitions, stride)) in (1..).zip(stages) {
        for repetition in 1..=repetitions {
            let name = format!("stage{stage}.{repetition}");
            if expansion > 1 {
                chain.convolution(format!("{name}.expand"), chain.channels * expansion, 1, 1);
            }
            chain.depthwise(format!("{name}.depthwise"), if repetition == 1 { stride } else { 1 });
            chain.convolution(format!("{name}.project"), channels, 1, 1);
        }
    }
    chain.convolution("head", 1280, 1, 1);
    chain.linear("classifier", 1280, classes);
    chain.layers
}
