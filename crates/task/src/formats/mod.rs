//! Formats of data. A format is a file of this folder and a line of
//! `data_formats`: it says which settings it takes, reads the data and makes
//! batches of it.

mod adder;
pub mod corpus;
mod digests;
pub mod glue;
pub mod held_out_by;
pub mod images;
pub mod labelled;
mod masked;
mod squad;
mod table;
mod tagged;
mod text;

use self::corpus::Corpus;
use crate::goal::{self, SharedGoal};
use crate::models::ModelRole;
use crate::recipe::config::Config;
use crate::recipe::keys::{DataFormat, DataKeys, Transformer, data_formats};
use lessen_base::Result;
use lessen_data::memory::DataInMemory;
use lessen_data::table::TableSchema;
use lessen_data::{Problem, bucket};
use lessen_nn::{BatchShape, Model};
use std::sync::Arc;

macro_rules! registry {
    ($($(#[$doc:meta])* $variant:ident = $word:literal: $format:path;)*) => {
        /// All data formats.
        pub const ALL: &[DataFormat] = &[$(DataFormat::$variant),*];

        impl DataFormat {
            /// The implementation of the format.
            pub fn format(self) -> &'static dyn Format {
                match self {
                    $(DataFormat::$variant => &$format,)*
                }
            }
        }
    };
}

data_formats!(registry);

/// A format of data.
pub trait Format: Sync {
    /// The keys that are for this format, and for others that list them.
    fn own_keys(&self) -> &'static [&'static str] {
        &[]
    }

    /// Models that learn data in this format.
    fn learned_by(&self) -> ModelRole;

    /// Whether the data is in files that a recipe names.
    fn is_in_files(&self) -> bool {
        true
    }

    /// Whether examples are images.
    fn is_of_images(&self) -> bool {
        false
    }

    /// Whether examples are rows of a table.
    fn is_of_tables(&self) -> bool {
        false
    }

    /// Whether data is read by keys of `data` alone, so that tasks with equal ones can share it.
    fn is_read_by_data_keys(&self) -> bool {
        !self.is_of_images() || self.is_of_tables()
    }

    /// The number of tokens of every example; none where `data.max_length` decides.
    fn fixed_length(&self) -> Option<usize> {
        None
    }

    /// Whether examples have different numbers of tokens: those that fit into `data.max_length`, without the rest.
    fn has_lengths(&self, data: &DataKeys) -> bool {
        let _ = data;
        false
    }

    /// Which share of the data is held out for validation.
    fn held_out(&self) -> HeldOut;

    /// Checks the keys that only this format has.
    ///
    /// # Errors
    /// The key.
    fn check(&self, config: &Config) -> Result<()> {
        let _ = config;
        Ok(())
    }

    /// Whether it reads such data in memory.
    fn takes(&self, data: &DataInMemory) -> bool {
        let _ = data;
        false
    }

    /// Reads the data that is given in memory, of which the format takes such, or else that which the recipe names, for
    /// a model with these traits.
    ///
    /// # Errors
    /// Data that is missing, not named, or damaged.
    fn read(&self, config: &Config, known: &KnownModel, given: Option<&DataInMemory>) -> Result<Arc<dyn Corpus>>;

    /// Whether an example of the recipe's data is a pair of texts, or may be one.
    fn has_pairs(&self, config: &Config) -> bool {
        let _ = config;
        false
    }

    /// The goal of a recipe without data.
    fn assumed_goal(&self, config: &Config) -> SharedGoal;

    /// The goal of a saved model whose run had data in this format.
    fn goal_of(&self, model: &Model, config: &Config) -> SharedGoal {
        goal::of_model(model, config.data.threshold)
    }

    /// The largest layouts of batches that a recipe can have, whatever its data: of training and of evaluations.
    fn assumed_shapes(&self, config: &Config, model: &Model) -> [BatchShape; 2];

    /// Whether the data is cut into windows, which may have another length in an evaluation than in training.
    fn has_windows(&self) -> bool {
        false
    }

    /// Settings for the model of a Hugging Face folder; none where such a model reads data in another format.
    fn settings_of_model(&self, model: &Model) -> Option<ModelSettings> {
        let _ = model;
        None
    }

    /// Settings that follow from the name of the data's folder: keys and values.
    fn settings_of_folder(&self, name: &str) -> Vec<(&'static str, &'static str)> {
        let _ = name;
        Vec::new()
    }
}

/// The share of data that is held out for validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldOut {
    /// None: the data has its own split, or is made.
    Nothing,
    /// `data.held_out`, more than 0.
    Share,
    /// `data.held_out`, which may be 0 where the test split serves.
    ShareOrTest,
}

/// Traits of a model that decide how data is read for it.
#[derive(Clone, Debug, Default)]
pub struct KnownModel {
    /// The names of its classes.
    pub classes: Option<Vec<String>>,
    /// Channels of the images that it reads.
    pub channels: Option<usize>,
    /// The columns of the tables that it reads.
    pub schema: Option<TableSchema>,
}

/// Settings for the model of a Hugging Face folder.
#[derive(Clone, Copy, Debug)]
pub struct ModelSettings {
    /// A model that learns the same data; its weights come from the folder.
    pub kind: Transformer,
    /// Most tokens of an example, where the tokenizer names no other number.
    pub length: usize,
    /// The largest number that the tokenizer may name; none where its number is without effect.
    pub longest: Option<usize>,
    /// Examples in a batch.
    pub batch: usize,
    /// The problem that labels pose, where the format asks for it.
    pub problem: Option<Problem>,
}

/// Most tokens of an example for an encoder from a Hugging Face folder.
const ENCODER_LENGTH: usize = 512;

/// Examples in a batch for an encoder from a Hugging Face folder.
const ENCODER_BATCH: usize = 32;

impl ModelSettings {
    /// Settings for an encoder that reads at most `length` tokens.
    fn encoder(kind: Transformer, model: &Model, length: usize) -> ModelSettings {
        ModelSettings {
            kind,
            length: model.max_length().unwrap_or(length).min(length),
            longest: Some(model.max_length().unwrap_or(usize::MAX)),
            batch: ENCODER_BATCH,
            problem: None,
        }
    }
}

/// The largest layout of texts of different lengths that follow each other without padding, each of at least `shortest`
/// tokens.
fn packed_texts(config: &Config, shortest: usize) -> BatchShape {
    let (size, tokens) = match config.train.tokens {
        0 => {
            let size = config.train.batch;
            (size, size.saturating_mul(config.data.max_length))
        }
        most => (bucket(most.div_ceil(shortest)), most),
    };
    BatchShape::Packed {
        size,
        tokens: bucket(tokens),
    }
}

/// Names of the classes of a recipe without data.
fn assumed_classes(config: &Config) -> Vec<String> {
    (0..config.model.classes).map(|class| class.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::words_of;
    use crate::recipe::keys::CORE;

    #[test]
    fn formats_have_known_keys_and_models() {
        for format in ALL {
            let (own, role) = (format.format().own_keys(), format.format().learned_by());
            let unknown = own.iter().find(|key| CORE.find(key).is_err());
            assert_eq!(unknown, None, "{format}");
            assert!(!words_of(role).is_empty(), "{format}");
        }
    }
}
