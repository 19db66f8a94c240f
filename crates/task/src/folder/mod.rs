//! The folder of a run.
//!
//! ```text
//! config.toml            the settings, all of them, with the recipe's name and the budget under [run]
//! settings.jsonl         which of them were others in earlier steps, where a run went on with others
//! sessions.json          time and memory that it has taken in all of its sessions
//! memory.json            what the training step takes in memory, over its schedule
//! metrics.jsonl          a line for every step and every evaluation
//! events.out.tfevents.*  the same for TensorBoard
//! checkpoints/step-N/    model, tokenizer and the states of training after N steps; the newest ones are kept
//! best/                  model and tokenizer of the best evaluation, its step and score
//! model/                 model and tokenizer at the end
//! report.json, report.md the results
//! confusion.json         the confusion matrix of a classifier's last evaluation
//! labels.json            how well each label was found in the last evaluation, where texts can have several
//! pictures.json          some images of the last evaluation, with labels and predictions
//! diverged.txt           why the run ended, where a loss was no number
//! .lock                  while a process trains the run: locked, and its number
//! ```

pub mod checkpoints;
pub mod history;
pub mod manifest;
pub mod memory;
pub mod metrics;
pub mod names;
mod new_folder;
pub mod pictures;
pub mod run_lock;
pub mod spent;
mod which_model;

use self::checkpoints::{Checkpoints, remove_atomically};
pub use self::new_folder::{NewFolderGuard, check_free, claim};
use self::pictures::PICTURES;
use self::run_lock::RunLock;
pub use self::which_model::WhichModel;
use crate::recipe::optimizer;
use crate::recipe::settings::Settings;
use lessen_base::atomic::{recover, unwritable, write_file};
use lessen_base::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that says why the loss of a run was no number, until the run goes on.
pub const DIVERGED: &str = "diverged.txt";

/// The file with the confusion matrix of the last evaluation.
pub const CONFUSION: &str = "confusion.json";

/// The folder of the checkpoints.
const CHECKPOINTS: &str = "checkpoints";

/// The file with the scores of each label of the last evaluation.
pub const LABELS: &str = "labels.json";

/// The folder of a run that has been created or opened.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
    /// Keeps other processes from training the run; none where the folder is only read.
    _lock: Option<Arc<RunLock>>,
}

impl Folder {
    /// Refuses a folder that cannot become that of a new run, as far as reading tells.
    ///
    /// # Errors
    /// A folder that holds something, or is read-only.
    pub fn check_free(root: &Path) -> Result<()> {
        check_free(root)
    }

    /// Creates the folder of a new run, or takes an empty one, and locks it. Dropping the guard removes it again.
    ///
    /// # Errors
    /// As [`Folder::check_free`], and a folder that cannot be created or written to, or that another process has
    /// locked.
    pub fn create(root: &Path) -> Result<(Folder, NewFolderGuard)> {
        let folder = Folder::unlocked(root);
        let (lock, guard) = claim(root, || folder.check_writable())?;
        Ok((folder.locked(lock), guard))
    }

    fn unlocked(root: &Path) -> Folder {
        Folder {
            root: root.to_path_buf(),
            _lock: None,
        }
    }

    fn locked(self, lock: RunLock) -> Folder {
        Folder {
            _lock: Some(Arc::new(lock)),
            ..self
        }
    }

    /// Opens the folder of a run to resume, locks it, and repairs it after a crash.
    ///
    /// # Errors
    /// A folder without a run, that cannot be written to, or that another process has locked.
    pub fn reopen(root: &Path) -> Result<Folder> {
        let folder = Folder::open(root)?;
        folder.check_writable()?;
        let folder = folder.locked(RunLock::take(root)?);
        recover(&folder.root)?;
        folder.checkpoints().recover()?;
        Ok(folder)
    }

    /// Opens the folder of a run for reading.
    ///
    /// # Errors
    /// A folder without a run.
    pub fn open(root: &Path) -> Result<Folder> {
        let folder = Folder::unlocked(root);
        if folder.config().is_file() {
            return Ok(folder);
        }
        let shown = root.display();
        let what = if root.exists() {
            "holds no run (it has no config.toml)"
        } else {
            "does not exist"
        };
        Err(Error::user(format!(
            "the folder {shown} {what}; name the folder that `lessen train` wrote"
        )))
    }

    /// Creates the folders, and tries to write before any time is spent.
    fn check_writable(&self) -> Result<()> {
        let checkpoints = self.root.join(CHECKPOINTS);
        fs::create_dir_all(&checkpoints).map_err(|error| unwritable(&self.root, &error))?;
        for folder in [&self.root, &checkpoints] {
            let probe = folder.join(".tmp-probe");
            let tried = fs::write(&probe, b"probe").and_then(|()| fs::remove_file(&probe));
            tried.map_err(|error| unwritable(folder, &error))?;
        }
        Ok(())
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file of the settings.
    pub fn config(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// The settings of the run.
    ///
    /// # Errors
    /// A `config.toml` that cannot be read, has a mistake, or is of another version of Lessen.
    pub fn settings(&self) -> Result<Settings> {
        let shown = self.config().display().to_string();
        let text = fs::read_to_string(self.config())
            .map_err(|error| Error::user(format!("{shown} cannot be read ({error}); restore the file")))?;
        let mut settings = Settings::parse(&text, &shown)?;
        if settings.phases.is_empty() {
            // Runs of earlier versions name the keys of all optimizers.
            optimizer::leave_out_unread(&mut settings.values);
        }
        if settings.text("run.recipe").is_none() {
            return Err(Error::user(format!(
                "{shown} has no run.recipe, so another version of Lessen wrote it; train again with this version"
            )));
        }
        Ok(settings)
    }

    /// Writes `config.toml`.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn write_settings(&self, settings: &Settings) -> Result<()> {
        write_file(&self.config(), settings.to_toml().as_bytes())
    }

    /// The file of the history of settings.
    pub fn history(&self) -> PathBuf {
        self.root.join("settings.jsonl")
    }

    /// The file of the time and memory of all sessions.
    pub fn sessions(&self) -> PathBuf {
        self.root.join("sessions.json")
    }

    /// The file of the metrics.
    pub fn metrics(&self) -> PathBuf {
        self.root.join("metrics.jsonl")
    }

    /// The best model's folder.
    pub fn best(&self) -> PathBuf {
        self.root.join("best")
    }

    /// The file of the report for programs.
    pub fn report(&self) -> PathBuf {
        self.root.join("report.json")
    }

    /// The folder of the model that the run results in: the last one, or the best one where a score decides.
    pub fn model(&self) -> PathBuf {
        self.root.join("model")
    }

    /// The checkpoints.
    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::new(self.root.join(CHECKPOINTS))
    }

    /// Writes a file of the run atomically.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        write_file(&self.root.join(name), text.as_bytes())
    }

    /// Removes the last model, the report and the checkpoints after `step` steps, before a run resumes from there.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn remove_after(&self, step: u64) -> Result<()> {
        let files =
            ["report.json", "report.md", CONFUSION, LABELS, PICTURES, DIVERGED].map(|name| self.root.join(name));
        for path in files.into_iter().chain([self.model()]) {
            remove_atomically(&path)?;
        }
        self.checkpoints().remove_after(step)
    }
}

#[cfg(test)]
mod tests;
