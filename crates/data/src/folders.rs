//! Folders within folders, which links can lead back to.

use std::fs;
use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use crate::files::unreadable;

/// Calls `each` for every file in a folder and the folders in it, by name, hidden ones left out.
///
/// # Errors
/// A folder that cannot be read, a link to a folder that it lies in, and the errors of `each`.
pub(crate) fn for_each_file(dir: &Path, each: &mut dyn FnMut(PathBuf) -> Result<()>) -> Result<()> {
    walk(dir, &mut Vec::new(), each)
}

/// The folders in a folder, by name, hidden ones left out.
///
/// # Errors
/// A folder that cannot be read, and a link to a folder that it lies in.
pub(crate) fn in_folder(dir: &Path) -> Result<Vec<PathBuf>> {
    let folders: Vec<PathBuf> = listed(dir)?.into_iter().filter(|path| path.is_dir()).collect();
    if !folders.is_empty() {
        let own = [real(dir)?];
        folders
            .iter()
            .try_for_each(|folder| check(folder, &real(folder)?, &own))?;
    }
    Ok(folders)
}

/// The files and folders in a folder, by name, without hidden ones.
pub(crate) fn listed(dir: &Path) -> Result<Vec<PathBuf>> {
    entries(dir, false)
}

/// The hidden files and folders in a folder, by name.
pub(crate) fn hidden_in(dir: &Path) -> Result<Vec<PathBuf>> {
    entries(dir, true)
}

fn entries(dir: &Path, are_hidden: bool) -> Result<Vec<PathBuf>> {
    let unreadable = |error: std::io::Error| {
        Error::user(format!(
            "the folder {} cannot be read ({error}); check its permissions",
            dir.display()
        ))
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.file_name().unwrap_or_default().to_string_lossy().starts_with('.') == are_hidden {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// `within` are the real places of the folders around.
fn walk(dir: &Path, within: &mut Vec<PathBuf>, each: &mut dyn FnMut(PathBuf) -> Result<()>) -> Result<()> {
    let own = real(dir)?;
    check(dir, &own, within)?;
    within.push(own);
    for path in listed(dir)? {
        if path.is_dir() {
            walk(&path, within, each)?;
        } else {
            each(path)?;
        }
    }
    within.pop();
    Ok(())
}

/// Refuses a folder whose real place holds one of the folders around it.
fn check(dir: &Path, place: &Path, within: &[PathBuf]) -> Result<()> {
    if !within.iter().any(|around| around.starts_with(place)) {
        return Ok(());
    }
    Err(Error::user(format!(
        "{} is a link to {}, a folder that it lies in; take the link away",
        dir.display(),
        place.display()
    )))
}

/// The place of a folder without links.
fn real(dir: &Path) -> Result<PathBuf> {
    dir.canonicalize().map_err(|error| unreadable(dir, &error))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_to_folders_above_are_refused_and_others_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for folder in ["data/a/deep", "data/b", "other"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in ["data/a/deep/1", "data/b/2", "other/3", "data/.hidden"] {
            fs::write(at(file), "").unwrap();
        }
        symlink(at("other"), at("data/c")).unwrap();
        let found = |root: &str| {
            let mut files = Vec::new();
            for_each_file(&at(root), &mut |path| {
                files.push(path.strip_prefix(at(root)).unwrap().display().to_string());
                Ok(())
            })
            .map(|()| files)
            .map_err(|error| error.to_string())
        };
        assert_eq!(found("data").unwrap(), ["a/deep/1", "b/2", "c/3"]);
        assert_eq!(in_folder(&at("data")).unwrap().len(), 3);
        // To the folder itself, to one above, and by way of each other.
        for (target, link) in [
            ("data", "data/loop"),
            ("data", "data/a/deep/loop"),
            (".", "data/b/loop"),
            ("data/a", "data/a/deep/loop"),
            ("data/b", "other/loop"),
        ] {
            symlink(at(target).canonicalize().unwrap(), at(link)).unwrap();
            if target == "data/b" {
                symlink(at("other"), at("data/b/other")).unwrap();
            }
            let error = found("data").unwrap_err();
            assert!(
                error.contains(" is a link to ") && error.ends_with("take the link away"),
                "{error}"
            );
            fs::remove_file(at(link)).unwrap();
        }
        fs::remove_file(at("data/b/other")).unwrap();
        symlink(at("data"), at("data/loop")).unwrap();
        assert!(
            in_folder(&at("data"))
                .unwrap_err()
                .to_string()
                .contains("/data/loop is a link to ")
        );
        fs::remove_file(at("data/loop")).unwrap();
        assert_eq!(found("data").unwrap().len(), 3);
    }
}
