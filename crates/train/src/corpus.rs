//! From a recipe to the data it names: what is read, how it is tokenized, what is to be predicted.

use crate::config::{Config, DataFormat};
use crate::model::check_init;
use crate::settings::Origin;
use lessen_base::{Error, Result};
use lessen_data::{
    Adder, Dataset, ExampleBatches, GlueTask, Metric, Order, Source, Target, Text, Tokenizer, WindowBatches,
    adder, labelled,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a model is to predict, and how it is scored.
#[derive(Clone, Debug, PartialEq)]
pub enum Goal {
    /// One of these classes; the first metric decides.
    Classes(Vec<String>, Vec<Metric>),
    /// A number.
    Score(Vec<Metric>),
    /// The next token; scored by the loss.
    NextToken,
    /// The digits of a sum; scored by the share of sums that are right as a whole.
    Sum,
}

/// The data of a run as it was read.
pub enum Corpus {
    /// Texts with labels.
    Labelled(Box<Dataset>),
    /// A long text.
    Text(Text),
    /// Sums.
    Adder,
}

impl Corpus {
    /// Reads the data that the recipe names.
    ///
    /// # Errors
    /// Data that is missing, not named, or damaged.
    pub fn read(config: &Config) -> Result<Corpus> {
        let path = || {
            let path = config.data.path.as_deref().ok_or_else(|| {
                Error::user(format!(
                    "the recipe {} needs data; name its file or folder with --data",
                    config.recipe
                ))
            })?;
            if path.exists() {
                return Ok(path);
            }
            let (place, shown) = (config.settings.origin("data.path"), path.display());
            Err(Error::user(format!(
                "{place}: there is no file or folder {shown}; check the path"
            )))
        };
        let data = &config.data;
        Ok(match data.format {
            DataFormat::Adder => Corpus::Adder,
            DataFormat::Text => Corpus::Text(Text::read(path()?, data.held_out)?),
            DataFormat::Labelled => Corpus::Labelled(Box::new(labelled::read(folder(path()?)?)?)),
            DataFormat::Glue => {
                let path = folder(path()?)?;
                Corpus::Labelled(Box::new(glue_task(config, path)?.read(path)?))
            }
        })
    }

    /// What is to be predicted.
    pub fn goal(&self) -> Goal {
        match self {
            Corpus::Adder => Goal::Sum,
            Corpus::Text(_) => Goal::NextToken,
            Corpus::Labelled(data) => match &data.target {
                Target::Classes(names) => Goal::Classes(names.clone(), data.metrics.clone()),
                Target::Score => Goal::Score(data.metrics.clone()),
            },
        }
    }

    /// The tokenizer of a new run: that of `data.tokenizer`, else that of the checkpoint to start from, else one made
    /// of the characters of the training texts.
    ///
    /// # Errors
    /// A folder without a sound tokenizer, and a flag that asks for another vocabulary than the checkpoint's.
    pub fn tokenizer(&self, config: &Config) -> Result<Tokenizer> {
        let origin = config.settings.origin("data.tokenizer");
        if let (Some("characters"), Some(dir), Origin::Flag(_)) =
            (config.data.tokenizer.as_deref(), &config.model.init, &origin)
            && !matches!(self, Corpus::Adder)
        {
            let shown = dir.display();
            return Err(Error::user(format!(
                "{origin} cannot change the vocabulary of the checkpoint {shown}; leave out one of the two"
            )));
        }
        let dir: Option<PathBuf> = match config.data.tokenizer.as_deref() {
            Some("characters") if config.model.init.is_none() => None,
            Some("characters") | None => config.model.init.clone(),
            Some(dir) => Some(dir.into()),
        };
        if let Some(init) = config
            .model
            .init
            .as_ref()
            .filter(|init| dir.as_ref() == Some(*init))
        {
            check_init(config, init)?;
        }
        Ok(match (self, dir) {
            (Corpus::Adder, _) => Adder::tokenizer(),
            (_, Some(dir)) => Tokenizer::from_dir(&dir)?,
            (Corpus::Text(text), None) => Tokenizer::characters([text.train.as_str()], config.data.min_count),
            (Corpus::Labelled(data), None) => {
                Tokenizer::characters(data.train.all_texts(), config.data.min_count)
            }
        })
    }

    /// Tokens of an example.
    pub fn length(&self, config: &Config) -> usize {
        match self {
            Corpus::Adder => adder::LENGTH,
            _ => config.data.max_length,
        }
    }

    /// The batches of the training split.
    ///
    /// # Errors
    /// Data that does not fit the tokenizer or the sizes.
    pub fn training(&self, config: &Config, tokenizer: &Tokenizer) -> Result<Arc<dyn Source>> {
        let order = if config.data.shuffle {
            Order::Shuffled(config.train.seed)
        } else {
            Order::InOrder
        };
        self.source(config, tokenizer, "train", order)
    }

    /// The batches of a split in order, each example once.
    ///
    /// # Errors
    /// As [`Corpus::training`], and a split that the data does not have.
    pub fn evaluation(&self, config: &Config, tokenizer: &Tokenizer, split: &str) -> Result<Arc<dyn Source>> {
        if matches!(self, Corpus::Adder) && split != "dev" {
            return Err(Error::user(format!(
                "the adder has no split called {split}, as its training sums have no end; choose dev, the sums held \
                 out"
            )));
        }
        self.source(config, tokenizer, split, Order::InOrder)
    }

    fn source(
        &self,
        config: &Config,
        tokenizer: &Tokenizer,
        split: &str,
        order: Order,
    ) -> Result<Arc<dyn Source>> {
        let (batch, length) = (config.train.batch, config.data.max_length);
        Ok(match self {
            Corpus::Adder => Arc::new(Adder::new(batch, config.train.seed)?),
            Corpus::Text(text) => {
                let tokens = tokenizer.encode(text.split(split)?)?;
                Arc::new(WindowBatches::new(
                    tokens,
                    tokenizer.pad_id(),
                    length,
                    batch,
                    order,
                )?)
            }
            Corpus::Labelled(data) => Arc::new(ExampleBatches::new(
                data.split(split)?,
                tokenizer,
                length,
                batch,
                order,
            )?),
        })
    }
}

fn folder(path: &Path) -> Result<&Path> {
    if path.is_dir() {
        return Ok(path);
    }
    Err(Error::user(format!(
        "{} is a file; name the folder that it is in with --data",
        path.display()
    )))
}

/// Whether an example of the recipe's data is a pair of texts, as in some tasks of GLUE. Where the task is not
/// known any more, one that is asked for with two texts has pairs.
pub(crate) fn has_pairs(config: &Config) -> bool {
    let path = config.data.path.as_deref().unwrap_or(Path::new(""));
    config.data.format == DataFormat::Glue && glue_task(config, path).map_or(true, GlueTask::has_pairs)
}

fn glue_task(config: &Config, path: &Path) -> Result<GlueTask> {
    if let Some(task) = &config.data.task {
        return GlueTask::from_name(task)
            .map_err(|error| Error::user(format!("{}: {error}", config.settings.origin("data.task"))));
    }
    let name = path
        .canonicalize()
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    name.and_then(|name| GlueTask::from_name(&name).ok())
        .ok_or_else(|| {
            let names = GlueTask::ALL.map(GlueTask::name).join(", ");
            Error::user(format!(
                "which task of GLUE? Name it by --set data.task=NAME, one of {names}"
            ))
        })
}
