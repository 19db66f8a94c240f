//! Files that are there as a whole or not at all: written aside, synced, renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// What the name of an unfinished file begins with.
pub const ASIDE: &str = ".tmp-";

/// The error of a path that cannot be written to.
pub fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::new(format!(
        "{} cannot be written ({error}); check the disk and the permissions",
        path.display()
    ))
}

/// Writes a file through `fill`. A reader finds the old content or the new one, never a part of it, even
/// after a crash.
///
/// # Errors
/// If the folder cannot be written to; what was written aside is removed.
pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!("{ASIDE}{name}"));
    replace(path, &aside, fill).map_err(|e| {
        // The first error is the one that matters; there may be nothing to remove.
        let _ = fs::remove_file(&aside);
        unwritable(path, &e)
    })
}

fn replace(path: &Path, aside: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(1 << 20, File::create(aside)?);
    fill(&mut writer)?;
    writer.into_inner().map_err(|e| e.into_error())?.sync_all()?;
    fs::rename(aside, path)?;
    sync_folder(path)
}

/// Syncs the folder that a path lies in: the new name itself must reach the disk. Only Unix lets a folder be
/// opened for that.
///
/// # Errors
/// If the folder cannot be read.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if cfg!(unix) => {
            let folder = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            File::open(folder)?.sync_all()
        }
        _ => Ok(()),
    }
}
