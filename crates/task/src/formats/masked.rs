//! Plain text for a masked language model.

use super::corpus::Corpus;
use super::text::PlainText;
use super::{ENCODER_LENGTH, Format, HeldOut, KnownModel, ModelSettings};
use crate::goal::SharedGoal;
use crate::goal::masked_tokens::MaskedTokens;
use crate::models::ModelRole;
use crate::reader::Reader;
use crate::recipe::config::Config;
use crate::recipe::keys::{DataKeys, Transformer};
use lessen_base::{Error, Result};
use lessen_data::memory::DataInMemory;
use lessen_data::{Batching, MaskedBatches, Masking, Order, Source, TextSplit, bucket, masked_places};
use lessen_nn::{BatchShape, Model, Task};
use std::sync::Arc;

/// Plain text for a masked language model.
pub(super) struct MaskedFormat;

impl Format for MaskedFormat {
    fn learned_by(&self) -> ModelRole {
        ModelRole::EncodesTexts
    }

    fn has_lengths(&self, data: &DataKeys) -> bool {
        data.lines
    }

    fn held_out(&self) -> HeldOut {
        HeldOut::Share
    }

    fn check(&self, config: &Config) -> Result<()> {
        let mask = config.data.mask;
        if mask != 0.0 && mask != 1.0 {
            return Ok(());
        }
        Err(Error::user(format!(
            "{}: data.mask = {mask} leaves nothing to {}; choose a number between 0 and 1, such as 0.15",
            config.settings.origin("data.mask"),
            if mask == 0.0 { "predict" } else { "predict from" }
        )))
    }

    fn takes(&self, data: &DataInMemory) -> bool {
        data.texts().is_some()
    }

    fn read(&self, config: &Config, _known: &KnownModel, given: Option<&DataInMemory>) -> Result<Arc<dyn Corpus>> {
        PlainText::read(config, given, (Arc::new(MaskedTokens), true, masked))
    }

    fn assumed_goal(&self, _config: &Config) -> SharedGoal {
        Arc::new(MaskedTokens)
    }

    fn assumed_shapes(&self, config: &Config, _model: &Model) -> [BatchShape; 2] {
        let (size, tokens) = match config.train.tokens {
            // Texts of a token each.
            most if most > 0 && config.data.lines => (bucket(most), bucket(most)),
            _ => {
                let size = config.equal_batch();
                (size, bucket(size.saturating_mul(config.data.max_length)))
            }
        };
        let masked = masked_places(tokens, config.data.mask);
        [BatchShape::Masked { size, tokens, masked }; 2]
    }

    fn settings_of_model(&self, model: &Model) -> Option<ModelSettings> {
        (model.task() == Task::MaskedLanguageModelling)
            .then(|| ModelSettings::encoder(Transformer::Bert, model, ENCODER_LENGTH))
    }
}

/// Windows or lines of a text whose tokens are masked.
fn masked(text: &TextSplit, config: &Config, reader: &Reader, order: Order) -> Result<Arc<dyn Source>> {
    let masking = Masking {
        share: config.data.mask,
        lines: config.data.lines,
        seed: config.train.seed,
    };
    // Windows have the same length, but for the last one.
    let batching = if masking.lines {
        config.batching()
    } else {
        Batching::Examples(config.equal_batch())
    };
    let (masking, cache) = ((config.data.max_length, masking), config.cache());
    let batches = MaskedBatches::of(text, reader.tokenizer()?, masking, Some(&cache), batching, order)?;
    Ok(Arc::new(batches))
}
