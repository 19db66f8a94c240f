//! Files that are there as a whole or not at all: written aside, synced, renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// Writes a file through `fill`. A reader finds the old content or the new one, never a part of it, even
/// after a crash.
///
/// # Errors
/// If the folder cannot be written to; what was written aside is removed.
pub(crate) fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    let aside = Path::new(&aside);
    replace(path, aside, fill).map_err(|e| {
        // The first error is the one that matters; there may be nothing to remove.
        let _ = fs::remove_file(aside);
        Error::new(format!("{} cannot be written: {e}", path.display()))
    })
}

fn replace(path: &Path, aside: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(1 << 20, File::create(aside)?);
    fill(&mut writer)?;
    writer.into_inner().map_err(|e| e.into_error())?.sync_all()?;
    fs::rename(aside, path)?;
    sync_folder(path)
}

/// The new name itself must reach the disk. Only Unix lets a folder be opened for that.
fn sync_folder(path: &Path) -> io::Result<()> {
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
