//! DenseNet with bottlenecks and compression (Huang et al. 2017).

use super::Chain;
use crate::layer::{Bits, Layer};

/// DenseNet-BC for images of 32 x 32: three blocks of `(depth - 4) / 6` layers, each of which adds `growth` channels
/// after a bottleneck of four times as many; transitions halve channels and size.
pub fn densenet_bc(batch: u64, depth: u64, growth: u64, classes: u64, bits: Bits) -> Vec<Layer> {
    let mut chain = Chain::new(batch, 3, 32, bits);
    chain.convolution("stem", 2 * growth, 3, 1);
    for block in 1..=3 {
        for layer in 1..=depth.saturating_sub(4) / 6 {
            let name = format!("block{block}.{layer}");
            let before = chain.channels;
            chain.convolution(format!("{name}.bottleneck"), 4 * growth, 1, 1);
            chain.convolution(format!("{name}.conv"), growth, 3, 1);
            chain.channels += before;
        }
        if block < 3 {
            chain.convolution(format!("transition{block}"), chain.channels / 2, 1, 1);
            chain.pool();
        }
    }
    let channels = chain.channels;
    chain.linear("classifier", channels, classes);
    chain.layers
}
