//! The metrics of a run as JSON lines: one object for each step and each evaluation.

use lessen_base::atomic::write_with;
use lessen_base::watcher::{self, Event};
use lessen_base::{Error, Result};
use lessen_train::events::AppendedFile;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// The writer of `metrics.jsonl`. Every line is handed to the system at once, so that a killed run loses none.
pub struct Metrics {
    file: AppendedFile,
}

impl Metrics {
    /// Opens the file for a run that goes on after `done` steps: lines of later steps, and a last line without end,
    /// are cut off.
    ///
    /// # Errors
    /// A file that cannot be read or written to.
    pub fn open(path: &Path, done: u64) -> Result<Metrics> {
        if path.exists() {
            let is_kept = |line: Option<Value>| line.as_ref().and_then(step_of).is_some_and(|step| step <= done);
            let mut reader = BufReader::new(File::open(path).map_err(|error| unreadable(path, &error))?);
            write_with(path, |out| {
                for_each_line(&mut reader, |text, line| {
                    if is_kept(line) {
                        out.write_all(text).and_then(|()| out.write_all(b"\n"))
                    } else {
                        Ok(())
                    }
                })
            })?;
        }
        let file = AppendedFile::open(path, OpenOptions::new().append(true).create(true))?;
        Ok(Metrics { file })
    }

    /// Adds a line, and tells the watcher its numbers. The object has a key `step`.
    ///
    /// # Errors
    /// A file that cannot be written to.
    pub fn write(&mut self, object: &Value) -> Result<()> {
        self.file.add(format!("{object}\n").as_bytes())?;
        let fields = object.as_object().into_iter().flatten();
        let numbers = fields.filter_map(|(name, value)| Some((name.as_str(), value.as_f64()?)));
        let numbers: Vec<(&str, f64)> = numbers.filter(|(name, _)| *name != "step").collect();
        let step = step_of(object).unwrap_or(0);
        watcher::tell(&Event::Numbers {
            step,
            numbers: &numbers,
        });
        Ok(())
    }

    /// Waits until the lines are on the disk.
    ///
    /// # Errors
    /// A disk that is full or fails.
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }
}

/// The objects of a file of JSON lines; lines that are none are left out.
///
/// # Errors
/// A file that cannot be read.
pub fn lines(path: &Path) -> Result<Vec<Value>> {
    let mut lines = Vec::new();
    visit(path, |line| lines.push(line))?;
    Ok(lines)
}

/// Hands the objects of a file of JSON lines over, one after another, so that a long file takes no memory. Returns the
/// numbers of the lines, from 1, that are no objects, as the last one of a run that was killed may be.
///
/// # Errors
/// A file that cannot be read.
pub fn visit(path: &Path, mut take: impl FnMut(Value)) -> Result<Vec<u64>> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let (mut number, mut broken) = (0, Vec::new());
    let each = |_: &[u8], line: Option<Value>| {
        number += 1;
        match line {
            Some(line) => take(line),
            None => broken.push(number),
        }
        Ok(())
    };
    for_each_line(&mut BufReader::new(file), each).map_err(|error| unreadable(path, &error))?;
    Ok(broken)
}

/// Shows the text of each line of JSON lines, and its object; none where it is no object.
fn for_each_line(
    reader: &mut dyn BufRead,
    mut visit: impl FnMut(&[u8], Option<Value>) -> io::Result<()>,
) -> io::Result<()> {
    let mut text = Vec::new();
    while reader.read_until(b'\n', &mut text)? > 0 {
        let own = text.strip_suffix(b"\n").unwrap_or(&text);
        let line = serde_json::from_slice(own).ok();
        visit(own, line.filter(Value::is_object))?;
        text.clear();
    }
    Ok(())
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::user(format!(
        "{} cannot be read ({error}); check that it is there",
        path.display()
    ))
}

fn step_of(line: &Value) -> Option<u64> {
    line.get("step")?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    #[test]
    fn a_resumed_run_goes_on_after_its_step() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut metrics = Metrics::open(&path, 0).unwrap();
        for step in 1..=5 {
            metrics.write(&json!({ "step": step, "loss": 0.5 })).unwrap();
        }
        metrics.write(&json!({ "step": 5, "dev_loss": 1.5 })).unwrap();
        drop(metrics);
        // Killed in the middle of a line.
        let mut whole = fs::read(&path).unwrap();
        whole.extend(b"{\"step\": 3, \"lo");
        fs::write(&path, whole).unwrap();

        let mut metrics = Metrics::open(&path, 3).unwrap();
        metrics.write(&json!({ "step": 4, "loss": 0.25 })).unwrap();
        metrics.sync().unwrap();
        let found: Vec<(u64, f64)> = lines(&path)
            .unwrap()
            .iter()
            .map(|line| (step_of(line).unwrap(), line["loss"].as_f64().unwrap()))
            .collect();
        assert_eq!(found, [(1, 0.5), (2, 0.5), (3, 0.5), (4, 0.25)]);
    }

    #[test]
    fn losses_survive_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let (loss, score) = (0.1f32 + 0.2, 787.0 / 872.0);
        Metrics::open(&path, 0)
            .unwrap()
            .write(&json!({ "step": 1, "loss": loss, "dev_f1": score }))
            .unwrap();
        let written = fs::read(&path).unwrap();
        let line = &lines(&path).unwrap()[0];
        assert_eq!(line["loss"].as_f64().unwrap() as f32, loss);
        assert_eq!(line["dev_f1"].as_f64().unwrap(), score);
        // Also when a run goes on, which writes the file again.
        Metrics::open(&path, 1).unwrap();
        assert_eq!(fs::read(&path).unwrap(), written);
    }
}
