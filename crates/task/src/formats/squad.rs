//! Questions about texts, in the files of SQuAD.

use super::corpus::{Corpus, path};
use super::digests::digest_of_questions;
use super::{Format, HeldOut, KnownModel, ModelSettings, packed_texts};
use crate::folder::manifest::DataDigests;
use crate::goal::SharedGoal;
use crate::goal::answers::Answers;
use crate::models::ModelRole;
use crate::reader::Reader;
use crate::recipe::config::Config;
use crate::recipe::keys::{DataKeys, Transformer};
use lessen_base::{Error, Result};
use lessen_data::memory::DataInMemory;
use lessen_data::{Asking, Order, QuestionBatches, Source, Squad, squad};
use lessen_nn::{BatchShape, Model, Task};
use std::sync::Arc;

/// Tokens that the shortest question with its context is assumed to have where there is no data.
const SHORTEST: usize = 16;

/// Questions about texts, in the files of SQuAD.
pub(super) struct SquadFormat;

impl Format for SquadFormat {
    /// The keys of columns are for the tables that `lessen predict` reads.
    fn own_keys(&self) -> &'static [&'static str] {
        &[
            "data.stride",
            "data.answer_length",
            "data.null_threshold",
            "data.text",
            "data.text_pair",
        ]
    }

    fn learned_by(&self) -> ModelRole {
        ModelRole::EncodesTexts
    }

    fn has_lengths(&self, _data: &DataKeys) -> bool {
        true
    }

    fn held_out(&self) -> HeldOut {
        HeldOut::Share
    }

    fn check(&self, config: &Config) -> Result<()> {
        match config.data.stride {
            Some(stride) if stride >= config.data.max_length => Err(Error::user(format!(
                "{} is not less than the {} tokens of data.max_length, so that windows would never move on; choose less",
                config.place("data.stride"),
                config.data.max_length
            ))),
            _ => Ok(()),
        }
    }

    fn read(&self, config: &Config, _known: &KnownModel, _given: Option<&DataInMemory>) -> Result<Arc<dyn Corpus>> {
        let (path, data) = (path(config)?, &config.data);
        let named = [("data.text", &data.text), ("data.text_pair", &data.text_pair)];
        if let Some((key, _)) = named.into_iter().find(|(_, name)| name.is_some()) {
            return Err(Error::user(format!(
                "{} names a column of a table for `lessen predict`, and data.format = squad has none; leave it out",
                config.place(key)
            )));
        }
        let options = squad::Options {
            dev: data.dev.clone(),
            test: data.test.clone(),
            held_out: data.held_out,
            held_out_seed: data.held_out_seed,
            whole: config.is_whole,
        };
        Ok(Arc::new(AnsweredQuestions(squad::read(path, &options)?)))
    }

    fn has_pairs(&self, _config: &Config) -> bool {
        true
    }

    fn assumed_goal(&self, _config: &Config) -> SharedGoal {
        Arc::new(Answers)
    }

    fn assumed_shapes(&self, config: &Config, _model: &Model) -> [BatchShape; 2] {
        [packed_texts(config, SHORTEST); 2]
    }

    fn settings_of_model(&self, model: &Model) -> Option<ModelSettings> {
        (model.task() == Task::QuestionAnswering)
            .then(|| ModelSettings::encoder(Transformer::Bert, model, Asking::default().max_length))
            .map(|settings| ModelSettings {
                longest: Some(settings.length),
                ..settings
            })
    }
}

/// Questions about texts, as they were read.
struct AnsweredQuestions(Squad);

impl Corpus for AnsweredQuestions {
    fn goal(&self) -> SharedGoal {
        Arc::new(Answers)
    }

    fn texts(&self) -> Box<dyn Iterator<Item = Result<String>> + '_> {
        let split = &self.0.train;
        let questions = split.iter().map(|question| question.text.as_str());
        let texts = split.contexts().iter().map(|context| &**context).chain(questions);
        Box::new(texts.map(|text| Ok(text.to_string())))
    }

    fn is_marked(&self) -> bool {
        true
    }

    fn remarks(&self) -> &[String] {
        &self.0.remarks
    }

    fn is_whole(&self) -> bool {
        self.0.is_whole
    }

    fn example(&self) -> &'static str {
        "question"
    }

    fn digests(&self) -> Result<DataDigests> {
        DataDigests::of([&self.0.train, &self.0.dev], |split| Ok(digest_of_questions(split)))
    }

    fn source(&self, config: &Config, reader: &Reader, split: &str, order: Order) -> Result<Arc<dyn Source>> {
        let questions = self.0.split(split)?.clone();
        let (asking, batching) = (config.asking(), config.batching());
        let batches = QuestionBatches::new(questions, reader.tokenizer()?, asking, batching, order)?;
        Ok(Arc::new(batches.with_balanced_evaluations()))
    }
}
