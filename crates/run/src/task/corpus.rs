//! From a recipe to the data it names: what is read, how it is tokenized, what is to be predicted.

use super::digests::{digest_of, digest_of_words};
use super::goal::Goal;
use super::images::Images;
use super::reader::Reader;
use super::{SavedModel, questions, tokenizer_of};
use crate::folder::manifest::{DataDigest, DataDigests};
use crate::recipe::config::Config;
use crate::recipe::keys::{CHARACTERS, DataFormat};
use crate::recipe::labels::THRESHOLD;
use crate::recipe::value::Origin;
use crate::recipe::words::Word;
use crc32c::crc32c_append;
use lessen_base::{Error, Result};
use lessen_data::labelled::Columns;
use lessen_data::{
    Adder, Batching, Dataset, Documents, EncodedExamples, ExampleBatches, GlueTask, LabelKind, Labels, MaskedBatches,
    Masking, Metric, Order, Problem, QuestionBatches, Source, Squad, Tagged, TaggedBatches, Text, TextOptions,
    TextSplit, Tokenizer, WindowBatches, document_start, encode_text, is_pattern, labelled, tagged,
};
use lessen_nn::checkpoint::ModelFolder;
use std::path::Path;
use std::sync::Arc;

/// The data of a run as it was read.
pub enum Corpus {
    /// Texts with labels.
    Labelled(Box<Dataset>),
    /// A long text.
    Text(Text),
    /// A long text whose tokens are masked.
    Masked(Text),
    /// Sentences whose words have labels.
    Tagged(Tagged),
    /// Questions about texts.
    Squad(Squad),
    /// Images with labels.
    Images(Images),
    /// Sums.
    Adder,
}

impl Corpus {
    /// Reads the data that the recipe names. Of the model that it is for, if one is `saved`, it takes the names of
    /// classes and the channels of images.
    ///
    /// # Errors
    /// Data that is missing, not named, or damaged.
    pub fn read(config: &Config, saved: Option<&SavedModel>) -> Result<Corpus> {
        let classes = saved.and_then(SavedModel::named_classes);
        let path = || {
            let path = config.data.path.as_deref().ok_or_else(|| {
                Error::user(format!(
                    "the recipe {} needs data; name its file or folder with --data",
                    config.recipe()
                ))
            })?;
            if path.exists() || is_pattern(path) {
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
            DataFormat::Masked => Corpus::Masked(Text::read(path()?, &text_options(config))?),
            DataFormat::Tagged => Corpus::Tagged(tagged::read(folder(path()?)?)?),
            DataFormat::Squad => Corpus::Squad(questions::read(path()?, config)?),
            DataFormat::Text => Corpus::Text(Text::read(path()?, &text_options(config))?),
            DataFormat::Labelled => Corpus::Labelled(Box::new(labelled::read(path()?, &options(config, classes))?)),
            DataFormat::Images => Corpus::Images(Images::read(path()?, config, classes, saved)?),
            DataFormat::Glue => {
                let path = folder(path()?)?;
                let task = glue_task(config, path)?;
                let problem = task.target().problem();
                if data.problem.is_some_and(|given| given != problem) {
                    return Err(Error::user(format!(
                        "{} is not that of the task {}, {}; leave it out",
                        config.place("data.problem"),
                        task.name(),
                        problem.word()
                    )));
                }
                Corpus::Labelled(Box::new(task.read(path)?))
            }
        })
    }

    /// What is to be predicted.
    pub fn goal(&self) -> Goal {
        match self {
            Corpus::Adder => Goal::Sum,
            Corpus::Text(_) => Goal::NextToken,
            Corpus::Masked(_) => Goal::MaskedTokens,
            Corpus::Tagged(data) => Goal::WordClasses(data.names.clone()),
            Corpus::Squad(_) => Goal::Answers,
            Corpus::Images(images) => Goal::Classes(images.names().to_vec(), vec![Metric::Accuracy]),
            Corpus::Labelled(data) => match &data.target {
                LabelKind::Classes(names) => Goal::Classes(names.clone(), data.metrics.clone()),
                LabelKind::Sets(names) => Goal::Labels(names.clone(), THRESHOLD),
                LabelKind::Score => Goal::Score(data.metrics.clone()),
            },
        }
    }

    /// What reads the examples of a new run. Of images, how they become what a model sees; of texts, the tokenizer of
    /// `data.tokenizer`, else that of the checkpoint to start from, else one made of the characters of the training
    /// texts.
    ///
    /// # Errors
    /// A folder without a sound tokenizer, a flag that asks for another vocabulary than the checkpoint's, and an image
    /// that cannot be read.
    pub fn reader(&self, config: &Config) -> Result<Reader> {
        let origin = config.settings.origin("data.tokenizer");
        if let (Some(CHARACTERS), Some(dir), Origin::Flag(_)) =
            (config.data.tokenizer.as_deref(), &config.model.init, &origin)
            && !matches!(self, Corpus::Adder)
        {
            let shown = dir.display();
            return Err(Error::user(format!(
                "{origin} cannot change the vocabulary of the checkpoint {shown}; leave out one of the two"
            )));
        }
        let folder = match config.data.tokenizer.as_deref() {
            Some(CHARACTERS) | None => config.init(),
            Some(dir) => Some(ModelFolder::from(dir)),
        };
        let tokenizer = match (self, folder) {
            (Corpus::Images(images), _) => return Ok(Reader::Images(images.preprocessing(config)?)),
            (Corpus::Adder, _) => Adder::tokenizer(),
            (_, Some(folder)) => tokenizer_of(folder)?,
            (Corpus::Masked(text), None) => {
                Tokenizer::marked_characters([whole(&text.train)?.as_str()], config.data.min_count)
            }
            (Corpus::Tagged(data), None) => {
                let mut failed = None;
                let words = data.train.iter().map_while(|sentence| match sentence {
                    Ok(sentence) => Some(sentence.words),
                    Err(error) => {
                        failed = Some(error);
                        None
                    }
                });
                let tokenizer = Tokenizer::marked_characters(words.flatten(), config.data.min_count);
                failed.map_or(Ok(tokenizer), Err)?
            }
            (Corpus::Squad(data), None) => {
                Tokenizer::marked_characters(questions::texts(&data.train), config.data.min_count)
            }
            (Corpus::Text(text), None) => characters(text.train.blocks(), config)?,
            (Corpus::Labelled(data), None) => {
                let texts = data.train.texts().flat_map(|pair| match pair {
                    Ok((first, second)) => [Some(Ok(first)), second.map(Ok)],
                    Err(error) => [Some(Err(error)), None],
                });
                characters(texts.flatten(), config)?
            }
        };
        Ok(Reader::Texts(Box::new(tokenizer)))
    }

    /// What there is to say of how the data was read.
    pub(crate) fn remarks(&self) -> &[String] {
        match self {
            Corpus::Labelled(data) => &data.remarks,
            Corpus::Squad(data) => &data.remarks,
            Corpus::Images(images) => images.remarks(),
            Corpus::Text(_) | Corpus::Masked(_) | Corpus::Tagged(_) | Corpus::Adder => &[],
        }
    }

    /// What tells the data from other data.
    ///
    /// # Errors
    /// Files that cannot be read any more.
    pub(crate) fn digests(&self) -> Result<DataDigests> {
        let of_text = |text: &TextSplit| {
            let mut blocks = text.blocks();
            let crc = blocks.try_fold(0, |crc, block| Ok(crc32c_append(crc, block?.as_bytes())));
            crc.map(|crc| DataDigest {
                size: text.bytes(),
                crc,
            })
        };
        Ok(match self {
            Corpus::Adder => DataDigests::default(),
            Corpus::Images(images) => images.digests()?,
            Corpus::Text(text) | Corpus::Masked(text) => DataDigests {
                train: of_text(&text.train)?,
                dev: of_text(&text.valid)?,
            },
            Corpus::Tagged(data) => DataDigests {
                train: digest_of_words(&data.names, &data.train)?,
                dev: digest_of_words(&data.names, &data.dev)?,
            },
            Corpus::Squad(data) => DataDigests {
                train: questions::digest_of(&data.train),
                dev: questions::digest_of(&data.dev),
            },
            Corpus::Labelled(data) => DataDigests {
                train: digest_of(&data.target, &data.train)?,
                dev: digest_of(&data.target, &data.dev)?,
            },
        })
    }

    /// How many examples of the training split are in each of its classes; none where it has no classes.
    pub(crate) fn class_counts(&self, classes: usize) -> Option<Vec<u64>> {
        let labels = match self {
            Corpus::Images(images) => images.labels(),
            Corpus::Labelled(data) => match &data.train.labels {
                Labels::Classes(labels) => labels,
                Labels::Sets(_) | Labels::Scores(_) => return None,
            },
            _ => return None,
        };
        let mut counts = vec![0; classes];
        for label in labels {
            if let Some(count) = usize::try_from(*label).ok().and_then(|label| counts.get_mut(label)) {
                *count += 1;
            }
        }
        Some(counts)
    }

    /// What the size of a [`DataDigest`] counts.
    pub(crate) fn unit(&self) -> &'static str {
        match self {
            Corpus::Text(_) | Corpus::Masked(_) => "byte",
            Corpus::Labelled(_) | Corpus::Tagged(_) | Corpus::Squad(_) | Corpus::Images(_) | Corpus::Adder => "example",
        }
    }

    /// The batches of the training split.
    ///
    /// # Errors
    /// Data that does not fit the reader or the sizes.
    pub fn training(&self, config: &Config, reader: &Reader) -> Result<Arc<dyn Source>> {
        let order = if config.data.shuffle {
            Order::Shuffled(config.train.seed)
        } else {
            Order::InOrder
        };
        match self {
            Corpus::Images(images) => images.training(config, reader.preprocessing()?, order),
            _ => self.source(config, reader, "train", order),
        }
    }

    /// The batches of a split in order, each example once.
    ///
    /// # Errors
    /// As [`Corpus::training`], and a split that the data does not have.
    pub fn evaluation(&self, config: &Config, reader: &Reader, split: &str) -> Result<Arc<dyn Source>> {
        if matches!(self, Corpus::Adder) && split != "dev" {
            return Err(Error::user(format!(
                "the adder has no split called {split}, as its training sums have no end; choose dev, the sums held \
                 out"
            )));
        }
        self.source(config, reader, split, Order::InOrder)
    }

    fn source(&self, config: &Config, reader: &Reader, split: &str, order: Order) -> Result<Arc<dyn Source>> {
        let (batch, length) = (config.equal_batch(), config.data.max_length);
        Ok(match self {
            Corpus::Adder => Arc::new(Adder::new(batch, config.train.seed)?),
            Corpus::Images(images) => images.evaluation(config, reader.preprocessing()?, split)?,
            Corpus::Text(text) => {
                let (documents, tokenizer) = (config.data.documents, reader.tokenizer()?);
                let tokens = encode_text(text.split(split)?, tokenizer, documents, Some(&config.cache()))?;
                let windows = WindowBatches::new(tokens, tokenizer.pad_id(), length, batch, order)?;
                Arc::new(match documents {
                    Documents::Off => windows,
                    _ => windows.with_documents(document_start(tokenizer, documents)?),
                })
            }
            Corpus::Masked(text) => {
                let masking = Masking {
                    share: config.data.mask,
                    lines: config.data.lines,
                    seed: config.train.seed,
                };
                // Windows have the same length, but for the last one.
                let batching = match masking.lines {
                    true => config.batching(),
                    false => Batching::Examples(batch),
                };
                let (text, how, cache) = (text.split(split)?, (length, masking), config.cache());
                Arc::new(MaskedBatches::of(
                    text,
                    reader.tokenizer()?,
                    how,
                    Some(&cache),
                    batching,
                    order,
                )?)
            }
            Corpus::Tagged(data) => {
                let (sentences, batching, cache) = (data.split(split)?, config.batching(), config.cache());
                Arc::new(TaggedBatches::new(
                    sentences,
                    reader.tokenizer()?,
                    length,
                    Some(&cache),
                    batching,
                    order,
                )?)
            }
            Corpus::Squad(data) => {
                let (questions, batching) = (data.split(split)?.clone(), config.batching());
                let asking = config.asking();
                Arc::new(QuestionBatches::new(
                    questions,
                    reader.tokenizer()?,
                    asking,
                    batching,
                    order,
                )?)
            }
            Corpus::Labelled(data) => {
                let examples =
                    EncodedExamples::new(data.split(split)?, reader.tokenizer()?, length, Some(&config.cache()))?;
                Arc::new(ExampleBatches::of(Arc::new(examples), config.batching(), order)?)
            }
        })
    }
}

/// All of a text in memory.
fn whole(text: &TextSplit) -> Result<String> {
    text.blocks().collect()
}

/// A tokenizer with the characters of texts.
fn characters(texts: impl Iterator<Item = Result<String>>, config: &Config) -> Result<Tokenizer> {
    let mut failed = None;
    let texts = texts.map_while(|text| text.map_err(|error| failed = Some(error)).ok());
    let tokenizer = match config.data.documents {
        Documents::Off => Tokenizer::characters(texts, config.data.min_count),
        _ => Tokenizer::characters_of_documents(texts, config.data.min_count),
    };
    failed.map_or(Ok(tokenizer), Err)
}

/// How a text is read.
fn text_options(config: &Config) -> TextOptions {
    TextOptions {
        held_out: config.data.held_out,
        valid: config.data.dev.clone(),
        test: config.data.test.clone(),
    }
}

/// The columns of texts and labels that a recipe names.
pub(crate) fn columns(config: &Config) -> Columns {
    let data = &config.data;
    Columns {
        text: data.text.clone(),
        text_pair: data.text_pair.clone(),
        label: data.label.as_ref().map(|names| names.0.clone()),
        several: config.problem() == Problem::MultiLabel,
    }
}

/// How labelled texts are read.
fn options(config: &Config, classes: Option<Vec<String>>) -> labelled::Options {
    let (columns, data) = (columns(config), config.data.clone());
    labelled::Options {
        problem: config.problem(),
        separator: data.separator,
        columns,
        dev: data.dev,
        test: data.test,
        held_out: data.held_out,
        held_out_seed: data.held_out_seed,
        classes,
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

/// Whether an example of the recipe's data is a pair of texts, as in some tasks of GLUE and files with such columns, or
/// of a task of GLUE that cannot be found out any more.
pub(crate) fn has_pairs(config: &Config) -> bool {
    let path = config.data.path.as_deref().unwrap_or(Path::new(""));
    match config.data.format {
        DataFormat::Glue => glue_task(config, path).map_or(true, GlueTask::has_pairs),
        DataFormat::Labelled => labelled::has_pairs(path, &options(config, None)),
        DataFormat::Squad => true,
        DataFormat::Text | DataFormat::Masked | DataFormat::Tagged | DataFormat::Images | DataFormat::Adder => false,
    }
}

/// The task of GLUE that a recipe names, or else the folder of its data.
///
/// # Errors
/// Neither of both.
pub(crate) fn glue_task(config: &Config, path: &Path) -> Result<GlueTask> {
    if let Some(task) = &config.data.task {
        return GlueTask::from_name(task)
            .map_err(|error| Error::user(format!("{}: {error}", config.settings.origin("data.task"))));
    }
    let name = path
        .canonicalize()
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    name.and_then(|name| GlueTask::from_name(&name).ok()).ok_or_else(|| {
        let names = GlueTask::ALL.map(GlueTask::name).join(", ");
        Error::user(format!(
            "which task of GLUE? Name it by --set data.task=NAME, one of {names}"
        ))
    })
}
