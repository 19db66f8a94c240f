//! The result of a choice takes its place: the files of a candidate's run become those of the folder of the result, so
//! that every command takes that folder as it takes any run.

use lessen_base::atomic::{sync_folder, unwritable};
use lessen_base::{Error, Result};
use lessen_task::folder::run_lock::LOCK;
use std::fs;
use std::path::Path;

/// Moves the files of the run of a candidate from its folder to the folder around it, in an order in which a second
/// call finishes what a first one has begun.
///
/// # Errors
/// A folder that cannot be written to.
pub(super) fn place(folder: &Path, candidate: &str) -> Result<()> {
    let from = folder.join(candidate);
    if !from.is_dir() {
        return Ok(());
    }
    let failed = |error: std::io::Error| unwritable(folder, &error);
    let mut names = Vec::new();
    for entry in fs::read_dir(&from).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name());
    }
    names.sort();
    for name in names {
        let (old, new) = (from.join(&name), folder.join(&name));
        if name == LOCK {
            fs::remove_file(&old).map_err(failed)?;
        } else if new.exists() {
            return Err(Error::user(format!(
                "{} and {} are both there, and only one can be; remove the one that you have added",
                old.display(),
                new.display()
            )));
        } else {
            fs::rename(&old, &new).map_err(failed)?;
        }
    }
    fs::remove_dir(&from).map_err(failed)?;
    sync_folder(folder).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_that_was_ended_midway_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("linear");
        fs::create_dir_all(run.join("model")).unwrap();
        fs::write(run.join("model/a"), "1").unwrap();
        // This one was moved before.
        fs::write(dir.path().join("config.toml"), "2").unwrap();
        fs::write(run.join("report.json"), "3").unwrap();
        fs::write(run.join(LOCK), "4").unwrap();
        place(dir.path(), "linear").unwrap();
        place(dir.path(), "linear").unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(
            [read("model/a"), read("config.toml"), read("report.json")],
            ["1", "2", "3"]
        );
        assert!(!run.exists() && !dir.path().join(LOCK).exists());
        fs::create_dir(&run).unwrap();
        fs::write(run.join("config.toml"), "5").unwrap();
        let sentence = place(dir.path(), "linear").unwrap_err().to_string();
        assert!(sentence.contains("are both there"), "{sentence}");
    }
}
