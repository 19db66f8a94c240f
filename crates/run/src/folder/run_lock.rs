//! The lock of a run's folder: one process at a time trains a run. The system releases the lock at the end of the
//! process, however it ends.

use lessen_base::atomic::unwritable;
use lessen_base::{Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

/// The file that is locked. It stays in the folder and holds the number of the process that trained last.
pub(crate) const LOCK: &str = ".lock";

/// The lock of a run's folder, until it is dropped.
#[derive(Debug)]
pub(crate) struct RunLock {
    _file: File,
}

impl RunLock {
    /// Locks a folder. A file system without locks gives none; that is no error.
    ///
    /// # Errors
    /// A run that another process is training, and a folder that cannot be written to.
    pub(crate) fn take(root: &Path) -> Result<RunLock> {
        let path = root.join(LOCK);
        let unwritable = |error| unwritable(&path, &error);
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(unwritable)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0).map_err(unwritable)?;
                write!(file, "{}", std::process::id()).map_err(unwritable)?;
            }
            Err(TryLockError::WouldBlock) => return Err(held(root, &mut file)),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(unwritable(error)),
        }
        Ok(RunLock { _file: file })
    }
}

/// The error of a folder that another process has locked.
fn held(root: &Path, file: &mut File) -> Error {
    let mut text = String::new();
    let number = file
        .read_to_string(&mut text)
        .ok()
        .and_then(|_| text.trim().parse().ok());
    let process = number.map_or("another process".to_string(), |number: u32| format!("process {number}"));
    Error::user(format!(
        "the run {} is being trained by {process}; wait for its end, or name another folder with --out",
        root.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_locked_until_the_lock_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let lock = RunLock::take(dir.path()).unwrap();
        let sentence = RunLock::take(dir.path()).unwrap_err().to_string();
        let process = format!("is being trained by process {}; ", std::process::id());
        assert!(sentence.contains(&process), "{sentence}");
        drop(lock);
        let lock = RunLock::take(dir.path()).unwrap();
        assert_eq!(
            std::fs::read_to_string(dir.path().join(LOCK)).unwrap(),
            std::process::id().to_string()
        );
        std::fs::write(dir.path().join(LOCK), "no number").unwrap();
        let sentence = RunLock::take(dir.path()).unwrap_err().to_string();
        assert!(sentence.contains("is being trained by another process; "), "{sentence}");
        drop(lock);
    }
}
