//! A model that is written beside its place, and takes it when it is checked.

use std::fs;
use std::path::{Path, PathBuf};

use lessen_base::{Error, Result, atomic, keep_sources};

use crate::edit::Edits;
use crate::model::Model;
use crate::write;

/// A folder for files that are not finished, which vanishes with it.
struct Aside(PathBuf);

impl Aside {
    /// A new folder beside a file.
    fn beside(path: &Path) -> Result<Aside> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let folder = path.with_file_name(format!("{}{name}.folder", atomic::ASIDE));
        // A killed run may have left it.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).map_err(|error| atomic::unwritable(path, &error))?;
        Ok(Aside(folder))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Model {
    /// Checks that a changed model can be written to `path`, and its elements beside it.
    ///
    /// # Errors
    /// A folder, a link to nothing, and a file that the model itself reads.
    pub fn check_place(&self, path: &Path) -> Result<()> {
        let sources = self.files()?;
        for place in [path.to_path_buf(), write::beside(path)] {
            atomic::check_link(&place)?;
            keep_sources(&place, &sources)?;
            if place.is_dir() {
                let shown = place.display();
                return Err(Error::user(format!("{shown} is a folder; name a file to write")));
            }
        }
        Ok(())
    }
}

/// Writes a model with changes to `path`, and elements of another file to one beside it. Returns the bytes that were
/// written, and what `check` makes of the written file before it has its place. Where that fails, nothing is written.
///
/// # Errors
/// A file that cannot be read or written, or that the model itself reads; those of `check`.
pub fn write_checked<T>(
    model: &Model,
    edits: &Edits<'_>,
    path: &Path,
    check: impl FnOnce(&Path) -> Result<T>,
) -> Result<(u64, T)> {
    model.check_place(path)?;
    let places = [write::beside(path), path.to_path_buf()];
    let aside = Aside::beside(path)?;
    let unfinished = aside.0.join(path.file_name().unwrap_or_default());
    let bytes = write::write(model, edits, &unfinished)?;
    let found = check(&unfinished)?;
    // The model comes last, so that it never names elements that are not there.
    for (from, to) in [write::beside(&unfinished), unfinished].iter().zip(&places) {
        if from.exists() {
            fs::rename(from, to).map_err(|error| atomic::unwritable(to, &error))?;
        }
    }
    atomic::sync_folder(path).map_err(|error| atomic::unwritable(path, &error))?;
    Ok((bytes, found))
}
