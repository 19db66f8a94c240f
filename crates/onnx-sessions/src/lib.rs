//! Sessions of ONNX files: what a file's nodes compute, and the conversion of its norms.
//!
//! [`Session`] answers for a model: products of floats and what is around them are compiled programs, all other nodes
//! are operators on arrays in memory. [`run_node`] computes one node by itself. [`Converter`] replaces norms of a file
//! where the results stay the same, and compares sessions of both.
//!
//! ```
//! use lessen_onnx::proto::NodeProto;
//! use lessen_onnx::{Data, HostTensor};
//! use lessen_onnx_sessions::run_node;
//!
//! let node = NodeProto { op_type: "Mod".to_string(), output: vec!["y".to_string()], ..NodeProto::default() };
//! let array = |x: [i64; 2]| HostTensor::new(&[2], x.to_vec());
//! let outputs = run_node(&node, 17, vec![Some(array([-7, 7])?.into()), Some(array([3, 3])?.into())])?;
//! assert_eq!(outputs[0].tensor().map(|y| y.data()), Some(&Data::I64(vec![2, 1])));
//! # Ok::<(), lessen_base::Error>(())
//! ```

#![forbid(unsafe_code)]

mod convert;
mod operators;
mod random;
mod session;

pub use convert::{
    Converter, Difference, LeftAsItIs, NormOperators, Report, Work, bounded_sizes, difference, difference_of_files,
    difference_on,
};
pub use lessen_rewrite::NormTarget;
pub use operators::run_node;
pub use random::random_values;
pub use session::Session;
