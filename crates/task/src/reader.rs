//! Readers: tokenizers of texts and preprocessing of images, kept beside the model.

use lessen_base::{Error, Result};
use lessen_data::Tokenizer;
use lessen_data::images::Preprocessing;
use lessen_data::table::TableSchema;
use lessen_nn::Model;
use lessen_nn::checkpoint::ModelFolder;
use std::path::Path;

/// Turns the examples of data into the inputs of a model.
#[derive(Clone)]
pub enum Reader {
    /// Turns texts into tokens.
    Texts(Box<Tokenizer>),
    /// Turns images into arrays of one size.
    Images(Preprocessing),
    /// Turns rows of a table into arrays of one line.
    Table(TableSchema),
}

impl Reader {
    /// The reader of the model in a folder.
    ///
    /// # Errors
    /// A folder without a sound tokenizer, or, of a model of images, without `preprocessor_config.json`.
    pub fn of(folder: ModelFolder<'_>, model: &Model) -> Result<Reader> {
        if model.image().is_none() {
            return Ok(Reader::Texts(Box::new(tokenizer_of(folder)?)));
        }
        if let Some(schema) = TableSchema::load(folder.path())? {
            return Ok(Reader::Table(schema));
        }
        let found = preprocessing_of(folder)?.map(Reader::Images);
        found.ok_or_else(|| {
            Error::user(format!(
                "{} has a model of images but no preprocessor_config.json, which says how they are resized and \
                 normalized; restore the file",
                folder.path().display()
            ))
        })
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// A reader of images.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        match self {
            Reader::Texts(tokenizer) => Ok(tokenizer),
            Reader::Images(_) => Err(Error::user(
                "the model reads images and has no tokenizer; name a model of texts",
            )),
            Reader::Table(_) => Err(Error::user(
                "the model reads tables and has no tokenizer; name a model of texts, or give it a table with --input",
            )),
        }
    }

    /// The columns of tables.
    ///
    /// # Errors
    /// A reader of texts or images.
    pub fn table(&self) -> Result<&TableSchema> {
        match self {
            Reader::Table(schema) => Ok(schema),
            Reader::Texts(_) | Reader::Images(_) => Err(Error::user(
                "the model reads no tables; name a model that was trained on one (data.format = \"table\")",
            )),
        }
    }

    /// The shape of the arrays that a model sees; none of texts.
    pub fn array(&self) -> Option<[usize; 3]> {
        match self {
            Reader::Texts(_) => None,
            Reader::Images(preprocessing) => Some(preprocessing.shape()),
            Reader::Table(schema) => Some([1, schema.width(), 1]),
        }
    }

    /// The preprocessing of images.
    ///
    /// # Errors
    /// A reader of texts.
    pub fn preprocessing(&self) -> Result<&Preprocessing> {
        match self {
            Reader::Images(preprocessing) => Ok(preprocessing),
            Reader::Texts(_) => Err(Error::user(
                "the model reads texts, and the data is images; name a model of images",
            )),
            Reader::Table(_) => Err(Error::user(
                "the model reads tables, and no images; give it a table with --input",
            )),
        }
    }

    /// Writes its files into the folder of a model. `max_length` is the number of tokens after which texts are cut;
    /// none leaves what the files say of it.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn save(&self, dir: &Path, max_length: Option<usize>) -> Result<()> {
        match (self, max_length) {
            (Reader::Texts(tokenizer), Some(max_length)) => tokenizer.save_for(dir, max_length),
            (Reader::Texts(tokenizer), None) => tokenizer.save(dir),
            (Reader::Images(preprocessing), _) => preprocessing.save(dir),
            (Reader::Table(schema), _) => schema.save(dir),
        }
    }
}

/// The tokenizer in a model's folder, or else the tokenizer of the model that its adapters belong to.
///
/// # Errors
/// A folder without a sound tokenizer.
pub fn tokenizer_of(folder: ModelFolder<'_>) -> Result<Tokenizer> {
    if Tokenizer::is_in(folder.path()) {
        return Tokenizer::from_dir(folder.path());
    }
    let base = folder.base()?;
    Tokenizer::from_dir(base.as_deref().unwrap_or(folder.path()))
}

/// The most tokens of a text that the tokenizer of a model's folder, or of the model that its adapters belong to,
/// names; none where it names none.
///
/// # Errors
/// A damaged file.
pub fn max_length_of(folder: ModelFolder<'_>) -> Result<Option<usize>> {
    if Tokenizer::is_in(folder.path()) {
        return Tokenizer::max_length_in(folder.path());
    }
    folder.base()?.map_or(Ok(None), |base| Tokenizer::max_length_in(&base))
}

/// The preprocessing in a model's folder, or else the preprocessing of the model that its adapters belong to; none
/// where neither folder has one.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn preprocessing_of(folder: ModelFolder<'_>) -> Result<Option<Preprocessing>> {
    if let Some(own) = Preprocessing::load(folder.path())? {
        return Ok(Some(own));
    }
    folder.base()?.map_or(Ok(None), |base| Preprocessing::load(&base))
}
