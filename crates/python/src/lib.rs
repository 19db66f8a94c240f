//! What the Python package `lessen` has in Rust: the module `lessen._lessen`.
//!
//! Python's files beside this crate turn what users give into plain lists, bytes and arrays, and what comes back into
//! their objects; here are the calls into Lessen, with the interpreter's lock released. Nothing here prints, installs a
//! handler of signals or ends the process, but for `main`, which is the command.
#![forbid(unsafe_code)]

mod arrays;
mod error;
mod generate;
mod interrupt;
mod load;
mod onnx;
mod processes;
mod stepped;
mod torch;
mod train;

use lessen_cpu::CountingAllocator;

/// Counts what Lessen allocates in the process.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Lessen in Rust.
#[pyo3::pymodule]
mod _lessen {
    use super::ALLOCATOR;
    use pyo3::prelude::*;
    use std::ffi::OsString;

    #[pymodule_export]
    use super::generate::{Stream, chat_prompt, generate, stream};
    #[pymodule_export]
    use super::load::LoadedModel;
    #[pymodule_export]
    use super::onnx::OnnxSession;
    #[pymodule_export]
    use super::stepped::SteppedRun;
    #[pymodule_export]
    use super::torch::TorchTraining;
    #[pymodule_export]
    use super::train::{answer, plan, train};

    /// Runs the command with these arguments, of which the first is its name; the exit code.
    #[pyfunction]
    fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
        ALLOCATOR.hold_little();
        py.detach(|| lessen::command::main_with(args))
    }

    /// The version of the package.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
