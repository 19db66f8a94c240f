//! Data as it was read.

use crate::folder::manifest::DataDigests;
use crate::goal::SharedGoal;
use crate::reader::{Reader, tokenizer_of};
use crate::recipe::config::Config;
use crate::recipe::keys::{BYTE_PAIRS, CHARACTERS, WORD_PIECE};
use crate::recipe::value::Origin;
use lessen_base::{Error, Result};
use lessen_data::images::FilesDigest;
use lessen_data::memory::{DataPlace, Splits};
use lessen_data::{Documents, Order, Source, TextPair, Tokenizer, is_pattern};
use lessen_nn::BatchShape;
use lessen_nn::checkpoint::ModelFolder;
use std::path::Path;
use std::sync::Arc;

/// Texts with the numbers of their classes.
pub(crate) type LabelledTextIter<'a> = Box<dyn Iterator<Item = Result<(TextPair, i32)>> + 'a>;

/// The data of a run as it was read.
pub trait Corpus: Send + Sync {
    /// The goal of learning it.
    fn goal(&self) -> SharedGoal;

    /// The training texts, of which a vocabulary is learned; none of data without texts.
    fn texts(&self) -> Box<dyn Iterator<Item = Result<String>> + '_> {
        Box::new(std::iter::empty())
    }

    /// Whether texts are read with the special tokens of BERT, also where their characters are tokens.
    fn is_marked(&self) -> bool {
        false
    }

    /// Whether words mean something else in another case, so that a vocabulary of word pieces keeps it.
    fn has_case(&self) -> bool {
        false
    }

    /// The reader of a new run's examples. For texts it is the tokenizer of `data.tokenizer`, else that of the
    /// checkpoint to start from, else one made of the characters of the training texts.
    ///
    /// # Errors
    /// A folder without a sound tokenizer, a flag that asks for another vocabulary than the checkpoint's, and an image
    /// that cannot be read.
    fn reader(&self, config: &Config) -> Result<Reader> {
        check_vocabulary(config)?;
        let folder = match config.data.tokenizer.as_deref() {
            Some(word) if !is_learned(word) => Some(ModelFolder::from(word)),
            _ => config.init(),
        };
        let tokenizer = match folder {
            Some(folder) => tokenizer_of(folder)?,
            None => self.learned(config)?,
        };
        Ok(Reader::Texts(Box::new(tokenizer)))
    }

    /// The tokenizer that `data.tokenizer` says, learned of the training texts.
    ///
    /// # Errors
    /// Files that cannot be read any more, and a vocabulary without room.
    fn learned(&self, config: &Config) -> Result<Tokenizer> {
        let (texts, data) = (self.texts(), &config.data);
        match data.tokenizer.as_deref() {
            Some(WORD_PIECE) => Tokenizer::word_piece_of(texts, data.vocab, !self.has_case()),
            Some(BYTE_PAIRS) => Tokenizer::byte_pairs_of(texts, data.vocab),
            _ => characters_of(texts, config, self.is_marked()),
        }
    }

    /// Remarks on how the data was read, a sentence each.
    fn remarks(&self) -> &[String] {
        &[]
    }

    /// The digests of the data, which tell it from other data.
    ///
    /// # Errors
    /// Files that cannot be read any more.
    fn digests(&self) -> Result<DataDigests>;

    /// The digests of images in files, which the digests of the data know by name and size.
    ///
    /// # Errors
    /// Files that cannot be read any more.
    fn image_files(&self) -> Result<Vec<FilesDigest>> {
        Ok(Vec::new())
    }

    /// The unit of the size of a digest.
    fn unit(&self) -> &'static str {
        "example"
    }

    /// Whether its split `dev` is all of it, as it has none of its own.
    fn is_whole(&self) -> bool {
        false
    }

    /// The word for an example.
    fn example(&self) -> &'static str {
        "example"
    }

    /// The size of a split in bytes, by which a text that is cut into examples is measured; none for others.
    fn bytes_of(&self, split: &str) -> Option<u64> {
        let _ = split;
        None
    }

    /// The layout of training batches of the data, where settings ask for `assumed`.
    fn training_shape(&self, assumed: BatchShape) -> BatchShape {
        assumed
    }

    /// Whether training examples have weights of their own in the loss.
    fn has_weights(&self) -> bool {
        false
    }

    /// The number of training examples of each class; none where examples have no single class.
    fn class_counts(&self, classes: usize) -> Option<Vec<u64>> {
        let _ = classes;
        None
    }

    /// The mean of the training targets, as the model learns them; none where examples have no number.
    fn mean_target(&self) -> Option<f64> {
        None
    }

    /// The texts of a split with the numbers of their classes; none where examples are others.
    ///
    /// # Errors
    /// A split that the data does not have.
    fn labelled_texts(&self, split: &str) -> Result<Option<LabelledTextIter<'_>>> {
        let _ = split;
        Ok(None)
    }

    /// Examples of a split in words, by their numbers.
    ///
    /// # Errors
    /// Files that cannot be read any more, and a split that the data does not have.
    fn show(&self, split: &str, examples: &[usize]) -> Result<Vec<String>> {
        let name = |example: &usize| format!("{} {} of {split}", self.example(), example + 1);
        Ok(examples.iter().map(name).collect())
    }

    /// The batches of a split in an order.
    ///
    /// # Errors
    /// Data that does not fit the reader or the sizes, and a split that the data does not have.
    fn source(&self, config: &Config, reader: &Reader, split: &str, order: Order) -> Result<Arc<dyn Source>>;

    /// The batches of the training split, in an order of the recipe's.
    ///
    /// # Errors
    /// Data that does not fit the reader or the sizes.
    fn training(&self, config: &Config, reader: &Reader) -> Result<Arc<dyn Source>> {
        self.source(config, reader, "train", order_of(config))
    }

    /// The batches of a split, each example once.
    ///
    /// # Errors
    /// Data that does not fit the reader or the sizes, and a split that the data does not have.
    fn evaluation(&self, config: &Config, reader: &Reader, split: &str) -> Result<Arc<dyn Source>> {
        self.source(config, reader, split, Order::InOrder)
    }
}

/// The order of training batches.
pub(super) fn order_of(config: &Config) -> Order {
    if config.data.shuffle {
        Order::Shuffled(config.train.seed)
    } else {
        Order::InOrder
    }
}

/// Whether `data.tokenizer` is a word for a vocabulary that is learned of the training texts, and no folder.
fn is_learned(tokenizer: &str) -> bool {
    [CHARACTERS, WORD_PIECE, BYTE_PAIRS].contains(&tokenizer)
}

/// Refuses a flag that asks for a learned vocabulary beside a checkpoint.
pub(super) fn check_vocabulary(config: &Config) -> Result<()> {
    let origin = config.settings.origin("data.tokenizer");
    match (config.data.tokenizer.as_deref(), &config.model.init, &origin) {
        (Some(word), Some(dir), Origin::Flag(_)) if is_learned(word) => Err(Error::user(format!(
            "{origin} cannot change the vocabulary of the checkpoint {}; leave out one of the two",
            dir.display()
        ))),
        _ => Ok(()),
    }
}

/// The file or folder, or pattern for files, that the recipe names.
///
/// # Errors
/// A recipe that names none, and a path that does not exist.
pub(super) fn path(config: &Config) -> Result<&Path> {
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
}

/// The place of data: memory, or else the path that the recipe names.
///
/// # Errors
/// As [`path`].
pub(super) fn place<'a, T>(config: &'a Config, given: Option<&'a Splits<T>>) -> Result<DataPlace<'a, T>> {
    match given {
        Some(splits) => Ok(DataPlace::InMemory(splits)),
        None => path(config).map(DataPlace::Path),
    }
}

/// The folder that the recipe names.
///
/// # Errors
/// As [`path`], and a file.
pub(super) fn folder(config: &Config) -> Result<&Path> {
    let path = path(config)?;
    if path.is_dir() {
        return Ok(path);
    }
    Err(Error::user(format!(
        "{} is a file; name the folder that it is in with --data",
        path.display()
    )))
}

/// A tokenizer with the characters of texts, as the documents of the recipe need it, or with the special tokens of
/// BERT.
///
/// # Errors
/// The first text that cannot be read.
fn characters_of(texts: impl Iterator<Item = Result<String>>, config: &Config, is_marked: bool) -> Result<Tokenizer> {
    let mut failed = None;
    let texts = texts.map_while(|text| text.map_err(|error| failed = Some(error)).ok());
    let tokenizer = match config.data.documents {
        _ if is_marked => Tokenizer::marked_characters(texts, config.data.min_count),
        Documents::Off => Tokenizer::characters(texts, config.data.min_count),
        _ => Tokenizer::characters_of_documents(texts, config.data.min_count),
    };
    failed.map_or(Ok(tokenizer), Err)
}
