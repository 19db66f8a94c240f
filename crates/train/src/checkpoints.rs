//! The checkpoints of a run: which are kept, which one a run goes on from, and which one is good.
//!
//! That its parameters are finite does not make a checkpoint good: the loss that they give may be none. It shows in
//! the step that follows. Hence the newest checkpoint can be bad, but every older one is good: the run went on from
//! it through at least one finite loss. Where the next loss is no number, the newest one goes.

use crate::folder::Folder;
use crate::saved::{self, DataDigest, Manifest, StateArray};
use lessen_base::atomic::{unwritable, write_folder};
use lessen_base::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Checkpoints that are kept: should the newest be damaged or bad, there is one that was good.
const KEPT: usize = 2;

/// What a search for the newest checkpoint found.
#[derive(Clone, Debug, PartialEq)]
pub struct Newest {
    /// The newest one that is whole, and what it says.
    pub whole: Option<(PathBuf, Manifest)>,
    /// Why each newer one is not used.
    pub passed_over: Vec<Error>,
}

impl Folder {
    /// Writes the checkpoint after `step` steps on this data; `fill` writes model and tokenizer. Then removes those that
    /// are too old to keep.
    ///
    /// # Errors
    /// A folder that cannot be written to; what was there before stays.
    pub(crate) fn save_checkpoint(
        &self,
        step: u64,
        data: DataDigest,
        state: &[StateArray],
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let path = self.checkpoint(step);
        write_folder(&path, |aside| {
            fill(aside)?;
            saved::complete(aside, step, data, state)
        })?;
        for (old, _) in self.checkpoint_steps()?.into_iter().rev().skip(KEPT) {
            self.remove_checkpoint(old)?;
        }
        Ok(path)
    }

    /// The newest checkpoint that is whole.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn newest_checkpoint(&self) -> Result<Newest> {
        self.newest_before(u64::MAX)
    }

    /// The newest checkpoint of fewer than `step` steps that is whole.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn newest_before(&self, step: u64) -> Result<Newest> {
        let mut passed_over = Vec::new();
        for (_, path) in self
            .checkpoint_steps()?
            .into_iter()
            .rev()
            .filter(|(own, _)| *own < step)
        {
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

    /// Removes the checkpoint after `step` steps, if there is one.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn remove_checkpoint(&self, step: u64) -> Result<()> {
        self.remove(&self.checkpoint(step))
    }

    /// Removes what a run left that had got further than `step` steps, before it goes on from there: its end (model
    /// and report) and later checkpoints, all of which would be taken for those of the run as it is now.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn go_back(&self, step: u64) -> Result<()> {
        for path in [
            self.model(),
            self.root().join("report.json"),
            self.root().join("report.md"),
        ] {
            self.remove(&path)?;
        }
        for (later, _) in self
            .checkpoint_steps()?
            .into_iter()
            .filter(|(own, _)| *own > step)
        {
            self.remove_checkpoint(later)?;
        }
        Ok(())
    }

    fn checkpoint(&self, step: u64) -> PathBuf {
        self.checkpoints().join(format!("step-{step}"))
    }

    /// Steps and paths of the checkpoints, oldest first.
    fn checkpoint_steps(&self) -> Result<Vec<(u64, PathBuf)>> {
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
    use lessen_base::atomic::write_file;

    fn fill(text: &'static str) -> impl FnOnce(&Path) -> Result<()> {
        move |aside| write_file(&aside.join("model.safetensors"), text.as_bytes())
    }

    fn run(steps: &[u64]) -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(&dir.path().join("run")).unwrap();
        folder.write("config.toml", "").unwrap();
        for &step in steps {
            folder
                .save_checkpoint(step, DataDigest::default(), &[], fill("good"))
                .unwrap();
        }
        (dir, folder)
    }

    fn steps(folder: &Folder) -> Vec<u64> {
        let steps = folder.checkpoint_steps().unwrap();
        steps.into_iter().map(|(step, _)| step).collect()
    }

    fn step_of(newest: &Newest) -> Option<u64> {
        newest.whole.as_ref().map(|(_, manifest)| manifest.step)
    }

    #[test]
    fn the_newest_whole_checkpoint_is_found_and_two_are_kept() {
        let (_dir, folder) = run(&[]);
        let newest = folder.newest_checkpoint().unwrap();
        assert_eq!((step_of(&newest), newest.passed_over.len()), (None, 0));
        for step in [5, 10, 100] {
            folder
                .save_checkpoint(step, DataDigest::default(), &[], fill("good"))
                .unwrap();
        }
        assert_eq!(steps(&folder), [10, 100]);
        let newest = folder.newest_checkpoint().unwrap();
        assert_eq!((step_of(&newest), newest.passed_over.len()), (Some(100), 0));
        assert_eq!(step_of(&folder.newest_before(100).unwrap()), Some(10));
        assert_eq!(step_of(&folder.newest_before(10).unwrap()), None);
        fs::write(folder.checkpoints().join("step-100/model.safetensors"), "bad!").unwrap();
        let newest = folder.newest_checkpoint().unwrap();
        assert_eq!(step_of(&newest), Some(10));
        assert!(
            newest.passed_over[0]
                .to_string()
                .contains("step-100/model.safetensors cannot be used"),
            "{newest:?}"
        );
    }

    #[test]
    fn an_interrupted_checkpoint_leaves_the_one_before() {
        let (_dir, folder) = run(&[5]);
        let failed = folder.save_checkpoint(6, DataDigest::default(), &[], |_| {
            Err(Error::user("the disk is full"))
        });
        assert!(failed.is_err());
        // Killed while writing: a folder aside, and no manifest in it.
        fs::create_dir(folder.checkpoints().join(".tmp-step-6")).unwrap();
        let folder = Folder::reopen(folder.root()).unwrap();
        assert_eq!(step_of(&folder.newest_checkpoint().unwrap()), Some(5));
        assert_eq!(fs::read_dir(folder.checkpoints()).unwrap().count(), 1);
    }

    #[test]
    fn a_bad_checkpoint_goes_and_the_one_before_is_the_newest() {
        let (_dir, folder) = run(&[5, 10]);
        folder.remove_checkpoint(10).unwrap();
        folder.remove_checkpoint(9).unwrap();
        assert_eq!(steps(&folder), [5]);
        assert_eq!(step_of(&folder.newest_checkpoint().unwrap()), Some(5));
        assert_eq!(fs::read_dir(folder.checkpoints()).unwrap().count(), 1);
    }

    #[test]
    fn a_run_that_goes_on_leaves_nothing_of_what_came_later() {
        let (_dir, folder) = run(&[5, 10]);
        write_folder(&folder.model(), fill("last")).unwrap();
        write_folder(&folder.best(), fill("best")).unwrap();
        for name in ["report.json", "report.md"] {
            folder.write(name, "").unwrap();
        }
        folder.go_back(5).unwrap();
        assert_eq!(steps(&folder), [5]);
        let entries = fs::read_dir(folder.root()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["best", "checkpoints", "config.toml"]);
        folder.go_back(5).unwrap();
    }
}
