//! Sentences whose words have labels.

use super::corpus::{Corpus, folder, place};
use super::digests::digest_of_words;
use super::{ENCODER_LENGTH, Format, HeldOut, KnownModel, ModelSettings, assumed_classes, packed_texts};
use crate::folder::manifest::DataDigests;
use crate::goal::SharedGoal;
use crate::goal::word_classes::WordClasses;
use crate::models::ModelRole;
use crate::reader::Reader;
use crate::recipe::config::Config;
use crate::recipe::keys::{DataKeys, Transformer};
use lessen_base::Result;
use lessen_data::memory::{DataInMemory, DataPlace};
use lessen_data::{Order, Source, Tagged, TaggedBatches, tagged};
use lessen_nn::{BatchShape, Model, Task};
use std::sync::Arc;

/// Sentences whose words have labels.
pub(super) struct TaggedFormat;

impl Format for TaggedFormat {
    fn learned_by(&self) -> ModelRole {
        ModelRole::EncodesTexts
    }

    fn has_lengths(&self, _data: &DataKeys) -> bool {
        true
    }

    fn held_out(&self) -> HeldOut {
        HeldOut::Nothing
    }

    fn takes(&self, data: &DataInMemory) -> bool {
        data.sentences().is_some()
    }

    fn read(&self, config: &Config, known: &KnownModel, given: Option<&DataInMemory>) -> Result<Arc<dyn Corpus>> {
        let options = tagged::Options {
            whole: config.is_whole,
            classes: known.classes.clone(),
        };
        let place = match given.and_then(DataInMemory::sentences) {
            None if !config.is_whole => DataPlace::Path(folder(config)?),
            given => place(config, given)?,
        };
        Ok(Arc::new(TaggedSentences(tagged::read_from(place, &options)?)))
    }

    fn assumed_goal(&self, config: &Config) -> SharedGoal {
        Arc::new(WordClasses {
            names: assumed_classes(config),
        })
    }

    fn assumed_shapes(&self, config: &Config, _model: &Model) -> [BatchShape; 2] {
        [packed_texts(config, 1); 2]
    }

    fn settings_of_model(&self, model: &Model) -> Option<ModelSettings> {
        matches!(model.task(), Task::TokenClassification { .. })
            .then(|| ModelSettings::encoder(Transformer::Bert, model, ENCODER_LENGTH))
    }
}

/// Sentences whose words have labels, as they were read.
struct TaggedSentences(Tagged);

impl Corpus for TaggedSentences {
    fn goal(&self) -> SharedGoal {
        Arc::new(WordClasses {
            names: self.0.names.clone(),
        })
    }

    fn texts(&self) -> Box<dyn Iterator<Item = Result<String>> + '_> {
        let words = self.0.train.iter().flat_map(|sentence| match sentence {
            Ok(sentence) => sentence.words.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        });
        Box::new(words)
    }

    fn is_marked(&self) -> bool {
        true
    }

    fn has_case(&self) -> bool {
        true
    }

    fn remarks(&self) -> &[String] {
        &self.0.remarks
    }

    fn is_whole(&self) -> bool {
        self.0.is_whole
    }

    fn example(&self) -> &'static str {
        "sentence"
    }

    fn digests(&self) -> Result<DataDigests> {
        DataDigests::of([&self.0.train, &self.0.dev], |split| {
            digest_of_words(&self.0.names, split)
        })
    }

    fn source(&self, config: &Config, reader: &Reader, split: &str, order: Order) -> Result<Arc<dyn Source>> {
        let (sentences, length, cache) = (self.0.split(split)?, config.data.max_length, config.cache());
        let (tokenizer, batching) = (reader.tokenizer()?, config.batching());
        let batches = TaggedBatches::new(sentences, tokenizer, length, Some(&cache), batching, order)?;
        Ok(Arc::new(batches.with_balanced_evaluations()))
    }
}
