//! Files to which a long job adds, on a disk that may be full for a while.

use lessen_base::atomic::unwritable;
use lessen_base::watcher::{self, Event};
use lessen_base::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Most bytes that wait for room on the disk.
const MOST: usize = 4 << 20;

/// A file to which bytes are added. They are handed to the system at once, so that a killed process loses none. Where
/// the disk has no room, they wait in memory and go before later ones; a warning says so once.
pub struct AppendedFile {
    file: File,
    path: PathBuf,
    waiting: Vec<u8>,
}

impl AppendedFile {
    /// Opens a file with these options, which allow to write.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<AppendedFile> {
        let file = options.open(path).map_err(|error| unwritable(path, &error))?;
        Ok(AppendedFile {
            file,
            path: path.to_path_buf(),
            waiting: Vec::new(),
        })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// A file that cannot be written to for another reason than a full disk, and 4 MiB that wait for room.
    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let had_room = self.waiting.is_empty();
        self.waiting.extend_from_slice(bytes);
        match self.write() {
            Err((error, true)) if self.waiting.len() <= MOST => {
                if had_room {
                    let sentence = format!("warning: what belongs into it waits until there is room: {error}");
                    watcher::tell(&Event::Warning(&sentence));
                }
                Ok(())
            }
            written => written.map_err(|(error, _)| error),
        }
    }

    /// Writes what waits, and waits until all of it is on the disk.
    ///
    /// # Errors
    /// A disk that is full or fails.
    pub fn sync(&mut self) -> Result<()> {
        self.write().map_err(|(error, _)| error)?;
        self.file.sync_all().map_err(|error| unwritable(&self.path, &error))
    }

    /// Writes what waits; the error, and whether it is that of a full disk.
    fn write(&mut self) -> std::result::Result<(), (Error, bool)> {
        while !self.waiting.is_empty() {
            match self.file.write(&self.waiting) {
                Ok(written @ 1..) => drop(self.waiting.drain(..written)),
                Ok(0) => return Err((unwritable(&self.path, &ErrorKind::WriteZero.into()), true)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
                    return Err((unwritable(&self.path, &error), is_full));
                }
            }
        }
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn bytes_wait_while_the_disk_is_full_but_not_for_ever() {
        let mut file = AppendedFile::open(Path::new("/dev/full"), OpenOptions::new().write(true)).unwrap();
        file.add(b"one\n").unwrap();
        file.add(b"two\n").unwrap();
        assert_eq!(file.waiting, b"one\ntwo\n");
        assert!(
            file.sync()
                .unwrap_err()
                .to_string()
                .contains("/dev/full cannot be written")
        );
        assert!(file.add(&vec![0; MOST]).is_err());

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        file.file = File::create(&path).unwrap();
        file.waiting.truncate(8);
        file.add(b"three\n").unwrap();
        file.sync().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\nthree\n");
    }
}
