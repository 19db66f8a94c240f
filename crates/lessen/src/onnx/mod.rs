//! ONNX: reading and running files, and writing functions of a session.
//!
//! [`ExportOnnx::export_onnx`] writes any function over the parameters of a session, checked against the session.
//! [`Model`] reads a file, [`Session`] runs it. [`Network`] is a classifier of images whose parameters are trained.
//! [`Inputs`] and [`write()`] are the files of `lessen run`.
//!
//! ```
//! use lessen::onnx::{Data, ExportOnnx, FunctionFile, HostTensor, HostValue, Model, OpenSize, Session as OnnxSession};
//! use lessen::prelude::*;
//!
//! fn scores(cx: Cx, rows: usize) -> Tensor {
//!     let x = cx.input("points", DType::F32, &[rows, 2]);
//!     linear(cx, "arms", x, 3, Init::Normal { std: 0.5 }).relu()
//! }
//!
//! let mut trainer = Trainer::new(device()?, TrainerOptions::new(0.1), |cx| scores(cx, 8).mean())?;
//! trainer.step(&[("points", Host::F32(&[0.5; 16]))])?;
//! let mut session = trainer.finish()?;
//!
//! let path = std::env::temp_dir().join(format!("lessen-export-{}.onnx", std::process::id()));
//! let open = vec![OpenSize { name: "rows".to_string(), range: 1..=4096 }];
//! let difference = session.export_onnx(&path, &FunctionFile { open, ..FunctionFile::default() }, |cx, sizes| {
//!     vec![("scores", scores(cx, sizes[0]))]
//! })?;
//! assert!(difference < 1e-5);
//!
//! let ask = session.function(|cx| vec![("scores", scores(cx, 1))])?;
//! let own = session.run(ask, &[("points", Host::F32(&[1.0, -1.0]))])?;
//! let file = OnnxSession::new(Model::open(&path)?.into(), device()?)?;
//! let found = file.run(vec![("points".to_string(), HostTensor::new(&[1, 2], vec![1.0f32, -1.0])?.into())])?;
//! let (name, HostValue::Tensor(found)) = &found[0] else { panic!("one tensor") };
//! let Data::F32(found) = found.data() else { panic!("floats") };
//! assert_eq!(name, "scores");
//! assert!(found.iter().zip(own.f32("scores")?).all(|(a, b)| (a - b).abs() < 1e-5));
//! # std::fs::remove_file(&path).ok();
//! # Ok::<(), Error>(())
//! ```

mod elements;
mod export;
mod inputs;
mod outputs;

pub use elements::array;
pub use export::ExportOnnx;
pub use inputs::{Inputs, dtype_of_input};
pub use lessen_onnx::{
    Data, Element, Elements, HostTensor, HostValue, Imported, Model, Network, NetworkFile, NetworkNorm, NetworkParts,
    Node, Sizes, Tensor, fitting_sizes, size_names, usual_sizes,
};
pub use lessen_onnx_sessions::{Session, random_values, run_node};
pub use lessen_saved::onnx_export::{FunctionFile, OPSETS, OnnxFile, OnnxOptions, OpenSize, export_onnx};
pub use outputs::{check, places, write};
