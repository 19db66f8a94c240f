//! Checkpoints: Hugging Face directories with `config.json` and `model.safetensors`, which transformers and
//! Lessen read from each other.

mod file;
mod load;
mod names;
mod save;

pub use load::{Loaded, load};
pub use save::save;

/// What to do about a folder that is no checkpoint.
pub(crate) const WANTED_FOLDER: &str =
    "name a folder with config.json and model.safetensors, as transformers' save_pretrained writes it";
