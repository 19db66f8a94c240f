//! The lock of a run's folder: one process at a time trains a run. The system releases the lock at the end of the
//! process, however it ends; the file of a process that is killed stays, and is locked by the next one.

use lessen_base::atomic::unwritable;
use lessen_base::{Error, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The file that is locked, which holds the number of the process.
pub const LOCK: &str = ".lock";

/// The lock of a run's folder, until it is dropped.
#[derive(Debug)]
pub struct RunLock {
    path: PathBuf,
    _file: File,
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // Still locked. A file that stays is locked by the next process.
        let _ = fs::remove_file(&self.path);
    }
}

impl RunLock {
    /// Locks a folder. A file system without locks gives none; that is no error.
    ///
    /// # Errors
    /// A run that another process is training, and a folder that cannot be written to.
    pub fn take(root: &Path) -> Result<RunLock> {
        let path = root.join(LOCK);
        let unwritable = |error| unwritable(&path, &error);
        loop {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false);
            let mut file = options.open(&path).map_err(unwritable)?;
            match file.try_lock() {
                // Another process may have removed the file before it was locked.
                Ok(()) if !is_at(&file, &path) => continue,
                Ok(()) => {
                    file.set_len(0).map_err(unwritable)?;
                    write!(file, "{}", std::process::id()).map_err(unwritable)?;
                }
                Err(TryLockError::WouldBlock) => return Err(held(root, &mut file)),
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(unwritable(error)),
            }
            return Ok(RunLock { path, _file: file });
        }
    }
}

/// Whether an open file is the one at a path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let places = file.metadata().map(place).ok().zip(fs::metadata(path).map(place).ok());
    places.is_some_and(|(own, there)| own == there)
}

/// Whether an open file is the one at a path: other systems do not remove a file that is open.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
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
        assert!(!dir.path().join(LOCK).exists());
        // The file of a process that was killed.
        fs::write(dir.path().join(LOCK), "1").unwrap();
        let lock = RunLock::take(dir.path()).unwrap();
        assert_eq!(
            fs::read_to_string(dir.path().join(LOCK)).unwrap(),
            std::process::id().to_string()
        );
        fs::write(dir.path().join(LOCK), "no number").unwrap();
        let sentence = RunLock::take(dir.path()).unwrap_err().to_string();
        assert!(sentence.contains("is being trained by another process; "), "{sentence}");
        drop(lock);
    }
}
