//! Sums made on the fly.

use super::corpus::Corpus;
use super::{Format, HeldOut, KnownModel};
use crate::folder::manifest::DataDigests;
use crate::goal::SharedGoal;
use crate::goal::sum::Sum;
use crate::models::ModelRole;
use crate::reader::Reader;
use crate::recipe::config::Config;
use lessen_base::{Error, Result};
use lessen_data::memory::DataInMemory;
use lessen_data::{Adder, Order, Source, adder};
use lessen_nn::{BatchShape, Model};
use std::sync::Arc;

/// Sums made on the fly.
pub(super) struct AdderFormat;

impl Format for AdderFormat {
    fn learned_by(&self) -> ModelRole {
        ModelRole::ContinuesTexts
    }

    fn is_in_files(&self) -> bool {
        false
    }

    fn fixed_length(&self) -> Option<usize> {
        Some(adder::LENGTH)
    }

    fn held_out(&self) -> HeldOut {
        HeldOut::Nothing
    }

    fn check(&self, config: &Config) -> Result<()> {
        let named = ["data.path", "data.dev", "data.test"];
        if let Some(key) = named.into_iter().find(|key| config.settings.get(key).is_some()) {
            return Err(Error::user(format!(
                "{}: the recipe {} makes its own data and reads none; leave {key} out, or choose a recipe for your data, \
                 such as shakespeare for a text or thucnews for labelled ones",
                config.settings.origin(key),
                config.recipe()
            )));
        }
        if config.data.max_length != adder::LENGTH {
            return Err(Error::user(format!(
                "{}: data.max_length = {} cannot change the adder, whose examples have {} tokens; leave it out",
                config.settings.origin("data.max_length"),
                config.data.max_length,
                adder::LENGTH
            )));
        }
        Ok(())
    }

    fn read(&self, _config: &Config, _known: &KnownModel, _given: Option<&DataInMemory>) -> Result<Arc<dyn Corpus>> {
        Ok(Arc::new(Sums))
    }

    fn assumed_goal(&self, _config: &Config) -> SharedGoal {
        Arc::new(Sum)
    }

    fn goal_of(&self, _model: &Model, _config: &Config) -> SharedGoal {
        Arc::new(Sum)
    }

    fn assumed_shapes(&self, config: &Config, _model: &Model) -> [BatchShape; 2] {
        let (size, length) = (config.equal_batch(), config.data.max_length);
        [BatchShape::Padded { size, length }; 2]
    }
}

/// Sums made on the fly.
struct Sums;

impl Corpus for Sums {
    fn goal(&self) -> SharedGoal {
        Arc::new(Sum)
    }

    fn reader(&self, _config: &Config) -> Result<Reader> {
        Ok(Reader::Texts(Box::new(Adder::tokenizer())))
    }

    fn digests(&self) -> Result<DataDigests> {
        Ok(DataDigests::default())
    }

    fn source(&self, config: &Config, _reader: &Reader, _split: &str, _order: Order) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(Adder::new(config.equal_batch(), config.train.seed)?))
    }

    fn evaluation(&self, config: &Config, reader: &Reader, split: &str) -> Result<Arc<dyn Source>> {
        if split != "dev" {
            return Err(Error::user(format!(
                "the adder has no split called {split}, as its training sums have no end; choose dev, the sums held \
                 out"
            )));
        }
        self.source(config, reader, split, Order::InOrder)
    }
}
