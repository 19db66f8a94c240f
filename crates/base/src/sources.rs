//! What a command reads is never what it writes.

use std::path::{Path, PathBuf};

use same_file::is_same_file;

use crate::error::{Error, Result};

/// Checks that a file that is to be written is none of the files that are read, by whatever name: another spelling of
/// the path or a link is the same file. A folder that is read stands for all files in it.
///
/// # Errors
/// A file that is read.
pub fn keep_sources(written: &Path, read: &[PathBuf]) -> Result<()> {
    let Ok(content) = written.canonicalize() else {
        return Ok(());
    };
    // A link in a folder belongs to it, wherever it leads.
    let folder = written.parent().filter(|folder| !folder.as_os_str().is_empty());
    let place = folder.unwrap_or(Path::new(".")).canonicalize().unwrap_or_default();
    let is_read = |source: &&PathBuf| match source.canonicalize() {
        Ok(folder) if folder.is_dir() => content.starts_with(&folder) || place.starts_with(&folder),
        _ => is_same_file(written, source).unwrap_or(false),
    };
    match read.iter().find(is_read) {
        Some(source) => {
            let (written, source) = (written.display(), source.display());
            Err(Error::user(format!(
                "{written} would overwrite what is read from {source}; write to another place"
            )))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_is_read_is_known_by_all_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("folder/inner")).unwrap();
        for name in ["file", "other", "folder/inner/file"] {
            fs::write(at(name), name).unwrap();
        }
        fs::hard_link(at("file"), at("hard")).unwrap();
        let mut names = vec!["file", "folder/../file", "hard", "folder/inner/file"];
        if cfg!(unix) {
            #[cfg(unix)]
            std::os::unix::fs::symlink("file", at("soft")).unwrap();
            #[cfg(unix)]
            std::os::unix::fs::symlink("../other", at("folder/away")).unwrap();
            names.extend(["soft", "folder/away"]);
        }
        let read = [at("missing"), at("file"), at("folder")];
        for name in names {
            let refused = keep_sources(&at(name), &read).unwrap_err().to_string();
            assert!(
                refused.contains("would overwrite what is read from"),
                "{name}: {refused}"
            );
        }
        for free in ["other", "new", "folder/new", "missing"] {
            keep_sources(&at(free), &read).unwrap();
        }
    }
}
