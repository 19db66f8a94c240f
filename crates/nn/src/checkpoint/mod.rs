//! Checkpoints: Hugging Face directories with `config.json` and `model.safetensors`, which transformers and
//! Lessen read from each other.

mod file;
mod load;
mod names;
mod save;

pub use load::{Loaded, load};
pub use save::save;
