//! Which PyTorch modules can be trained, and how? Exported programs, traced into a context.
//!
//! [`Program`] is what `torch.export` gives in its training form, as JSON; [`trace`] traces it into a
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
mod tracer;
mod training;
mod value;

pub use optimizer::{GroupSettings, Rule};
pub use program::{Argument, InputRole, Program, ProgramInput, ProgramNode};
pub use tracer::{Surroundings, Traced, data_name, trace};
pub use training::{Batch, Training, TrainingSettings};
pub use value::Value;
