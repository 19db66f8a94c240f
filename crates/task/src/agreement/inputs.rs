//! Whether a model reads the examples of the data: texts by its tokenizer, or images of its size.

use crate::models::Sizes;
use crate::reader::Reader;
use crate::recipe::config::Config;
use crate::recipe::keys::ModelKind;
use lessen_base::{Error, Result};
use lessen_data::Tokenizer;
use lessen_nn::Model;
use lessen_nn::models::vision::ImageClassifierConfig;
use lessen_nn::models::vit::VitConfig;

/// Refuses images that a model from scratch cannot read: images that are too large, too small for a network, or do not
/// divide into patches.
///
/// # Errors
/// The key.
pub(super) fn check_image_size(config: &Config, sizes: Sizes) -> Result<()> {
    if !config.data.format.format().is_of_images() || config.model.init.is_some() {
        return Ok(());
    }
    let ([rows, columns, channels], patch) = (sizes.image, config.model.patch);
    if rows * columns * channels > VitConfig::LARGEST_IMAGE {
        return Err(Error::user(format!(
            "images of {rows} x {columns} are more than the model can read ({}); set it to a smaller size",
            config.place("image.size")
        )));
    }
    if let ModelKind::Network(network) = config.model.kind {
        let checked = ImageClassifierConfig::of(network, sizes.image).check();
        return checked.map_err(|error| error.at(config.place("image.size")));
    }
    if rows.is_multiple_of(patch) && columns.is_multiple_of(patch) {
        return Ok(());
    }
    Err(Error::user(format!(
        "{} does not divide the images, which are {rows} x {columns}; choose a divisor of both, or another image.size",
        config.place("model.patch")
    )))
}

/// Refuses a model of texts for images, and a model of images for texts. `whose` names the model.
pub(super) fn check_inputs(config: &Config, model: &Model, whose: &str) -> Result<()> {
    let place = config.place("data.format");
    match (config.data.format.format().is_of_images(), model.image().is_some()) {
        (true, false) => Err(Error::user(format!(
            "{place} is not what {whose} reads, texts; name a model of images"
        ))),
        (false, true) => Err(Error::user(format!(
            "{place} is not what {whose} reads; set data.format to images"
        ))),
        _ => Ok(()),
    }
}

/// Refuses a reader that does not belong to the model. `whose` names the model.
pub(super) fn check_reader(reader: &Reader, model: &Model, whose: &str) -> Result<()> {
    match reader {
        Reader::Texts(tokenizer) => check_vocabulary(tokenizer, model, whose),
        Reader::Images(preprocessing) => {
            let checked = model.check_image(preprocessing.shape());
            checked.map_err(|error| error.at(whose))
        }
        Reader::Table(schema) => {
            let checked = model.check_image([1, schema.width(), 1]);
            checked.map_err(|error| error.at(whose))
        }
    }
}

/// Refuses a tokenizer with more tokens than the model has rows for. The model may have any number of rows more: many
/// are padded to a round number, for tokens to come or for several devices. `whose` names the model.
pub fn check_vocabulary(tokenizer: &Tokenizer, model: &Model, whose: &str) -> Result<()> {
    let (tokens, knows) = (tokenizer.vocab_size(), model.vocab_size());
    if tokens <= knows {
        return Ok(());
    }
    let beyond = (knows..tokens).find_map(|id| tokenizer.token(i32::try_from(id).ok()?));
    let beyond = beyond.map_or(String::new(), |token| format!(", the first one beyond is {token:?}"));
    Err(Error::user(format!(
        "the tokenizer has {tokens} tokens but {whose} {knows}{beyond}; use the tokenizer that belongs to it, with all of its \
         files as they were"
    )))
}

/// Refuses examples that are longer than the model's positions.
pub(super) fn check_length(config: &Config, model: &Model, whose: &str, remedy: &str) -> Result<()> {
    let Some(longest) = model.max_length().filter(|longest| config.data.max_length > *longest) else {
        return Ok(());
    };
    Err(Error::user(format!(
        "{} is more than the {longest} positions of {whose}; {remedy}",
        config.place("data.max_length")
    )))
}
