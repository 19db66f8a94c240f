//! Sessions of ONNX files.

use crate::arrays::{Given, Returned, array, returned};
use crate::error::{raised, released};
use lessen::device_with;
use lessen::onnx::{self, Inputs, Model, Session};
use lessen_base::{Error, Result};
use lessen_device::Backend;
use lessen_onnx::extents_of;
use lessen_onnx::proto::Dimension;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// An ONNX file on a device.
#[pyclass(frozen, module = "lessen._lessen")]
pub struct OnnxSession {
    model: Arc<Model>,
    session: Session<dyn Backend>,
}

#[pymethods]
impl OnnxSession {
    #[new]
    fn open(py: Python<'_>, file: PathBuf, threads: Option<usize>) -> PyResult<OnnxSession> {
        released(py, move || {
            let model = Arc::new(Model::open_to_run(&file)?);
            let session = Session::new(model.clone(), device_with("cpu", threads)?)?;
            Ok(OnnxSession { model, session })
        })
    }

    /// The inputs: their names, dtypes and extents, a number or a name each.
    fn inputs(&self) -> Vec<(String, String, Option<Vec<String>>)> {
        let described = self.model.inputs.iter().map(|input| {
            let dtype = onnx::dtype_of_input(&self.model, &input.name);
            let extents = extents_of(input).map(|extents| {
                let extent = extents.iter().map(|extent| match &extent.value {
                    Some(Dimension::Value(size)) => size.to_string(),
                    Some(Dimension::Param(name)) => name.clone(),
                    None => String::new(),
                });
                extent.collect()
            });
            (
                input.name.clone(),
                dtype.map_or("object".to_string(), |dtype| dtype.to_string()),
                extents,
            )
        });
        described.collect()
    }

    /// The names of the outputs.
    fn outputs(&self) -> Vec<String> {
        self.model.outputs.iter().map(|output| output.name.clone()).collect()
    }

    /// The outputs for arrays by the names of the inputs.
    fn run<'py>(&self, py: Python<'py>, given: Vec<(String, Given<'py>)>) -> PyResult<Vec<(String, Returned<'py>)>> {
        let arrays = given.iter().map(|(name, given)| Ok((name.clone(), array(given)?)));
        let arrays: Vec<_> = arrays.collect::<Result<_>>().map_err(|error| raised(py, &error))?;
        let found = released(py, || {
            let inputs = Inputs::of_arrays(&self.model, arrays)?;
            inputs.sizes(&self.model, &onnx::Sizes::new())?;
            let outputs = self.session.run(inputs.values(&self.model)?)?;
            let arrays = outputs.into_iter().map(|(name, value)| {
                let found = value.tensor().and_then(|tensor| onnx::array(tensor));
                let found = found.ok_or_else(|| {
                    Error::user(format!(
                        "the output `{name}` is no array of numbers; write it to a file with `lessen run`"
                    ))
                })?;
                Ok((name, found))
            });
            arrays.collect::<Result<Vec<_>>>()
        })?;
        Ok(found
            .iter()
            .map(|(name, array)| (name.clone(), returned(py, array)))
            .collect())
    }
}
