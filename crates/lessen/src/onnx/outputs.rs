//! The outputs of a model as files: NumPy's, or ONNX's own.

use std::fs;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use lessen_data::arrays::{Array, npy, npz};
use lessen_onnx::{HostValue, Model};

use super::elements::array;

/// What a path takes.
enum OutputPath {
    /// One array.
    Npy,
    /// An archive of arrays.
    Npz,
    /// A folder with a file of ONNX for each output.
    Folder,
}

/// Writes outputs: `.npz`, `.npy` for one output, or a folder, which gets `output_0.pb` and so on in their declared
/// types.
///
/// # Errors
/// A path with another ending, `.npy` for several outputs, a folder that cannot be written to; texts and lists in a
/// file of NumPy.
pub fn write(path: &Path, model: &Model, outputs: &[(String, HostValue)]) -> Result<()> {
    match form(path, model)? {
        OutputPath::Folder => folder(path, model, outputs),
        OutputPath::Npy => match &arrays(path, outputs)?[..] {
            [(_, only)] => npy::write(path, only),
            _ => Err(Error::internal("a model of one output has another number of outputs")),
        },
        OutputPath::Npz => npz::write(path, &arrays(path, outputs)?),
    }
}

fn arrays(path: &Path, outputs: &[(String, HostValue)]) -> Result<Vec<(String, Array)>> {
    let arrays = outputs.iter().map(|(name, value)| {
        let array = value.tensor().and_then(|tensor| array(tensor));
        let array = array.ok_or_else(|| {
            Error::user(format!(
                "-o {}: the output `{name}` is no array of numbers; write to a folder with a name that ends with /",
                path.display()
            ))
        })?;
        Ok((name.clone(), array))
    });
    arrays.collect()
}

fn folder(path: &Path, model: &Model, outputs: &[(String, HostValue)]) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| {
        Error::user(format!(
            "the folder {} cannot be created ({error}); choose another one with -o",
            path.display()
        ))
    })?;
    for (number, (name, value)) in outputs.iter().enumerate() {
        let declared = model.outputs.get(number).and_then(|output| output.r#type.as_ref());
        let is_optional = declared.is_some_and(|ty| ty.optional_type.is_some());
        write_file(&file_of(path, number), &value.to_file(name, is_optional))?;
    }
    Ok(())
}

fn form(path: &Path, model: &Model) -> Result<OutputPath> {
    let is = |extension: &str| path.extension().is_some_and(|own| own.eq_ignore_ascii_case(extension));
    let shown = path.display().to_string();
    let names: Vec<&str> = model.outputs.iter().map(|output| output.name.as_str()).collect();
    if shown.ends_with('/') || shown.ends_with(MAIN_SEPARATOR) || path.is_dir() {
        return Ok(OutputPath::Folder);
    }
    match names[..] {
        _ if is("npz") => Ok(OutputPath::Npz),
        [_] if is("npy") => Ok(OutputPath::Npy),
        _ if is("npy") => Err(Error::user(format!(
            "-o {shown}: a .npy file holds one array, but the model has the outputs {}; write a .npz file",
            names.join(", ")
        ))),
        _ => Err(Error::user(format!(
            "-o {shown}: outputs are written as .npz or .npy, or to a folder whose name ends with /; choose such a name"
        ))),
    }
}

/// The files that a model's outputs are written to.
pub fn places(path: &Path, model: &Model) -> Vec<PathBuf> {
    match form(path, model) {
        Ok(OutputPath::Folder) => (0..model.outputs.len()).map(|number| file_of(path, number)).collect(),
        _ => vec![path.to_path_buf()],
    }
}

/// The file of an output in a folder.
fn file_of(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("output_{number}.pb"))
}

/// Checks that a model's outputs can be written to a path.
///
/// # Errors
/// As [`write()`], but for the disk.
pub fn check(path: &Path, model: &Model) -> Result<()> {
    form(path, model).map(|_| ())
}
