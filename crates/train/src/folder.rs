//! The folder of a run.
//!
//! ```text
//! config.toml            the settings, all of them; recipe and budget
//! metrics.jsonl          a line for every step and every evaluation
//! events.out.tfevents.*  the same for TensorBoard
//! checkpoints/step-N/    model, tokenizer and the optimizer's state after N steps; the newest two are kept
//! best/                  model and tokenizer of the best evaluation, its step and score
//! model/                 model and tokenizer at the end
//! report.json, report.md what came out
//! ```

pub use crate::checkpoints::Newest;
use lessen_base::atomic::ASIDE;
use lessen_base::atomic::{recover, unwritable, write_file};
use lessen_base::{Error, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folder of a run that has been made or opened.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Refuses what [`Folder::create`] would refuse, as far as that can be told without writing.
    ///
    /// # Errors
    /// A folder that holds something, or is read-only.
    pub fn check_free(root: &Path) -> Result<()> {
        let shown = root.display();
        if root.exists() && !root.is_dir() {
            return Err(Error::user(format!(
                "{shown} is a file; name a folder with --out"
            )));
        }
        if root.is_dir() && fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Error::user(format!(
                "the folder {shown} is not empty; go on with its run by --resume, or name another with --out"
            )));
        }
        let nearest = root.ancestors().find(|path| path.exists());
        match nearest.map(|path| (path, fs::metadata(path))) {
            // Also for the administrator, who could write all the same.
            Some((path, Ok(metadata))) if metadata.permissions().readonly() => {
                let path = path.display();
                Err(Error::user(format!(
                    "the folder {path} is read-only; name another with --out"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Makes the folder of a new run. An empty folder may be there already.
    ///
    /// # Errors
    /// As [`Folder::check_free`], and a folder that cannot be made or written to.
    pub fn create(root: &Path) -> Result<Folder> {
        let (folder, unbegun) = Folder::create_unbegun(root)?;
        unbegun.begin();
        Ok(folder)
    }

    /// [`Folder::create`] of a folder that goes again unless its run begins.
    pub(crate) fn create_unbegun(root: &Path) -> Result<(Folder, Unbegun)> {
        Folder::check_free(root)?;
        let missing = root.ancestors().take_while(|path| !path.exists());
        let unbegun = Unbegun {
            root: root.to_path_buf(),
            made: missing.map(Path::to_path_buf).collect(),
            begun: false,
        };
        let folder = Folder {
            root: root.to_path_buf(),
        };
        folder.prepare()?;
        Ok((folder, unbegun))
    }

    /// Opens the folder of a run that was begun.
    ///
    /// # Errors
    /// A folder without a run, or that cannot be written to.
    pub fn reopen(root: &Path) -> Result<Folder> {
        let folder = Folder::open(root)?;
        folder.prepare()?;
        recover(&folder.root)?;
        recover(&folder.checkpoints())?;
        Ok(folder)
    }

    /// Opens the folder of a run for reading.
    ///
    /// # Errors
    /// A folder without a run.
    pub fn open(root: &Path) -> Result<Folder> {
        let folder = Folder {
            root: root.to_path_buf(),
        };
        if folder.config().is_file() {
            return Ok(folder);
        }
        let shown = root.display();
        let what = if root.exists() {
            "holds no run (it has no config.toml)"
        } else {
            "does not exist"
        };
        Err(Error::user(format!(
            "the folder {shown} {what}; name the folder that `lessen train` wrote"
        )))
    }

    /// Makes the folders, and tries to write before any time is spent.
    fn prepare(&self) -> Result<()> {
        let checkpoints = self.checkpoints();
        fs::create_dir_all(&checkpoints).map_err(|error| unwritable(&self.root, &error))?;
        for folder in [&self.root, &checkpoints] {
            let probe = folder.join(".tmp-probe");
            let tried = fs::write(&probe, b"probe").and_then(|()| fs::remove_file(&probe));
            tried.map_err(|error| unwritable(folder, &error))?;
        }
        Ok(())
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file of the settings.
    pub fn config(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// The file of the metrics.
    pub fn metrics(&self) -> PathBuf {
        self.root.join("metrics.jsonl")
    }

    /// The best model's folder.
    pub fn best(&self) -> PathBuf {
        self.root.join("best")
    }

    /// The last model's folder.
    pub fn model(&self) -> PathBuf {
        self.root.join("model")
    }

    /// The folder of the checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// Writes a file of the run as a whole.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        write_file(&self.root.join(name), text.as_bytes())
    }

    /// Removes a file or folder of the run, if it is there; at no moment a part of it is left under its name.
    pub(crate) fn remove(&self, path: &Path) -> Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let aside = path.with_file_name(format!("{ASIDE}{name}"));
        let removed = fs::rename(path, &aside).and_then(|()| match aside.is_dir() {
            true => fs::remove_dir_all(&aside),
            false => fs::remove_file(&aside),
        });
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(unwritable(path, &error)),
            _ => Ok(()),
        }
    }

    /// The model to use: the last one, or that of the newest checkpoint of a run that has not ended.
    ///
    /// # Errors
    /// A run that has saved no model.
    pub fn usable_model(&self, best: bool) -> Result<PathBuf> {
        let wanted = if best { self.best() } else { self.model() };
        if wanted.is_dir() {
            return Ok(wanted);
        }
        let shown = self.root.display();
        if best {
            return Err(Error::user(format!(
                "{shown} has no best model; leave out --best to use the last one"
            )));
        }
        let newest = if self.checkpoints().is_dir() {
            self.newest_checkpoint()?.whole
        } else {
            None
        };
        newest.map(|(path, _)| path).ok_or_else(|| {
            Error::user(format!(
                "{shown} has no saved model yet; go on with `lessen train --resume --out {shown}`"
            ))
        })
    }
}

/// The folder of a run that has done no step: when this is dropped, all that was written to it goes, so that a run that
/// fails at once leaves nothing behind.
pub(crate) struct Unbegun {
    root: PathBuf,
    /// The folders that were not there before, innermost first.
    made: Vec<PathBuf>,
    begun: bool,
}

impl Unbegun {
    /// The run has begun: its folder stays.
    pub fn begin(mut self) {
        self.begun = true;
    }
}

impl Drop for Unbegun {
    fn drop(&mut self) {
        if self.begun {
            return;
        }
        // It was empty. What cannot be removed stays: the error that led here is the one to tell.
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = match path.is_dir() {
                true => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            };
        }
        for folder in &self.made {
            // Fails where another run has got a folder beside.
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::DataDigest;
    use lessen_base::atomic::write_folder;

    fn fill(text: &'static str) -> impl FnOnce(&Path) -> Result<()> {
        move |aside| write_file(&aside.join("model.safetensors"), text.as_bytes())
    }

    fn run() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(&dir.path().join("run")).unwrap();
        folder.write("config.toml", "").unwrap();
        (dir, folder)
    }

    #[test]
    fn only_an_empty_folder_becomes_a_new_run() {
        let (dir, folder) = run();
        let error = Folder::create(folder.root()).unwrap_err().to_string();
        assert!(
            error.contains("is not empty; go on with its run by --resume"),
            "{error}"
        );
        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        Folder::create(&empty).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(
            Folder::create(&dir.path().join("file"))
                .unwrap_err()
                .to_string()
                .contains("is a file")
        );
        let locked = dir.path().join("locked");
        fs::create_dir(&locked).unwrap();
        let mut permissions = fs::metadata(&locked).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&locked, permissions).unwrap();
        assert!(
            Folder::create(&locked.join("a/run"))
                .unwrap_err()
                .to_string()
                .contains("locked is read-only")
        );
        assert!(
            Folder::create(&dir.path().join("file/run"))
                .unwrap_err()
                .to_string()
                .contains("cannot be written")
        );
        assert!(
            Folder::reopen(&dir.path().join("none"))
                .unwrap_err()
                .to_string()
                .contains("does not exist")
        );
        assert!(
            Folder::reopen(dir.path())
                .unwrap_err()
                .to_string()
                .contains("holds no run")
        );
    }

    #[test]
    fn a_folder_whose_run_never_begins_goes_with_what_was_made_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("runs/a");
        let (folder, unbegun) = Folder::create_unbegun(&root).unwrap();
        folder.write("config.toml", "").unwrap();
        fs::create_dir(dir.path().join("runs/b")).unwrap();
        drop(unbegun);
        assert!(!root.exists() && dir.path().join("runs/b").exists());
        fs::remove_dir(dir.path().join("runs/b")).unwrap();
        drop(Folder::create_unbegun(&root).unwrap().1);
        assert!(dir.path().join("runs").exists(), "it was there before");
        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        drop(Folder::create_unbegun(&empty).unwrap().1);
        assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
        drop(Folder::create_unbegun(&dir.path().join("new/a")).unwrap().1);
        assert!(!dir.path().join("new").exists());
        Folder::create_unbegun(&root).unwrap().1.begin();
        assert!(root.join("checkpoints").is_dir());
    }

    #[test]
    fn the_last_model_is_used_and_else_that_of_a_checkpoint() {
        let (_dir, folder) = run();
        assert!(
            folder
                .usable_model(false)
                .unwrap_err()
                .to_string()
                .contains("has no saved model yet")
        );
        folder
            .save_checkpoint(5, DataDigest::default(), &[], fill("good"))
            .unwrap();
        assert!(
            folder
                .usable_model(false)
                .unwrap()
                .ends_with("checkpoints/step-5")
        );
        assert!(
            folder
                .usable_model(true)
                .unwrap_err()
                .to_string()
                .contains("has no best model")
        );
        write_folder(&folder.model(), fill("last")).unwrap();
        assert_eq!(folder.usable_model(false).unwrap(), folder.model());
    }
}
