//! The folder of a new run until its first step: checks of the folder, and its removal where the run fails at once.

use super::CHECKPOINTS;
use super::run_lock::{LOCK, RunLock};
use lessen_base::atomic::{ASIDE, check_link};
use lessen_base::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Refuses a folder that cannot become that of a new run, as far as reading tells.
///
/// # Errors
/// A folder that holds something, or is read-only, and a link to nothing.
pub fn check_free(root: &Path) -> Result<()> {
    check_link(root)?;
    let shown = root.display();
    if root.exists() && !root.is_dir() {
        return Err(Error::user(format!("{shown} is a file; name a folder with --out")));
    }
    if root.is_dir() && !is_unused(root) {
        return Err(Error::user(format!(
            "the folder {shown} is not empty; go on with its run by --resume, or name another with --out"
        )));
    }
    let nearest = root.ancestors().find(|path| path.exists());
    match nearest.map(|path| (path, fs::metadata(path))) {
        // Also for the administrator, who could write all the same.
        Some((path, Ok(metadata))) if metadata.permissions().readonly() => {
            let path = path.display();
            Err(Error::user(format!(
                "the folder {path} is read-only; name another with --out"
            )))
        }
        _ => Ok(()),
    }
}

/// Claims a folder for a new run: `create` creates it, and it is locked. Dropping the guard removes it again.
///
/// # Errors
/// As [`check_free`] and `create`, and a folder that another process has locked.
pub fn claim(root: &Path, create: impl FnOnce() -> Result<()>) -> Result<(RunLock, NewFolderGuard)> {
    check_free(root)?;
    let guard = NewFolderGuard::new(root);
    create()?;
    // Another process may have begun a run here since the folder was looked at.
    match RunLock::take(root).and_then(|lock| check_free(root).map(|()| lock)) {
        Ok(lock) => Ok((lock, guard)),
        Err(error) => {
            guard.keep();
            Err(error)
        }
    }
}

/// Whether a folder has only the files of a run that was killed before its settings were written.
fn is_unused(root: &Path) -> bool {
    let others = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name());
        names
            .filter(|name| !name.to_string_lossy().starts_with(ASIDE))
            .collect::<Vec<_>>()
    };
    others(root).iter().all(|name| name == CHECKPOINTS || name == LOCK) && others(&root.join(CHECKPOINTS)).is_empty()
}

/// Removes the folder of a new run when dropped, unless [`NewFolderGuard::keep`] was called: a run that fails before
/// its first step leaves no folder.
pub struct NewFolderGuard {
    root: PathBuf,
    /// The folders that did not exist before, innermost first.
    created: Vec<PathBuf>,
    keep: bool,
}

impl NewFolderGuard {
    /// A guard of a folder that is about to be created.
    pub fn new(root: &Path) -> NewFolderGuard {
        let missing = root.ancestors().take_while(|path| !path.exists());
        NewFolderGuard {
            root: root.to_path_buf(),
            created: missing.map(Path::to_path_buf).collect(),
            keep: false,
        }
    }

    /// Keeps the folder.
    pub fn keep(mut self) {
        self.keep = true;
    }
}

impl Drop for NewFolderGuard {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // The folder held nothing of use. An entry that cannot be removed stays: the first error is reported.
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
        }
        for folder in &self.created {
            // Fails where another run has a folder beside.
            let _ = fs::remove_dir(folder);
        }
    }
}
