//! The folder of a run.
//!
//! ```text
//! config.toml            the settings, all of them
//! metrics.jsonl          a line for every step and every evaluation
//! events.out.tfevents.*  the same for TensorBoard
//! checkpoints/step-N/    model, tokenizer and the optimizer's state after N steps; the newest two are kept
//! best/                  model and tokenizer of the best evaluation
//! model/                 model and tokenizer at the end
//! report.json, report.md what came out
//! ```

use crate::durable::{recover, unwritable, write_file, write_folder};
use crate::error::{Error, Result};
use crate::saved::{self, Best, Manifest, StateArray};
use std::fs;
use std::path::{Path, PathBuf};

/// Checkpoints that are kept: should the newest be damaged, there is another.
const KEPT: usize = 2;

/// What a search for the newest checkpoint found.
#[derive(Clone, Debug, PartialEq)]
pub struct Newest {
    /// The newest one that is whole, and what it says.
    pub whole: Option<(PathBuf, Manifest)>,
    /// Why each newer one is not used.
    pub passed_over: Vec<Error>,
}

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
        Folder::check_free(root)?;
        let folder = Folder {
            root: root.to_path_buf(),
        };
        folder.prepare()?;
        Ok(folder)
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

    /// Writes a checkpoint; `fill` writes model and tokenizer. Then removes those that are too old to keep.
    ///
    /// # Errors
    /// A folder that cannot be written to; what was there before stays.
    pub fn save_checkpoint(
        &self,
        step: u64,
        best: Option<Best>,
        state: &[StateArray],
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let path = self.checkpoints().join(format!("step-{step}"));
        write_folder(&path, |aside| {
            fill(aside)?;
            saved::complete(aside, step, best, state)
        })?;
        for (_, old) in self.steps()?.into_iter().rev().skip(KEPT) {
            fs::remove_dir_all(&old).map_err(|error| unwritable(&old, &error))?;
        }
        Ok(path)
    }

    /// The newest checkpoint that is whole.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn newest_checkpoint(&self) -> Result<Newest> {
        let mut passed_over = Vec::new();
        for (_, path) in self.steps()?.into_iter().rev() {
            match saved::check(&path) {
                Ok(manifest) => {
                    return Ok(Newest {
                        whole: Some((path, manifest)),
                        passed_over,
                    });
                }
                Err(error) => passed_over.push(error),
            }
        }
        Ok(Newest {
            whole: None,
            passed_over,
        })
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

    /// Steps and paths of the checkpoints, oldest first.
    fn steps(&self) -> Result<Vec<(u64, PathBuf)>> {
        let dir = self.checkpoints();
        let entries = fs::read_dir(&dir).map_err(|error| unwritable(&dir, &error))?;
        let step = |path: &Path| path.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok();
        let mut steps: Vec<(u64, PathBuf)> = entries
            .filter_map(|entry| entry.ok())
            .filter_map(|e| Some((step(&e.path())?, e.path())))
            .collect();
        steps.sort();
        Ok(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_newest_whole_checkpoint_is_found_and_two_are_kept() {
        let (_dir, folder) = run();
        assert_eq!(
            folder.newest_checkpoint().unwrap(),
            Newest {
                whole: None,
                passed_over: vec![]
            }
        );
        for step in [5, 10, 100] {
            folder.save_checkpoint(step, None, &[], fill("good")).unwrap();
        }
        assert_eq!(
            folder
                .steps()
                .unwrap()
                .iter()
                .map(|(step, _)| *step)
                .collect::<Vec<_>>(),
            [10, 100]
        );
        let Newest {
            whole: newest,
            passed_over,
        } = folder.newest_checkpoint().unwrap();
        assert_eq!((newest.unwrap().1.step, passed_over.len()), (100, 0));
        fs::write(folder.checkpoints().join("step-100/model.safetensors"), "bad!").unwrap();
        let Newest {
            whole: newest,
            passed_over,
        } = folder.newest_checkpoint().unwrap();
        assert_eq!(newest.unwrap().1.step, 10);
        assert!(
            passed_over[0]
                .to_string()
                .contains("step-100/model.safetensors cannot be used"),
            "{passed_over:?}"
        );
    }

    #[test]
    fn an_interrupted_checkpoint_leaves_the_one_before() {
        let (_dir, folder) = run();
        folder.save_checkpoint(5, None, &[], fill("good")).unwrap();
        let failed = folder.save_checkpoint(6, None, &[], |_| Err(Error::user("the disk is full")));
        assert!(failed.is_err());
        // Killed while writing: a folder aside, and no manifest in it.
        fs::create_dir(folder.checkpoints().join(".tmp-step-6")).unwrap();
        let folder = Folder::reopen(folder.root()).unwrap();
        assert_eq!(folder.newest_checkpoint().unwrap().whole.unwrap().1.step, 5);
        assert_eq!(fs::read_dir(folder.checkpoints()).unwrap().count(), 1);
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
        folder.save_checkpoint(5, None, &[], fill("good")).unwrap();
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
