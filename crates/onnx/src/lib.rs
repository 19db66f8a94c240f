//! ONNX files: what they compute as a graph, and the conversion of their norms.
//!
//! [`Model`] reads a file without the elements of its tensors. [`Imported`] is the graph of its nodes, for sizes of its
//! inputs. Everything else stays as it is, byte by byte, when a converted model is written. [`Network`] is a classifier
//! of images whose parameters are trained. [`export`] writes any function as a file, [`quantize`] a file's products as
//! products of integers.

#![forbid(unsafe_code)]

mod aside;
mod convert;
mod declared;
mod edit;
mod element;
pub mod export;
mod external;
mod files;
mod host;
mod import;
mod inline;
mod model;
mod names;
mod narrow;
mod network;
mod order;
pub mod proto;
pub mod quantize;
mod random;
mod scales;
mod session;
mod tensor;
mod wire;
mod write;

pub use convert::{
    Converter, Difference, LeftAsItIs, NormOperators, Report, Work, bounded_sizes, difference, difference_of_files,
    difference_on,
};
pub use declared::{element_of, extents_of, is_unnamed};
pub use element::Element;
pub use host::{Data, HostTensor, HostValue, NarrowNumbers, run_node};
pub use import::{Imported, Sizes, fitting_sizes, size_names};
pub use lessen_rewrite::NormTarget;
pub use model::{Model, Node};
pub use narrow::{Narrow, Narrowing, Powers};
pub use network::{Network, NetworkFile, NetworkNorm, NetworkParameter, NetworkParts, ParameterRole};
pub use random::random_values;
pub use session::Session;
pub use tensor::{Elements, Tensor};
pub use write::beside;
