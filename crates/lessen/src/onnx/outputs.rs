//! The outputs of a model as NumPy's files.

use std::path::Path;

use lessen_base::{Error, Result};
use lessen_data::arrays::{Array, npy, npz};
use lessen_device::{Backend, Host};
use lessen_onnx::{Element, Executable, Model};

/// The outputs of the last run with their names, in the model's order, with elements of the types that its file says:
/// integers of 64 bits as such ones, 16-bit floats in the 32 bits in which they are computed.
///
/// # Panics
/// If the model has not run.
pub fn of_outputs<B: Backend + ?Sized>(model: &Model, executable: &Executable<B>) -> Vec<(String, Array)> {
    let arrays = executable.outputs().iter().map(|(name, ty)| {
        let output = executable.output(name).expect("the model has run");
        let said = model.outputs.iter().find(|output| output.name == *name);
        let tensor = said.and_then(|output| output.r#type.as_ref()?.tensor_type.as_ref());
        let element = tensor.and_then(|tensor| Element::of(tensor.elem_type));
        (name.clone(), array(&ty.shape, output.host(), element))
    });
    arrays.collect()
}

/// A value as an array.
pub(crate) fn array(shape: &[usize], host: Host<'_>, element: Option<Element>) -> Array {
    let is_wide = matches!(element, Some(Element::Int(8) | Element::Unsigned(4 | 8)));
    match host {
        Host::F32(data) => Array::new(shape, data.iter().copied()),
        Host::F64(data) => Array::new(shape, data.iter().copied()),
        Host::I32(data) if is_wide => Array::new(shape, data.iter().map(|x| i64::from(*x))),
        Host::I32(data) => Array::new(shape, data.iter().copied()),
        Host::U32(data) => Array::new(shape, data.iter().copied()),
        Host::U8(data) => Array::new(shape, data.iter().copied()),
        Host::Bool(data) => Array::new(shape, data.iter().map(|x| *x != 0)),
        Host::BF16(_) => Array::new(shape, host.elements().map(|x| x as f32)),
    }
}

/// Writes outputs: `.npz`, or `.npy` for one output.
///
/// # Errors
/// A path with another ending, `.npy` for several outputs, a folder that cannot be written to.
pub fn write(path: &Path, outputs: &[(String, Array)]) -> Result<()> {
    let names: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
    match (is_archive(path, &names)?, outputs) {
        (false, [(_, only)]) => npy::write(path, only),
        _ => npz::write(path, outputs),
    }
}

/// Whether outputs with the names `names` go into an archive at `path`.
///
/// # Errors
/// As [`write`].
fn is_archive(path: &Path, names: &[&str]) -> Result<bool> {
    let is = |extension: &str| path.extension().is_some_and(|own| own.eq_ignore_ascii_case(extension));
    let shown = path.display();
    match names {
        _ if is("npz") => Ok(true),
        [_] if is("npy") => Ok(false),
        names if is("npy") => Err(Error::user(format!(
            "-o {shown}: a .npy file holds one array, but the model has the outputs {}; write a .npz file",
            names.join(", ")
        ))),
        _ => Err(Error::user(format!(
            "-o {shown}: outputs are written as .npz or .npy; choose such a name"
        ))),
    }
}

/// Checks that a model's outputs can be written to a path.
///
/// # Errors
/// As [`write()`], but for the disk.
pub fn check(path: &Path, model: &Model) -> Result<()> {
    let names: Vec<&str> = model.outputs.iter().map(|output| output.name.as_str()).collect();
    is_archive(path, &names).map(|_| ())
}
