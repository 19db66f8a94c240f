//! What is a program? The ground floor of Lessen: types, operations, the graph that holds them, derivative
//! rules of any order, a text form, a verifier and a reference evaluator in `f64`.
//!
//! A model is traced: operations applied to [`Tensor`] handles append nodes to a [`Trace`]; [`Trace::finish`]
//! gives the plain [`Graph`] that the compiler rewrites and plans. Nothing here knows how or where a graph
//! runs.

#![forbid(unsafe_code)]

#[macro_use]
mod named;

mod array;
mod attrs;
mod elementwise;
mod eval;
mod grad;
mod graph;
mod layout;
mod line;
mod lower;
mod op;
pub mod ops;
pub mod philox;
mod registry;
mod standard;
mod text;
mod trace;
mod types;
mod verify;

pub use array::Array;
pub use attrs::{Attr, Attrs};
pub use elementwise::Elementwise;
pub use eval::{evaluate, evaluate_exactly, evaluate_op};
pub use grad::vjp;
pub use graph::{Assign, Def, Graph, Input, InputKind, Node, NodeId, Output, Phase, Value, ValueId};
pub use layout::Layout;
pub use lessen_base::{Error, Result};
pub use lower::lower;
pub use named::{AttrValue, Build, Named};
pub use op::{Cost, Fold, IndexInput, Op, OutRole, Role, RowWise, SameFields, Vjp};
pub use ops::attention::{AttentionOptions, attention};
pub use ops::clip::{clip_coefficient, global_norm};
pub use ops::concat::concat;
pub use registry::Registry;
pub use text::{parse, print};
pub use trace::{Tensor, Trace};
pub use types::{DType, Type, bf16_bits, numel};
pub use verify::verify;
