//! Plain text for a language model.

use super::corpus::{Corpus, place};
use super::digests::digest_of_text;
use super::{Format, HeldOut, KnownModel, ModelSettings};
use crate::folder::manifest::DataDigests;
use crate::goal::SharedGoal;
use crate::goal::next_token::NextToken;
use crate::models::ModelRole;
use crate::reader::Reader;
use crate::recipe::config::Config;
use crate::recipe::keys::Transformer;
use lessen_base::Result;
use lessen_data::memory::DataInMemory;
use lessen_data::{
    Documents, Order, Source, Text, TextOptions, TextSplit, WindowBatches, bucket, document_start, encode_text,
};
use lessen_nn::{BatchShape, Model, Task};
use std::sync::Arc;

/// Most tokens of a window for a language model from a Hugging Face folder.
const LENGTH: usize = 1024;

/// Tokens in a batch of windows for a language model from a Hugging Face folder.
const BATCH_TOKENS: usize = 2048;

/// Plain text for a language model.
pub(super) struct TextFormat;

impl Format for TextFormat {
    fn own_keys(&self) -> &'static [&'static str] {
        &["data.documents"]
    }

    fn learned_by(&self) -> ModelRole {
        ModelRole::ContinuesTexts
    }

    fn held_out(&self) -> HeldOut {
        HeldOut::Share
    }

    fn takes(&self, data: &DataInMemory) -> bool {
        data.texts().is_some()
    }

    fn read(&self, config: &Config, _known: &KnownModel, given: Option<&DataInMemory>) -> Result<Arc<dyn Corpus>> {
        PlainText::read(config, given, (Arc::new(NextToken), false, windows))
    }

    fn assumed_goal(&self, _config: &Config) -> SharedGoal {
        Arc::new(NextToken)
    }

    fn assumed_shapes(&self, config: &Config, _model: &Model) -> [BatchShape; 2] {
        let (size, length) = (config.equal_batch(), config.data.max_length);
        let shape = match config.data.documents {
            Documents::Off => BatchShape::Padded { size, length },
            _ => BatchShape::Packed {
                size: bucket(size),
                tokens: size.saturating_mul(length),
            },
        };
        [shape; 2]
    }

    fn has_windows(&self) -> bool {
        true
    }

    fn settings_of_model(&self, model: &Model) -> Option<ModelSettings> {
        if model.task() != Task::LanguageModelling {
            return None;
        }
        let length = model.max_length().unwrap_or(LENGTH).min(LENGTH);
        Some(ModelSettings {
            kind: Transformer::Gpt2,
            length,
            longest: None,
            batch: BATCH_TOKENS / length.max(1),
            problem: None,
        })
    }
}

/// Plain text as it was read, for a model that learns it in its way.
pub(super) struct PlainText {
    text: Text,
    goal: SharedGoal,
    /// Whether a vocabulary has the special tokens of BERT; otherwise it keeps the case of words.
    is_marked: bool,
    batches: BatchesOf,
}

/// Makes batches of a split in an order.
type BatchesOf = fn(&TextSplit, &Config, &Reader, Order) -> Result<Arc<dyn Source>>;

impl PlainText {
    /// Reads the text that is given, or else that which a recipe names.
    pub(super) fn read(
        config: &Config,
        given: Option<&DataInMemory>,
        (goal, is_marked, batches): (SharedGoal, bool, BatchesOf),
    ) -> Result<Arc<dyn Corpus>> {
        let options = TextOptions {
            held_out: config.data.held_out,
            valid: config.data.dev.clone(),
            test: config.data.test.clone(),
            whole: config.is_whole,
        };
        let text = Text::read_from(place(config, given.and_then(DataInMemory::texts))?, &options)?;
        Ok(Arc::new(PlainText {
            text,
            goal,
            is_marked,
            batches,
        }))
    }
}

impl Corpus for PlainText {
    fn goal(&self) -> SharedGoal {
        self.goal.clone()
    }

    fn texts(&self) -> Box<dyn Iterator<Item = Result<String>> + '_> {
        Box::new(self.text.train.blocks())
    }

    fn is_marked(&self) -> bool {
        self.is_marked
    }

    fn has_case(&self) -> bool {
        !self.is_marked
    }

    fn digests(&self) -> Result<DataDigests> {
        DataDigests::of([&self.text.train, &self.text.valid], digest_of_text)
    }

    fn unit(&self) -> &'static str {
        "byte"
    }

    fn is_whole(&self) -> bool {
        self.text.is_whole
    }

    fn bytes_of(&self, split: &str) -> Option<u64> {
        self.text.split(split).ok().map(TextSplit::bytes)
    }

    fn source(&self, config: &Config, reader: &Reader, split: &str, order: Order) -> Result<Arc<dyn Source>> {
        (self.batches)(self.text.split(split)?, config, reader, order)
    }
}

/// Windows of a text.
fn windows(text: &TextSplit, config: &Config, reader: &Reader, order: Order) -> Result<Arc<dyn Source>> {
    let (batch, length) = (config.equal_batch(), config.data.max_length);
    let (documents, tokenizer) = (config.data.documents, reader.tokenizer()?);
    let tokens = encode_text(text, tokenizer, documents, Some(&config.cache()))?;
    let windows = WindowBatches::new(tokens, tokenizer.pad_id(), length, batch, order)?;
    Ok(Arc::new(match documents {
        Documents::Off => windows,
        _ => windows.with_documents(document_start(tokenizer, documents)?),
    }))
}
