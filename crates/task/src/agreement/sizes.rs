//! Whether the sizes of a recipe are possible.

use crate::recipe::config::Config;
use lessen_base::{Error, Result};
use lessen_nn::Model;

/// Most elements of a plausible array: 1024 TiB of four bytes each.
const MOST_ELEMENTS: f64 = (1u64 << 48) as f64;

/// Refuses a model from scratch with more elements than are plausible, before it is made. `vocab` is its number of
/// tokens.
///
/// # Errors
/// The key with the largest share of the elements.
pub(super) fn check_sizes(config: &Config, vocab: usize) -> Result<()> {
    let model = &config.model;
    if model.init.is_some() {
        return Ok(());
    }
    let (layers, width, ffn) = (model.layers as f64, model.width as f64, model.ffn as f64);
    // Elements of the matrices, by the key that decides most of them.
    let shares = [
        ("model.width", 4.0 * layers * width * width),
        ("model.ffn", 2.0 * layers * width * ffn),
        ("model.vocab", vocab as f64 * width),
        ("data.max_length", config.data.max_length as f64 * width),
    ];
    if shares.iter().map(|(_, share)| share).sum::<f64>() < MOST_ELEMENTS {
        return Ok(());
    }
    Err(too_large(config, shares))
}

/// Refuses a batch whose arrays, about one for every parameter, have more elements than are plausible.
///
/// # Errors
/// The key with the largest share of the elements.
pub(super) fn check_batch(config: &Config, model: &Model) -> Result<()> {
    let parameters = model.parameters();
    let widest = parameters
        .iter()
        .map(|param| param.shape.iter().copied().max().unwrap_or(1) as f64);
    let (size, tokens) = (config.train.batch, config.train.tokens);
    // An image has at most as many states as pixels.
    let (what, length) = match model.image() {
        Some([rows, columns, _]) => ("image.size", rows * columns),
        None => ("data.max_length", config.data.max_length),
    };
    let most = match tokens {
        0 => size as f64 * length as f64,
        tokens => tokens as f64,
    };
    if most * widest.sum::<f64>() < MOST_ELEMENTS {
        return Ok(());
    }
    let mut keys = match tokens {
        0 => vec![("train.batch", size), (what, length)],
        tokens => vec![("train.tokens", tokens)],
    };
    if config.model.init.is_none() {
        keys.extend([("model.width", config.model.width), ("model.ffn", config.model.ffn)]);
    }
    Err(too_large(config, keys))
}

/// The error of sizes that are too large, which names the key with the greatest share.
fn too_large<T: PartialOrd>(config: &Config, shares: impl IntoIterator<Item = (&'static str, T)>) -> Error {
    let greatest = shares
        .into_iter()
        .reduce(|a, b| if b.1 > a.1 { b } else { a })
        .map_or("train.batch", |(name, _)| name);
    Error::user(format!(
        "{} asks for more than 1000 TiB of memory; choose a smaller number",
        config.place(greatest)
    ))
}
