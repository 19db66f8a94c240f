//! Rewrites of any graph: functions from a graph to an equal, better one that know no device.
//!
//! - Common rewrites: [`lower`], [`write_codes`], [`eliminate_dead_code`], [`eliminate_common_subexpressions`],
//!   [`fold_constants`];
//! - patterns: [`recognize`] replaces norms, attention and GELU of primitive operations by one operation each;
//! - norm conversion: [`convert_norms`] turns LayerNorm into RMSNorm or CRMSNorm where its mean is redundant.
//!
//! A [`Rewriter`] copies a graph node by node; rewrites and the passes of `lessen-compile` are written with it.
//!
//! ```
//! use lessen_graph::{DType, Trace};
//! use lessen_rewrite::eliminate_dead_code;
//!
//! let trace = Trace::new();
//! let x = trace.input("x", DType::F32, &[4]);
//! let _unread = x.exp();
//! trace.output("y", x.tanh());
//! let graph = trace.finish();
//! assert_eq!(graph.nodes.len(), 2);
//! assert_eq!(eliminate_dead_code(&graph).nodes.len(), 1);
//! ```

#![forbid(unsafe_code)]

mod codes;
mod cse;
mod dead_code;
mod fold;
mod lower;
mod norms;
mod patterns;
mod rewriter;

pub use codes::write_codes;
pub use cse::eliminate_common_subexpressions;
pub use dead_code::{eliminate_dead_code, without_dead_code};
pub use fold::fold_constants;
pub use lower::lower;
pub use norms::{
    Conversion, ConvertedNorm, Lines, Means, NodeInput, NormOptions, NormShift, NormTarget, Obstacle, Parameter,
    ParameterChanges, ParameterStep, StoredFloat, UnconvertedNorm, convert_norms, convert_norms_in_place,
};
pub use patterns::{known_numbers, recognize, recognize_attention, recognize_norms};
pub use rewriter::Rewriter;
