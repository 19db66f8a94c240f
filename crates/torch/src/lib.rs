//! Which PyTorch modules can be trained, and how? Exported programs, traced into a context.
//!
//! [`ExportedProgram`] is what `torch.export` gives in its training form, as JSON; [`trace`] traces it into a
//! [`Cx`](lessen_nn::Cx), so that budget, placements, precision, checkpoints and reports are those of every model.
//! [`Training`] trains it with optimizers that compute what those of `torch.optim` do.
#![forbid(unsafe_code)]

mod call;
mod images;
mod known;
mod masks;
mod operators;
mod optimizer;
mod program;
mod settings;
mod tracer;
mod training;
mod value;
mod window;

pub use optimizer::{GroupSettings, Rule};
pub use program::{Argument, ExportedInput, ExportedNode, ExportedProgram, InputRole};
pub use settings::TrainingSettings;
pub use tracer::{TraceValues, Traced, data_name, trace};
pub use training::{Batch, Summary, Training};
pub use value::Value;
