//! Vectors as JSON lines, or as an array of NumPy, written as they come.

use super::Sink;
use crate::stdout;
use lessen_base::atomic::{unwritable, write_with};
use lessen_base::{Error, Result};
use lessen_data::arrays::npy;
use serde_json::json;
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

/// Where vectors go.
pub enum Output {
    /// JSON lines on stdout.
    Stdout,
    /// A file of JSON lines.
    Jsonl(PathBuf),
    /// A file of NumPy.
    Npy(PathBuf),
}

impl Output {
    /// What the ending of a file says.
    ///
    /// # Errors
    /// Another ending than `.jsonl`, `.ndjson`, `.json` and `.npy`.
    pub fn of(path: Option<&Path>) -> Result<Output> {
        let Some(path) = path else { return Ok(Output::Stdout) };
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match ending {
            "jsonl" | "ndjson" | "json" => Ok(Output::Jsonl(path.to_path_buf())),
            "npy" => Ok(Output::Npy(path.to_path_buf())),
            _ => Err(Error::user(format!(
                "--output {}: vectors are written to .jsonl or .npy; choose one of these endings",
                path.display()
            ))),
        }
    }

    /// Writes the vectors of `width` elements that `fill` passes on. A file is whole or not there.
    ///
    /// # Errors
    /// The errors of `fill`; a place that cannot be written to.
    pub fn write(&self, width: usize, fill: impl FnOnce(&mut Sink<'_>) -> Result<()>) -> Result<()> {
        match self {
            Output::Stdout => stdout::write(|out| {
                fill(&mut |text, row| {
                    let written = writeln!(out, "{}", line(text, row));
                    match written {
                        Err(_) if stdout::is_closed() => Ok(false),
                        written => written.map(|()| true).map_err(|error| {
                            Error::user(format!("standard output cannot be written ({error}); free some space"))
                        }),
                    }
                })
            }),
            Output::Jsonl(path) => write_with(path, |out| {
                let mut sink = |text: &str, row: &[f32]| match writeln!(out, "{}", line(text, row)) {
                    Ok(()) => Ok(true),
                    Err(error) => Err(unwritable(path, &error)),
                };
                fill(&mut sink).map_err(io::Error::other)
            }),
            Output::Npy(path) => write_npy(path, width, fill),
        }
    }
}

/// A text and its vector as a line of JSON, in the fewest digits that give the same `f32`.
fn line(text: &str, row: &[f32]) -> String {
    let numbers: Vec<String> = row.iter().map(f32::to_string).collect();
    format!("{{\"text\":{},\"embedding\":[{}]}}", json!(text), numbers.join(","))
}

/// Writes an array whose number of rows is known at the end: rows go to a file without a name first.
fn write_npy(path: &Path, width: usize, fill: impl FnOnce(&mut Sink<'_>) -> Result<()>) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let failed = |error: io::Error| unwritable(path, &error);
    let file = tempfile::tempfile_in(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    let (mut rows, mut out) = (0, BufWriter::new(file));
    fill(&mut |_, row| {
        let bytes: Vec<u8> = row.iter().flat_map(|element| element.to_le_bytes()).collect();
        rows += 1;
        out.write_all(&bytes).map(|()| true).map_err(failed)
    })?;
    let mut file = out.into_inner().map_err(|error| failed(error.into_error()))?;
    file.rewind().map_err(failed)?;
    npy::write_rows(path, [rows, width], &mut BufReader::new(file))
}
