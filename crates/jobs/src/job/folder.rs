//! The folder of a job, as far as all jobs have it.
//!
//! ```text
//! condense.toml, search.toml  the settings of the recipe, all of them; which file it is tells the job
//! manifest.json               data, classes, how far it has come
//! metrics.jsonl               the numbers of its course; events.out.tfevents.* has them for TensorBoard
//! sessions.json               time and memory of all sessions
//! checkpoint/                 the state from which a killed job is resumed
//! .lock                       while a process works on it
//! ```

use super::JobKind;
use crate::schema::SCHEMA;
use lessen_base::atomic::{recover, unwritable, write_file};
use lessen_base::{Error, Result};
use lessen_task::folder::run_lock::RunLock;
use lessen_task::folder::{NewFolderGuard, claim};
use lessen_task::recipe::settings::Settings;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of a job that has been created or opened.
#[derive(Clone, Debug)]
pub struct JobFolder {
    kind: JobKind,
    root: PathBuf,
    /// Keeps other processes from it; none where the folder is only read.
    _lock: Option<Arc<RunLock>>,
}

impl JobFolder {
    /// Creates the folder of a new job, or takes an empty one, and locks it. Dropping the guard removes it again.
    ///
    /// # Errors
    /// A folder that holds something, that cannot be created or written to, or that another process has locked.
    pub(crate) fn create(kind: JobKind, root: &Path) -> Result<(JobFolder, NewFolderGuard)> {
        let create = || fs::create_dir_all(root).map_err(|error| unwritable(root, &error));
        let (lock, guard) = claim(root, create)?;
        Ok((JobFolder::of(kind, root, Some(lock)), guard))
    }

    fn of(kind: JobKind, root: &Path, lock: Option<RunLock>) -> JobFolder {
        JobFolder {
            kind,
            root: root.to_path_buf(),
            _lock: lock.map(Arc::new),
        }
    }

    /// Whether a folder is that of such a job.
    pub fn is_at(kind: JobKind, root: &Path) -> bool {
        root.join(kind.settings).is_file()
    }

    /// Opens a folder for reading.
    ///
    /// # Errors
    /// A folder without such a job.
    pub fn open(kind: JobKind, root: &Path) -> Result<JobFolder> {
        if JobFolder::is_at(kind, root) {
            return Ok(JobFolder::of(kind, root, None));
        }
        let what = if root.exists() {
            format!("holds no {} (it has no {})", kind.noun, kind.settings)
        } else {
            "does not exist".to_string()
        };
        Err(Error::user(format!(
            "the folder {} {what}; name the folder that `{}` wrote",
            root.display(),
            kind.command
        )))
    }

    /// Opens the folder of a job to resume, locks it, and repairs it after a crash.
    ///
    /// # Errors
    /// A folder without such a job, that cannot be written to, or that another process has locked.
    pub(crate) fn reopen(kind: JobKind, root: &Path) -> Result<JobFolder> {
        JobFolder::open(kind, root)?;
        let folder = JobFolder::of(kind, root, Some(RunLock::take(root)?));
        recover(root)?;
        Ok(folder)
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The settings of the recipe.
    ///
    /// # Errors
    /// A file that cannot be read or has a mistake.
    pub fn settings(&self) -> Result<Settings> {
        let path = self.root.join(self.kind.settings);
        let shown = path.display().to_string();
        let text = fs::read_to_string(&path)
            .map_err(|error| Error::user(format!("{shown} cannot be read ({error}); restore the file")))?;
        SCHEMA.parse(&text, &shown)
    }

    /// Writes the settings.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(crate) fn write_settings(&self, settings: &Settings) -> Result<()> {
        self.write(self.kind.settings, settings.to_toml().as_bytes())
    }

    /// Writes a file.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        write_file(&self.root.join(name), bytes)
    }

    /// The file of the manifest.
    pub(crate) fn manifest_file(&self) -> PathBuf {
        self.root.join("manifest.json")
    }

    /// The folder of the checkpoint.
    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.root.join("checkpoint")
    }

    /// The file of the numbers of its course.
    pub(crate) fn metrics(&self) -> PathBuf {
        self.root.join("metrics.jsonl")
    }

    /// The file of the time and memory of all sessions.
    pub(crate) fn sessions(&self) -> PathBuf {
        self.root.join("sessions.json")
    }
}
