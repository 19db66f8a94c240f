//! Checkpoints as Hugging Face directories with `config.json` and `model.safetensors`; transformers and Lessen read
//! each other's.

mod adapted_model;
mod adapter_config;
mod adapter_fields;
mod adapter_files;
mod adapter_folder;
mod adapter_targets;
mod adapters;
mod convert;
mod described;
mod dtype;
mod file;
mod folder;
mod found;
mod load;
mod model_of_folder;
mod names;
mod onnx_file;
mod packed;
mod quantize;
mod reader;
mod receive;
mod save;
mod scales;
mod shards;
mod tensor_names;
mod unread;
mod weighted_adapter;

pub use crate::quantization_config::{gguf_file, has_integer_products, has_packed_weights};
pub use adapter_fields::ADAPTER_FIELDS;
pub use adapters::{copy_adapters, save_adapters};
pub use convert::convert;
pub use dtype::WeightDtype;
pub use file::TensorFile;
pub use folder::ModelFolder;
pub use found::Rest;
pub use load::{Loaded, load, load_into, load_with, stored_floats, stored_groups};
pub use quantize::{InputScales, Integers, check_unquantized, quantize};
pub use reader::Reader;
pub use receive::{Receive, Take};
pub use save::{Entry, Sink, save, save_with, write_tensors};
pub use weighted_adapter::WeightedAdapter;
