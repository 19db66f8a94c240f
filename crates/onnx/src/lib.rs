//! ONNX files: reading, tracing, changing and writing.
//!
//! [`Model`] reads a file without the elements of its tensors. [`Imported`] is the graph of its nodes, for sizes of its
//! inputs. Everything else stays as it is, byte by byte, when a changed model is written. [`Network`] is a classifier
//! of images whose parameters are trained. [`export`] writes any function as a file, [`quantize`] a file's products as
//! products of integers.
//!
//! Files are run by `lessen-onnx-sessions`, which stands on the modules that these pages hide: arrays in memory, nodes
//! while they are traced, and changes of a model before they are written.

#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod aside;
mod attribute_methods;
mod declared;
#[doc(hidden)]
pub mod edit;
mod element;
pub mod export;
mod external;
mod files;
#[doc(hidden)]
pub mod host;
#[doc(hidden)]
pub mod import;
mod inline;
#[doc(hidden)]
pub mod model;
#[doc(hidden)]
pub mod names;
mod narrow;
mod network;
#[doc(hidden)]
pub mod order;
pub mod proto;
pub mod quantize;
mod scales;
mod tensor;
mod wire;
mod write;

pub use declared::{element_of, extents_of, is_unnamed};
pub use element::Element;
pub use host::{Data, HostTensor, HostValue, NarrowNumbers};
pub use import::{Imported, Sizes, fitting_sizes, size_names, usual_sizes};
pub use model::{Model, Node};
pub use narrow::{Narrow, Narrowing, Powers};
pub use network::{Network, NetworkFile, NetworkNorm, NetworkParameter, NetworkParts, ParameterRole};
pub use tensor::{Elements, Tensor};
pub use write::beside;
