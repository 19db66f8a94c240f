//! A saved model as an ONNX file: what it answers, for batches and texts of any size. And so any function of a session.

mod check;
mod function;
mod of_session;
#[cfg(test)]
mod tests;

use self::check::Case;
use self::function::Function;
use crate::export::make_parent;
use crate::saved_run::AdapterOptions;
use lessen_base::atomic::{ASIDE, unwritable};
use lessen_base::{Error, Result};
use lessen_onnx::Model;
use lessen_onnx::export::{Export, MOST_BYTES, export};
use lessen_onnx::proto::ValueInfoProto;
use lessen_onnx_sessions::Session;
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::of_session::{FunctionFile, OpenSize, export_function};
pub use lessen_onnx::export::OPSETS;

/// How a model is written to an ONNX file.
#[derive(Clone, Debug)]
pub struct OnnxOptions {
    /// Which of the models of a run.
    pub which: WhichModel,
    /// Where its own adapters belong, and which others are added to it.
    pub adapters: AdapterOptions,
    /// The version of ONNX's operators, one of [`OPSETS`].
    pub opset: i64,
    /// Whether the file embeds texts, as `lessen embed` does, also where the model has a head.
    pub embeds: bool,
    /// The most bytes of a file with its weights; beyond, these go to a file beside it.
    pub most_bytes: u64,
}

impl Default for OnnxOptions {
    fn default() -> Self {
        OnnxOptions {
            which: WhichModel::Last,
            adapters: AdapterOptions::default(),
            opset: *OPSETS.start(),
            embeds: false,
            most_bytes: MOST_BYTES,
        }
    }
}

/// A file that was written.
#[derive(Clone, PartialEq, Debug)]
pub struct OnnxFile {
    /// The folder of the model.
    pub source: PathBuf,
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// The version of ONNX's operators.
    pub opset: i64,
    /// The largest difference between an output of the file and of the model, divided by the output's largest element
    /// where that is above 1.
    pub difference: f64,
    /// What there is to say of the model, a sentence each.
    pub notes: Vec<String>,
}

/// The greatest [`OnnxFile::difference`] of a file that is right.
const TOLERANCE: f64 = 1e-4;

/// Writes a model of a run, or of a Hugging Face folder, as the ONNX file `out`, whose batch and length have names. The
/// file is read again, runs on random inputs of two sizes, and is left only if its outputs are those of the model.
///
/// # Errors
/// A folder without this model, or adapters that do not go with it; an operation that has no form in ONNX, by its name;
/// outputs that differ; a file that cannot be written. The file that was there before, if any, stays then.
pub fn export_onnx(root: &Path, out: &Path, options: &OnnxOptions, new_backend: &NewBackend) -> Result<OnnxFile> {
    if !OPSETS.contains(&options.opset) {
        return Err(Error::user(format!(
            "--opset {}: Lessen writes versions {} to {} of ONNX's operators",
            options.opset,
            OPSETS.start(),
            OPSETS.end()
        )));
    }
    let name = file_name(out)?;
    let function = Function::open(root, options, new_backend)?;
    placed(out, name, |path| write(function, path, options, new_backend))
}

/// The name of a file to write.
///
/// # Errors
/// A folder.
fn file_name(out: &Path) -> Result<&OsStr> {
    let shown = out.display();
    let name = out.file_name().filter(|_| !out.is_dir());
    name.ok_or_else(|| Error::user(format!("{shown} is a folder; name a file to write")))
}

/// Calls `write` with the path of a file, and gives the file its place once it is whole.
fn placed<R>(out: &Path, name: &OsStr, write: impl FnOnce(&Path) -> Result<R>) -> Result<R> {
    make_parent(out)?;
    let aside = out.with_file_name(format!("{ASIDE}{}", name.to_string_lossy()));
    let io = |result: std::io::Result<()>| result.map_err(|error| unwritable(out, &error));
    if aside.exists() {
        io(fs::remove_dir_all(&aside))?;
    }
    io(fs::create_dir(&aside))?;
    let written = write(&aside.join(name)).and_then(|file| {
        io(moved(&aside, out))?;
        Ok(file)
    });
    // The first error is reported.
    let _ = fs::remove_dir_all(&aside);
    written
}

/// Writes the file and checks it.
fn write(mut function: Function, path: &Path, options: &OnnxOptions, new_backend: &NewBackend) -> Result<OnnxFile> {
    let (samples, metadata) = (function.samples()?, function.metadata());
    export(
        &Export {
            samples: &samples,
            dimensions: function.dimensions(),
            inputs: &function.inputs(),
            name: "lessen",
            opset: options.opset,
            metadata: &metadata,
            parameter: &|name| function.parameter(name),
            most_bytes: options.most_bytes,
        },
        path,
    )?;
    let model = Arc::new(Model::open(path)?);
    let cases = check::cases(&mut function, &model)?;
    let (source, notes) = (function.source().to_path_buf(), function.notes().to_vec());
    // Its parameters make room for those of the file.
    drop(function);
    let difference = checked("model", &model, cases, new_backend)?;
    let names = |values: &[ValueInfoProto]| values.iter().map(|value| value.name.clone()).collect();
    Ok(OnnxFile {
        source,
        inputs: names(&model.inputs),
        outputs: names(&model.outputs),
        opset: options.opset,
        difference,
        notes,
    })
}

/// The greatest difference between a file and what it was written from on these cases.
///
/// # Errors
/// A file that cannot be run, and one that differs by more than [`TOLERANCE`].
fn checked(what: &str, model: &Arc<Model>, cases: Vec<Case>, new_backend: &NewBackend) -> Result<f64> {
    let session = Session::new(model.clone(), new_backend.open()?)?;
    let difference = check::difference(&session, cases)?;
    if difference.is_within(TOLERANCE) {
        return Ok(difference.greatest());
    }
    Err(Error::user(format!(
        "the {what} cannot be exported: on random inputs, {}, above {TOLERANCE:e}; nothing was written",
        difference.sentence()
    )))
}

/// Gives the files in a folder their places; the model comes last, so that it never names elements that are not there.
fn moved(aside: &Path, out: &Path) -> std::io::Result<()> {
    let mut names: Vec<_> = fs::read_dir(aside)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<std::io::Result<_>>()?;
    names.sort_by_key(|name| Some(name.as_os_str()) == out.file_name());
    for name in names {
        fs::rename(aside.join(&name), out.with_file_name(&name))?;
    }
    lessen_base::atomic::sync_folder(out)
}
