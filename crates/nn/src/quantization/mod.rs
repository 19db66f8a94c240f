//! Quantization of layers: which bits weights and inputs of a layer have, and where the ranges of inputs come from.
//!
//! A layer that multiplies its input with a matrix or a kernel reads both rounded to the levels of a few bits, as
//! [`FakeQuantize`](lessen_graph::ops::FakeQuantize) does, while a model is trained for them (`lessen_quantize` in its
//! `config.json`), or with the fixed scales of a model whose weights are integers (`quantization_config` there).

mod bits;
mod config;
mod functions;
mod names;

pub use bits::Bits;
pub use config::{Quantization, Ranges};
pub use functions::{quantize_by_rows, quantize_in_range, quantize_weight};
pub(crate) use names::{BATCHES, OWN, is_of_training};
pub use names::{INPUT_FACTOR, INPUT_RANGE, INPUT_SCALE, check_scale};
