//! The stages of MobileNetV2 (Sandler et al. 2018, table 2).

/// Inverted residuals with the same number of channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stage {
    /// Factor of the channels between the convolutions of a block.
    pub expansion: usize,
    /// Channels of the result.
    pub channels: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Stride of the first block; that of the others is 1.
    pub stride: usize,
}

/// All of them, of a network of width 1.
pub const STAGES: [Stage; 7] = [
    stage(1, 16, 1, 1),
    stage(6, 24, 2, 2),
    stage(6, 32, 3, 2),
    stage(6, 64, 4, 2),
    stage(6, 96, 3, 1),
    stage(6, 160, 3, 2),
    stage(6, 320, 1, 1),
];

const fn stage(expansion: usize, channels: usize, blocks: usize, stride: usize) -> Stage {
    Stage {
        expansion,
        channels,
        blocks,
        stride,
    }
}
