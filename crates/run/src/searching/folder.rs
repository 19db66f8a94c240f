//! The folder of a search.
//!
//! ```text
//! search.toml        the settings of the recipe, all of them
//! manifest.json      data, classes, epochs
//! architecture.json  the network that was found, block by block
//! recipe.toml        a recipe that trains it: `lessen train FOLDER/recipe.toml --data DIR`
//! choices.json       the probability of every possibility of every block
//! report.json        what the network costs, in numbers; report.md says it in words
//! curves.svg         losses and costs over the epochs
//! metrics.jsonl      the numbers of each epoch; events.out.tfevents.* has them for TensorBoard
//! sessions.json      time and memory of all sessions
//! checkpoint/        the state after an epoch, from which a killed search is resumed
//! .lock              while a process works on it
//! ```

use crate::folder::NewFolderGuard;
use crate::folder::check_free;
use crate::folder::run_lock::RunLock;
use crate::recipe::settings::Settings;
use lessen_base::atomic::{recover, unwritable, write_file};
use lessen_base::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file of the settings.
const SETTINGS: &str = "search.toml";
/// The file of the manifest.
const MANIFEST: &str = "manifest.json";
/// The file of the network.
pub(super) const ARCHITECTURE: &str = "architecture.json";
/// The file of the report.
const REPORT: &str = "report.json";

/// The folder of a search that has been created or opened.
#[derive(Clone, Debug)]
pub struct SearchFolder {
    root: PathBuf,
    /// Keeps other processes from it; none where the folder is only read.
    _lock: Option<Arc<RunLock>>,
}

impl SearchFolder {
    /// Creates the folder of a new search, or takes an empty one, and locks it. Dropping the guard removes it again.
    ///
    /// # Errors
    /// A folder that holds something, that cannot be created or written to, or that another process has locked.
    pub(super) fn create(root: &Path) -> Result<(SearchFolder, NewFolderGuard)> {
        check_free(root)?;
        let guard = NewFolderGuard::new(root);
        fs::create_dir_all(root).map_err(|error| unwritable(root, &error))?;
        // Another process may have begun here since the folder was looked at.
        match RunLock::take(root).and_then(|lock| check_free(root).map(|()| lock)) {
            Ok(lock) => Ok((SearchFolder::of(root, Some(lock)), guard)),
            Err(error) => {
                guard.keep();
                Err(error)
            }
        }
    }

    fn of(root: &Path, lock: Option<RunLock>) -> SearchFolder {
        SearchFolder {
            root: root.to_path_buf(),
            _lock: lock.map(Arc::new),
        }
    }

    /// Opens a folder for reading.
    ///
    /// # Errors
    /// A folder without a search.
    pub fn open(root: &Path) -> Result<SearchFolder> {
        if root.join(SETTINGS).is_file() {
            return Ok(SearchFolder::of(root, None));
        }
        let what = if root.exists() {
            format!("holds no search (it has no {SETTINGS})")
        } else {
            "does not exist".to_string()
        };
        Err(Error::user(format!(
            "the folder {} {what}; name the folder that `lessen search` wrote",
            root.display()
        )))
    }

    /// Opens the folder of a search to resume, locks it, and repairs it after a crash.
    ///
    /// # Errors
    /// A folder without a search, that cannot be written to, or that another process has locked.
    pub(super) fn reopen(root: &Path) -> Result<SearchFolder> {
        SearchFolder::open(root)?;
        let folder = SearchFolder::of(root, Some(RunLock::take(root)?));
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
        let path = self.root.join(SETTINGS);
        let shown = path.display().to_string();
        let text = fs::read_to_string(&path)
            .map_err(|error| Error::user(format!("{shown} cannot be read ({error}); restore the file")))?;
        Settings::parse(&text, &shown)
    }

    /// Writes the settings.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write_settings(&self, settings: &Settings) -> Result<()> {
        self.write(SETTINGS, &settings.to_toml())
    }

    /// Writes a file of text.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        write_file(&self.root.join(name), text.as_bytes())
    }

    /// The file of the manifest.
    pub(super) fn manifest(&self) -> PathBuf {
        self.root.join(MANIFEST)
    }

    /// The file of the report.
    pub(super) fn report(&self) -> PathBuf {
        self.root.join(REPORT)
    }

    /// The folder of the checkpoint.
    pub(super) fn checkpoint(&self) -> PathBuf {
        self.root.join("checkpoint")
    }

    /// The file of the numbers of each epoch.
    pub(super) fn metrics(&self) -> PathBuf {
        self.root.join("metrics.jsonl")
    }

    /// The file of the time and memory of all sessions.
    pub(super) fn sessions(&self) -> PathBuf {
        self.root.join("sessions.json")
    }
}
