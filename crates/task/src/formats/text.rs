//! Plain text for a language model.

use super::corpus::{Corpus, path};
use super::{Format, HeldOut, KnownModel, ModelSettings};
use crate::folder::manifest::{DataDigest, DataDigests};
use crate::goal::SharedGoal;
use crate::goal::next_token::NextToken;
use crate::models::ModelRole;
use crate::recipe::config::Config;
use crate::recipe::keys::{DataKeys, Transformer};
use crate::task::reader::Reader;
use crc32c::crc32c_append;
use lessen_base::Result;
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

    fn has_lengths(&self, _data: &DataKeys) -> bool {
        false
    }

    fn held_out(&self) -> HeldOut {
        HeldOut::Share
    }

    fn read(&self, config: &Config, _known: &KnownModel) -> Result<Arc<dyn Corpus>> {
        Ok(Arc::new(PlainText(read(config)?)))
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

/// Reads the text that a recipe names.
pub(super) fn read(config: &Config) -> Result<Text> {
    let options = TextOptions {
        held_out: config.data.held_out,
        valid: config.data.dev.clone(),
        test: config.data.test.clone(),
        whole: config.is_whole,
    };
    Text::read(path(config)?, &options)
}

/// The digests of a text.
pub(super) fn digests_of(text: &Text) -> Result<DataDigests> {
    let of_split = |text: &TextSplit| -> Result<DataDigest> {
        let mut blocks = text.blocks();
        let crc = blocks.try_fold(0, |crc, block| Ok(crc32c_append(crc, block?.as_bytes())));
        crc.map(|crc| DataDigest {
            size: text.bytes(),
            crc,
        })
    };
    Ok(DataDigests {
        train: of_split(&text.train)?,
        dev: of_split(&text.valid)?,
    })
}

/// Plain text as it was read.
struct PlainText(Text);

impl Corpus for PlainText {
    fn goal(&self) -> SharedGoal {
        Arc::new(NextToken)
    }

    fn texts(&self) -> Box<dyn Iterator<Item = Result<String>> + '_> {
        Box::new(self.0.train.blocks())
    }

    fn has_case(&self) -> bool {
        true
    }

    fn digests(&self) -> Result<DataDigests> {
        digests_of(&self.0)
    }

    fn unit(&self) -> &'static str {
        "byte"
    }

    fn is_whole(&self) -> bool {
        self.0.is_whole
    }

    fn bytes_of(&self, split: &str) -> Option<u64> {
        self.0.split(split).ok().map(TextSplit::bytes)
    }

    fn source(&self, config: &Config, reader: &Reader, split: &str, order: Order) -> Result<Arc<dyn Source>> {
        let (batch, length) = (config.equal_batch(), config.data.max_length);
        let (documents, tokenizer) = (config.data.documents, reader.tokenizer()?);
        let tokens = encode_text(self.0.split(split)?, tokenizer, documents, Some(&config.cache()))?;
        let windows = WindowBatches::new(tokens, tokenizer.pad_id(), length, batch, order)?;
        Ok(Arc::new(match documents {
            Documents::Off => windows,
            _ => windows.with_documents(document_start(tokenizer, documents)?),
        }))
    }
}
