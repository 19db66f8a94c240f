//! ONNX files: reading, tracing, changing and writing.
//!
//! [`Model`] reads a file without the elements of its tensors. [`Imported`] is the graph of its nodes, for sizes of its
//! inputs. Everything else stays as it is, byte by byte, when a changed model is written. [`Network`] is a classifier
//! of images whose parameters are trained. [`export`] writes any function as a file, [`quantize`] a file's products as
//! products of integers.
//!
//! Files are run by `lessen-onnx-sessions`, which stands on the modules that these pages hide: arrays in memory, nodes
//! while they are traced, and changes of a model before they are written.
//!
//! ```
//! use lessen_graph::{DType, Trace};
//! use lessen_onnx::export::{Export, ExportInput, InputForm, MOST_BYTES, OPSETS, Sample, export};
//! use lessen_onnx::{Imported, Model, Sizes};
//!
//! let trace = Trace::new();
//! let x = trace.input("x", DType::F32, &[2, 3]);
//! trace.output("y", x.relu());
//! let (name, shown) = ("x".to_string(), "x".to_string());
//! let function = Export {
//!     samples: &[Sample { sizes: Vec::new(), graph: trace.finish() }],
//!     dimensions: &[],
//!     inputs: &[ExportInput { name, shown, form: InputForm::Same }],
//!     name: "relu",
//!     opset: *OPSETS.start(),
//!     metadata: &[],
//!     parameter: &|_| Ok(Vec::new()),
//!     most_bytes: MOST_BYTES,
//! };
//! let path = std::env::temp_dir().join(format!("lessen-doc-{}.onnx", std::process::id()));
//! export(&function, &path)?;
//!
//! let read = Imported::of(&Model::open(&path)?, &Sizes::new())?;
//! assert!(read.is_complete() && read.graph.inputs[0].name == "x");
//! # std::fs::remove_file(&path).ok();
//! # Ok::<(), lessen_base::Error>(())
//! ```

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
