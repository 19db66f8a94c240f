//! Functions of a session as ONNX files.

use crate::device;
use lessen_base::Result;
use lessen_graph::Tensor;
use lessen_nn::Cx;
use lessen_saved::onnx_export::{FunctionFile, export_function};
use lessen_task::device::NewBackend;
use lessen_train::Session;
use std::path::Path;

/// Writes functions over the parameters of a session as ONNX files; the module [`onnx`](crate::onnx) has an example.
pub trait ExportOnnx {
    /// Writes a function as the ONNX file `out`, with inputs and results under the names that it gives them: `i32` as
    /// `int64`, all others as they are. `function` gets the sizes that the file leaves open. The file is read again,
    /// runs on random inputs on a device of its own, and is left only if its results are those of the session. Returns
    /// the greatest difference, divided by the result's largest element where that is above 1.
    ///
    /// # Errors
    /// As [`export_function`].
    fn export_onnx<N: Into<String>>(
        &mut self,
        out: &Path,
        how: &FunctionFile,
        function: impl Fn(Cx, &[usize]) -> Vec<(N, Tensor)>,
    ) -> Result<f64>;
}

impl ExportOnnx for Session {
    fn export_onnx<N: Into<String>>(
        &mut self,
        out: &Path,
        how: &FunctionFile,
        function: impl Fn(Cx, &[usize]) -> Vec<(N, Tensor)>,
    ) -> Result<f64> {
        export_function(self, out, how, &NewBackend::new(device), function)
    }
}
