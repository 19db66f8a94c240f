//! Layers, models, losses, optimizers, learning-rate schedules and Hugging Face checkpoints.
//!
//! A model is a function from a [`Cx`] to tensors: it declares data inputs and parameters by name and applies
//! layers. This crate knows neither datasets nor training loops.
//!
//! The example traces a whole training step: forward pass, backward pass and AdamW update.
//!
//! ```
//! use lessen_graph::Trace;
//! use lessen_nn::{BatchShape, Cx, Model, OptimizerConfig, UpdateRule, optimizer};
//! use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
//!
//! let config = EncoderConfig { vocab_size: 100, ..EncoderConfig::default() };
//! let model = Model::from(LessenEncoder { config });
//! let trace = Trace::new();
//! let cx = Cx::new(*trace, true);
//! let outputs = model.forward(cx, BatchShape::Padded { size: 8, length: 16 });
//! let rule = UpdateRule { clip_norm: Some(1.0), ..UpdateRule::new(OptimizerConfig::adamw(0.01)) };
//! let update = optimizer::update(cx, outputs.loss, &rule);
//! assert_eq!(update.states.len(), 2 * cx.params().len());
//! ```

#![forbid(unsafe_code)]

mod activation;
mod architecture;
mod attention;
mod batch;
pub mod checkpoint;
mod config;
mod context;
mod counted_positions;
mod criterion;
mod field_effect;
mod fire;
mod init;
mod labels;
pub mod layers;
mod lora;
mod loss;
pub mod losses;
mod lr_function;
mod lr_schedule;
mod model;
pub mod models;
pub mod names;
mod ngrams;
mod norm_kind;
mod observations;
pub mod optimizer;
mod params;
mod patterns;
mod plateau;
mod position;
pub mod quantization;
mod quantization_config;
mod rotary;
pub mod statistics;
mod storage;
mod task;
mod weights;

pub use activation::Activation;
pub use architecture::Architecture;
pub use attention::AttentionConfig;
pub use batch::BatchShape;
pub use config::Fields;
pub use context::{Cx, Recorded};
pub use criterion::Criterion;
pub use field_effect::{FieldEffect, KnownField, is_empty};
pub use fire::FireConfig;
pub use init::Init;
pub use labels::{is_by_class, numbered_labels, reorder_classes, same_classes};
pub use lessen_base::{Error, Result};
pub use lora::{Adapter, Lora, adapter_layer};
pub use loss::Loss;
pub use lr_function::LrFunction;
pub use lr_schedule::{LrSchedule, LrScheduleKind};
pub use model::Model;
pub use model::config_fields::config_fields;
pub use models::Outputs;
pub use models::bert::{Family, Head};
pub use ngrams::{Ngrams, ngrams};
pub use norm_kind::NormKind;
pub use optimizer::{
    AdamSettings, Algorithm, Centred, Joined, OptimizerConfig, ParamGroup, ParamUpdate, StateInPieces, Update,
    UpdateAlgorithm, UpdateRule,
};
pub use params::{ParamSpec, StateSpec};
pub use patterns::Patterns;
pub use plateau::Plateau;
pub use position::Position;
pub use quantization::{Bits, Quantization, Ranges};
pub use rotary::Rotary;
pub use statistics::{Selection, Statistic};
pub use storage::{
    Bf16Storage, ByParameter, F32Storage, FloatsBeside, Int4Storage, Int8Storage, PackedStorage, ParamStorage, Put,
    Stored,
};
pub use task::Task;
pub use weights::{Weight, Weights, initialize, initialize_missing};
