//! Atomic writes: a reader finds the old file or folder or the new one, never a part of it, even after a crash.
//!
//! Content is written beside its destination, synced and renamed. A folder is replaced in two renames (the old one is
//! moved aside, the new one takes its place); [`recover`] repairs what a crash between the two leaves.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The prefix of an unfinished file or folder.
pub const ASIDE: &str = ".tmp-";

/// The prefix of a folder that is being replaced.
const REPLACED: &str = ".old-";

/// Bytes that a file is buffered in while it is written.
pub const BUFFER: usize = 1 << 20;

/// The error of a path that cannot be written to.
pub fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::user(format!(
        "{} cannot be written ({error}); check the disk and the permissions",
        path.display()
    ))
}

/// Refuses a path that is a link to something that does not exist: what is written there would take the place of the
/// link, and not that of what it names.
///
/// # Errors
/// Such a link.
pub fn check_link(path: &Path) -> Result<()> {
    match fs::read_link(path) {
        Ok(target) if !path.exists() => Err(Error::user(format!(
            "{} is a link to {}, which does not exist; remove the link, or name another place",
            path.display(),
            target.display()
        ))),
        _ => Ok(()),
    }
}

fn beside(path: &Path, prefix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{prefix}{name}"))
}

/// The error of a path that was written to: an [`Error`] that the writing passed on, or else that the path cannot be
/// written to.
pub fn error_of(path: &Path, error: io::Error) -> Error {
    error.downcast().unwrap_or_else(|error| unwritable(path, &error))
}

/// Writes a file atomically through `fill`, whose error may be an [`Error`] in an [`io::Error`].
///
/// # Errors
/// The error of `fill`, a folder that cannot be written to, and that of [`check_link`]; the unfinished file is removed.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    check_link(path)?;
    let aside = beside(path, ASIDE);
    replace(path, &aside, fill).map_err(|e| {
        // The first error is reported; the unfinished file may not exist.
        let _ = fs::remove_file(&aside);
        error_of(path, e)
    })
}

fn replace(path: &Path, aside: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(BUFFER, File::create(aside)?);
    fill(&mut writer)?;
    writer.into_inner().map_err(|e| e.into_error())?.sync_all()?;
    fs::rename(aside, path)?;
    sync_folder(path)
}

/// Syncs the parent folder of a path, so that a new name reaches the disk. Only Unix lets a folder be opened for that.
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

/// Writes a file atomically.
///
/// # Errors
/// A folder that cannot be written to, a full disk.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |out| out.write_all(bytes))
}

/// Writes or replaces a folder atomically: `fill` writes into an empty folder that then takes the place of `path`.
///
/// # Errors
/// The error of `fill`; a folder that cannot be written to, a full disk; that of [`check_link`].
pub fn write_folder(path: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    check_link(path)?;
    let aside = beside(path, ASIDE);
    let replaced = beside(path, REPLACED);
    let io = |result: io::Result<()>| result.map_err(|error| unwritable(path, &error));
    io(remove_if_present(&aside))?;
    io(fs::create_dir(&aside))?;
    let swap = || -> io::Result<()> {
        sync_contents(&aside)?;
        remove_if_present(&replaced)?;
        if path.exists() {
            fs::rename(path, &replaced)?;
        }
        fs::rename(&aside, path)?;
        sync_folder(path)?;
        remove_if_present(&replaced)
    };
    let result = fill(&aside).and_then(|()| io(swap()));
    if result.is_err() {
        // The first error is reported; [`recover`] removes what remains.
        let _ = remove_if_present(&aside);
        let _ = restore(path, &replaced);
    }
    result
}

/// Repairs a folder after a crash: restores entries that were moved aside and not replaced, removes unfinished ones.
///
/// # Errors
/// A folder that cannot be read or written to.
pub fn recover(folder: &Path) -> Result<()> {
    let repair = || -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(name) = name.strip_prefix(REPLACED) {
                restore(&folder.join(name), &path)?;
                remove_if_present(&path)?;
            } else if name.starts_with(ASIDE) {
                remove_if_present(&path)?;
            }
        }
        Ok(())
    };
    repair().map_err(|error| unwritable(folder, &error))
}

fn restore(path: &Path, replaced: &Path) -> io::Result<()> {
    if replaced.exists() && !path.exists() {
        fs::rename(replaced, path)
    } else {
        Ok(())
    }
}

fn remove_if_present(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Syncs every file below a folder, and the folders themselves.
fn sync_contents(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sync_contents(&path)?;
        } else {
            File::open(&path)?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn fill(text: &'static str) -> impl FnOnce(&Path) -> Result<()> {
        move |folder| write_file(&folder.join("a.txt"), text.as_bytes())
    }

    #[test]
    fn files_and_folders_are_replaced_and_nothing_is_left_beside() {
        let dir = tempfile::tempdir().unwrap();
        let (file, folder) = (dir.path().join("f"), dir.path().join("d"));
        for text in ["one", "two"] {
            write_file(&file, text.as_bytes()).unwrap();
            write_folder(&folder, fill(text)).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            assert_eq!(fs::read_to_string(folder.join("a.txt")).unwrap(), text);
        }
        assert_eq!(names(dir.path()), ["d", "f"]);
    }

    #[test]
    fn a_failure_leaves_the_old_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("d");
        write_folder(&folder, fill("old")).unwrap();
        let failure = write_folder(&folder, |aside| {
            fs::write(aside.join("a.txt"), "half").unwrap();
            Err(Error::user("the disk is full"))
        });
        assert_eq!(failure, Err(Error::user("the disk is full")));
        assert_eq!(fs::read_to_string(folder.join("a.txt")).unwrap(), "old");
        assert_eq!(names(dir.path()), ["d"]);
        let missing = write_file(&dir.path().join("none/f"), b"x").unwrap_err();
        assert!(missing.to_string().contains("none/f cannot be written"), "{missing}");
        // A file cannot be renamed over a folder: the last step fails after the content was written.
        assert!(write_file(&folder, b"x").is_err());
        assert_eq!(names(dir.path()), ["d"]);
    }

    #[test]
    #[cfg(unix)]
    fn a_link_to_nothing_is_refused_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        for refused in [write_file(&link, b"x"), write_folder(&link, fill("x"))] {
            let refused = refused.unwrap_err().to_string();
            assert!(
                refused.contains("link is a link to nowhere, which does not exist"),
                "{refused}"
            );
        }
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("nowhere"));
        assert_eq!(names(dir.path()), ["link"]);
    }

    #[test]
    fn the_error_of_what_is_written_is_passed_on() {
        let dir = tempfile::tempdir().unwrap();
        let own = Error::user("the tensor `x` is damaged");
        let failed = write_with(&dir.path().join("f"), |_| Err(io::Error::other(own.clone())));
        assert_eq!(failed, Err(own));
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn recover_repairs_a_crash_at_any_moment() {
        let dir = tempfile::tempdir().unwrap();
        let (path, aside, old) = (
            dir.path().join("d"),
            dir.path().join(".tmp-d"),
            dir.path().join(".old-d"),
        );
        // While filling: the old one is still in place.
        write_folder(&path, fill("old")).unwrap();
        fs::create_dir(&aside).unwrap();
        recover(dir.path()).unwrap();
        assert_eq!(names(dir.path()), ["d"]);
        // Between the two renames: the old one is restored.
        fs::rename(&path, &old).unwrap();
        fs::create_dir(&aside).unwrap();
        recover(dir.path()).unwrap();
        assert_eq!(names(dir.path()), ["d"]);
        assert_eq!(fs::read_to_string(path.join("a.txt")).unwrap(), "old");
        // After them: the new one stays.
        fs::rename(&path, &old).unwrap();
        write_folder(&path, fill("new")).unwrap();
        fs::create_dir_all(&old).unwrap();
        recover(dir.path()).unwrap();
        assert_eq!(names(dir.path()), ["d"]);
        assert_eq!(fs::read_to_string(path.join("a.txt")).unwrap(), "new");
    }
}
