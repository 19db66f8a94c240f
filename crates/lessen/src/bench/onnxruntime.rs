//! ONNX Runtime beside Lessen, where Python has it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use lessen_base::{Error, Result};
use lessen_data::arrays::{Array, npz};
use tempfile::TempDir;

/// The program that Python runs.
const SCRIPT: &str = include_str!("onnxruntime.py");

/// A model that ONNX Runtime has loaded, in a process of its own.
pub struct OnnxRuntime {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    version: String,
    /// Holds the inputs.
    _folder: TempDir,
}

/// Whether ONNX Runtime runs a model.
pub enum Rival {
    /// It does.
    Runs(OnnxRuntime),
    /// It does not, for this reason.
    Absent(String),
}

impl OnnxRuntime {
    /// Loads a model with these inputs in ONNX Runtime, in the Python that `$PYTHON` says, or `python3`, and runs it
    /// once.
    ///
    /// # Errors
    /// A folder for temporary files that cannot be written to.
    pub fn start(model: &Path, inputs: &[(String, Array)], threads: usize) -> Result<Rival> {
        let unwritable = |error: std::io::Error| Error::user(format!("no temporary folder can be made: {error}"));
        let folder = tempfile::tempdir().map_err(unwritable)?;
        let path = folder.path().join("inputs.npz");
        npz::write(&path, inputs)?;
        let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
        let mut command = Command::new(&python);
        command
            .args(["-c", SCRIPT])
            .arg(model)
            .arg(&path)
            .arg(threads.to_string());
        let pipes = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = match pipes.spawn() {
            Ok(process) => process,
            Err(error) => {
                let python = python.display();
                return Ok(Rival::Absent(format!("{python} cannot be started: {error}")));
            }
        };
        let (requests, answers) = (process.stdin.take(), process.stdout.take());
        let (Some(requests), Some(answers)) = (requests, answers) else {
            return Err(Error::internal("a process that is started with pipes has none"));
        };
        let mut rival = OnnxRuntime {
            process,
            requests,
            answers: BufReader::new(answers),
            version: String::new(),
            _folder: folder,
        };
        let answer = rival.answer();
        Ok(match answer.split_once(' ') {
            Some(("ready", version)) => {
                rival.version = version.to_string();
                Rival::Runs(rival)
            }
            Some(("missing", _)) => Rival::Absent(format!("{} has no onnxruntime", python.display())),
            Some(("refused", why)) => Rival::Absent(format!("it does not run the model: {why}")),
            _ => Rival::Absent(format!("{} ended without an answer", python.display())),
        })
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Milliseconds of a run.
    ///
    /// # Errors
    /// A process that has ended.
    pub fn run(&mut self) -> Result<f64> {
        let asked = self.requests.write_all(b"run\n").and_then(|()| self.requests.flush());
        let answer = asked.ok().and_then(|()| self.answer().parse().ok());
        answer.ok_or_else(|| Error::user("ONNX Runtime ended during a run; leave it out with --alone"))
    }

    /// The next line of its output; nothing at the end.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(_) => line.trim_end().to_string(),
            Err(_) => String::new(),
        }
    }
}

impl Drop for OnnxRuntime {
    fn drop(&mut self) {
        // A process that has ended already is no failure.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
