//! How the layers of a model are quantized.

use std::collections::BTreeMap;
use std::str::FromStr;

use lessen_base::{Error, Result};

use super::bits::Bits;

lessen_base::words! {
    /// Where the ranges of layers' inputs come from.
    #[derive(Default)]
    pub enum Ranges {
        /// The greatest magnitude of each batch of training moves a running one, which is a buffer.
        #[default]
        Running = "running",
        /// Training takes the greatest magnitude that it has seen until quantization starts, and learns a factor of it
        /// (Esser et al. 2020).
        Learned = "learned",
        /// Each row of a matrix, and each image, has its own range; nothing is kept.
        Dynamic = "dynamic",
        /// The scale is a buffer, `NAME.input_scale`, which nothing changes, and weights are as they are stored.
        Fixed = "fixed",
    }
}

impl Ranges {
    /// The ranges with which a model may be trained.
    pub const TRAINED: [Ranges; 3] = [Ranges::Running, Ranges::Learned, Ranges::Dynamic];

    /// Description of the words, for messages.
    pub fn words() -> String {
        Ranges::TRAINED.map(Ranges::name).join(", ")
    }

    /// The word in recipes.
    pub fn name(self) -> &'static str {
        lessen_base::word::Word::word(self)
    }
}

impl FromStr for Ranges {
    type Err = Error;

    fn from_str(word: &str) -> Result<Ranges> {
        let found = Ranges::TRAINED.into_iter().find(|ranges| ranges.name() == word);
        found.ok_or_else(|| {
            Error::user(format!(
                "`{word}` is none of {}",
                Ranges::TRAINED.map(Ranges::name).join(", ")
            ))
        })
    }
}

/// How the layers of a model are quantized.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quantization {
    /// Bits of layers that `layers` does not name.
    pub bits: Bits,
    /// Bits of layers by name, such as `transformer.h.0.mlp.c_fc`.
    pub layers: BTreeMap<String, Bits>,
    /// Where the ranges of inputs come from.
    pub ranges: Ranges,
    /// Batches of training before anything is rounded, in which ranges are taken.
    pub start: u64,
}

impl Quantization {
    /// The numbers of batches that an `f32` counts one by one are below this one.
    pub const MOST_BATCHES: u64 = 1 << 24;

    /// These bits in all layers, from the first step on.
    pub fn new(bits: Bits, ranges: Ranges) -> Quantization {
        Quantization {
            bits,
            layers: BTreeMap::new(),
            ranges,
            start: 0,
        }
    }

    /// The bits of a layer.
    pub fn of(&self, layer: &str) -> Bits {
        self.layers.get(layer).copied().unwrap_or(self.bits)
    }
}
