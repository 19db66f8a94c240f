//! Programs as graphs: types, operations, derivatives of any order, a text form, a verifier and a reference evaluator.
//!
//! A model is traced: operations on [`Tensor`] handles append nodes to a [`Trace`], and [`Trace::finish`] returns the
//! [`Graph`] that a compiler rewrites and plans. This crate does not know where or how a graph runs; [`evaluate`]
//! computes what it means.
//!
//! ```
//! use std::collections::HashMap;
//!
//! use lessen_graph::{Array, DType, Registry, Trace, evaluate, parse, print};
//!
//! // One step of gradient descent on the mean square of `x w`.
//! let trace = Trace::new();
//! let x = trace.input("x", DType::F32, &[2, 3]);
//! let w = trace.state("w", DType::F32, &[3, 1]);
//! let y = x.matmul(w);
//! let loss = (y * y).mean();
//! let gradient = loss.grad(&[w])[0];
//! trace.output("loss", loss);
//! trace.assign(w, w - gradient * 0.1);
//! let graph = trace.finish();
//!
//! let inputs = HashMap::from([
//!     ("x".to_string(), Array::f32(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
//!     ("w".to_string(), Array::f32(&[3, 1], vec![1.0, 0.0, -1.0])),
//! ]);
//! let results = evaluate(&graph, &inputs)?;
//! assert_eq!(results["loss"].item(), 4.0);
//! assert_eq!(results["w"].ty.to_string(), "f32[3,1]");
//!
//! // The text form is complete.
//! let text = print(&graph);
//! assert!(text.contains("%2 = matmul(%0, %1) {transpose_a=false, transpose_b=false} : f32[2,1]"));
//! assert_eq!(print(&parse(&text, &Registry::standard())?), text);
//! # Ok::<(), lessen_graph::Error>(())
//! ```
//!
//! Where things are: an operation is an [`Op`] (an [`Elementwise`] one needs little more than its function), the
//! standard ones are in [`ops`], a file each; [`Tensor::grad`] and [`vjp`] differentiate; [`lower`] replaces operations
//! by their decompositions; operations of several ranks are in [`ops::collective`], and a [`Carrier`] exchanges their
//! messages; [`verify`] checks the invariants of a graph.

#![forbid(unsafe_code)]

#[macro_use]
mod named;

mod along;
mod array;
mod asked;
mod attrs;
mod builder;
mod captures;
mod carried;
mod eval;
mod eval_ranks;
mod grad;
mod graph;
mod host;
#[cfg(feature = "ndarray")]
mod host_ndarray;
mod inverse;
mod layout;
mod line;
mod lower;
mod mistakes;
mod op;
pub mod ops;
pub mod philox;
mod products;
mod ranks;
mod registry;
mod side_by_side;
mod size;
mod slide;
mod standard;
mod tensor;
mod text;
mod trace;
mod types;
mod verify;

pub use along::{Along, AlongQuery, Contraction, WhenCentred};
pub use array::Array;
pub use asked::Asked;
pub use attrs::{Attr, Attrs};
pub use builder::GraphBuilder;
pub use carried::{Begun, Carrier, Ended, MOST_UNDER_WAY, Transfer};
pub use eval::{evaluate, evaluate_exactly, evaluate_op};
pub use eval_ranks::evaluate_ranks;
pub use grad::vjp;
pub use graph::{Assign, Def, Graph, Input, InputKind, Node, NodeId, Output, Phase, Value, ValueId};
pub use host::Host;
pub use inverse::{Condition, FromOutput, Inverse, Operand};
pub use layout::Layout;
pub use lessen_base::{Error, Result};
pub use lower::lower;
pub use named::{AttrValue, Build, Named};
pub use op::{
    Cost, Filling, Fold, IndexInput, OnRows, OnSlices, Op, OutRole, Role, Row, RowKernel, RowMut, RowWise, SameFields,
    Vjp,
};
pub use ops::Elementwise;
pub use ops::Scalar;
pub use ops::all_reduce::{all_reduce, sums_of_subtrees};
pub use ops::attention::{AttentionOptions, PositionBias, Weighting, attention};
pub use ops::broadcast_from::broadcast_from;
pub use ops::clip::{clip_coefficient, global_norm};
pub use ops::concat::concat;
pub use ops::control::ScanOptions;
pub use ops::convolution::{Conv1dOptions, Conv2dOptions};
pub use ops::pieces::{all_gather, reduce_scatter};
pub use ops::pooling::{Pool1d, Pool2d};
pub use ops::shape::stack::stack;
pub use products::Products;
pub use ranks::Ranks;
pub use registry::Registry;
pub use side_by_side::{SideBySide, side_by_side};
pub use size::checked_numel;
pub use tensor::Tensor;
pub use text::{parse, print};
pub use trace::{Scope, Trace, TraceRef};
pub use types::{DType, Shape, Type, bf16_bits, numel};
pub use verify::verify;
