//! Places of files that commands write: none of them is a file that the command reads.

use lessen_base::Result;
use lessen_base::atomic::check_link;
use lessen_base::keep_sources;
use lessen_onnx::Model;
use std::path::{Path, PathBuf};

/// Endings of files that commands write and that are no part of a model's folder or of a run.
const WRITTEN: [&str; 9] = ["csv", "data", "html", "jsonl", "ndjson", "npy", "npz", "onnx", "tsv"];

/// Files of a run with such endings: the nodes of its network, its course and its settings.
const OF_RUNS: [&str; 3] = ["network.onnx", "metrics.jsonl", "settings.jsonl"];

/// Checks that a file can be written without overwriting what is read: one of the `files`, or of the files of a model
/// or a run in `folders`. Tables, arrays, pages and ONNX files in such a folder are answers of other times.
///
/// # Errors
/// A file that is read, and a link to nothing.
pub fn check_place(out: &Path, files: &[PathBuf], folders: &[PathBuf]) -> Result<()> {
    check_link(out)?;
    keep_sources(out, files)?;
    let (folders, single): (Vec<PathBuf>, Vec<PathBuf>) = folders.iter().cloned().partition(|path| path.is_dir());
    keep_sources(out, &single)?;
    let ending = out.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let is_of_run = OF_RUNS
        .iter()
        .any(|name| out.file_name().is_some_and(|own| own == *name));
    if WRITTEN.contains(&ending) && !is_of_run {
        return Ok(());
    }
    keep_sources(out, &folders)
}

/// The files that an ONNX file reads, itself among them; of other paths these alone.
///
/// # Errors
/// A damaged ONNX file.
pub fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    let is_onnx = path.extension().is_some_and(|ending| ending == "onnx") && path.is_file();
    if is_onnx {
        Model::open(path)?.files()
    } else {
        Ok(vec![path.to_path_buf()])
    }
}
