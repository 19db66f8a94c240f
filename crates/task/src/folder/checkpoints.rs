//! The checkpoints of a run: which are kept, which one a run goes on from, and which one is good.
//!
//! Finite parameters do not make a checkpoint good: the loss that they give may be NaN, which only the next step shows.
//! So the newest checkpoint can be bad, but every older one is good: the run went on from it through at least one
//! finite loss. Where the loss after the newest checkpoint is not finite, it is removed, unless there is no other.

use super::manifest::{self, Manifest};
use crate::wording::some_of;
use lessen_base::atomic::{ASIDE, recover, unwritable, write_folder};
use lessen_base::watcher::{self, Event};
use lessen_base::{Error, Result};
use lessen_nn::checkpoint::Entry;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The newest checkpoint, and damaged ones that are newer.
#[derive(Clone, Debug, PartialEq)]
pub struct Newest {
    /// The newest whole one, with its manifest.
    pub whole: Option<(PathBuf, Manifest)>,
    /// Why each newer one is not used.
    pub passed_over: Vec<Error>,
}

/// The folder of a run's checkpoints.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    dir: PathBuf,
}

impl Checkpoints {
    /// The checkpoints in a folder, which may not exist yet.
    pub fn new(dir: PathBuf) -> Checkpoints {
        Checkpoints { dir }
    }

    /// Repairs a folder after a crash while it was written.
    ///
    /// # Errors
    /// A folder that cannot be read or written to.
    pub fn recover(&self) -> Result<()> {
        recover(&self.dir)
    }

    /// Writes a checkpoint; `fill` writes model, tokenizer and states, and returns the states. Tells the
    /// watcher of it, and removes all but the newest `kept`.
    ///
    /// # Errors
    /// A folder that cannot be written to; its files stay unchanged.
    pub fn save(&self, manifest: Manifest, kept: usize, fill: impl FnOnce(&Path) -> Result<Vec<Entry>>) -> Result<()> {
        let (step, folder) = (manifest.step, self.path(manifest.step));
        write_folder(&folder, |aside| {
            let states = fill(aside)?;
            manifest::complete(aside, manifest, &states)
        })?;
        watcher::tell(&Event::Checkpoint { step, folder: &folder });
        for (old, _) in self.steps()?.into_iter().rev().skip(kept) {
            self.remove(old)?;
        }
        Ok(())
    }

    /// The newest checkpoint that is whole.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn newest(&self) -> Result<Newest> {
        self.newest_before(u64::MAX)
    }

    /// The newest checkpoint of fewer than `step` steps that is whole.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn newest_before(&self, step: u64) -> Result<Newest> {
        let mut passed_over = Vec::new();
        for (_, path) in self.steps()?.into_iter().rev().filter(|(own, _)| *own < step) {
            match manifest::check(&path) {
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

    /// The checkpoint after `step` steps.
    ///
    /// # Errors
    /// One that is not there or not whole.
    pub fn after(&self, step: u64) -> Result<(PathBuf, Manifest)> {
        let steps = self.steps()?;
        match steps.iter().find(|(own, _)| *own == step) {
            Some((_, path)) => Ok((path.clone(), manifest::check(path)?)),
            None => {
                let run = self.dir.parent().unwrap_or(&self.dir).display();
                let known: Vec<String> = steps.iter().map(|(step, _)| step.to_string()).collect();
                let known = if known.is_empty() {
                    "there is none at all".to_string()
                } else {
                    format!("there are those after {}", some_of(&known))
                };
                Err(Error::user(format!(
                    "{run} has no checkpoint after {step} steps; {known}"
                )))
            }
        }
    }

    /// Removes the checkpoint after `step` steps, if there is one.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn remove(&self, step: u64) -> Result<()> {
        remove_atomically(&self.path(step))
    }

    /// Removes the checkpoint after `step` steps, whose parameters gave a loss that is not finite, if there is an older
    /// whole one to go on from.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn remove_bad(&self, step: u64) -> Result<()> {
        match self.newest_before(step)?.whole {
            Some(_) => self.remove(step),
            None => Ok(()),
        }
    }

    /// Removes all checkpoints after more than `step` steps.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn remove_after(&self, step: u64) -> Result<()> {
        let later = self.steps()?.into_iter().filter(|(own, _)| *own > step);
        later.into_iter().try_for_each(|(own, _)| self.remove(own))
    }

    fn path(&self, step: u64) -> PathBuf {
        self.dir.join(format!("step-{step}"))
    }

    /// Steps and paths of the checkpoints, oldest first.
    fn steps(&self) -> Result<Vec<(u64, PathBuf)>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| unwritable(&self.dir, &error))?,
        };
        let step = |path: &Path| path.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok();
        let mut steps: Vec<(u64, PathBuf)> = entries
            .filter_map(|entry| entry.ok())
            .filter_map(|e| Some((step(&e.path())?, e.path())))
            .collect();
        steps.sort();
        Ok(steps)
    }
}

/// Removes a file or folder, if it exists; at no moment a part of it is left under its name.
///
/// # Errors
/// A path that cannot be written to.
pub(crate) fn remove_atomically(path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!("{ASIDE}{name}"));
    let removed = fs::rename(path, &aside).and_then(|()| {
        if aside.is_dir() {
            fs::remove_dir_all(&aside)
        } else {
            fs::remove_file(&aside)
        }
    });
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(unwritable(path, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::manifest::DataDigests;
    use lessen_base::atomic::write_file;

    fn fill(text: &'static str) -> impl FnOnce(&Path) -> Result<Vec<Entry>> {
        move |aside| write_file(&aside.join("model.safetensors"), text.as_bytes()).map(|()| Vec::new())
    }

    fn save(checkpoints: &Checkpoints, step: u64) {
        let manifest = Manifest::new(step, 100, DataDigests::default());
        checkpoints.save(manifest, 2, fill("good")).unwrap();
    }

    fn checkpoints(steps: &[u64]) -> (tempfile::TempDir, Checkpoints) {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(dir.path().to_path_buf());
        steps.iter().for_each(|&step| save(&checkpoints, step));
        (dir, checkpoints)
    }

    fn steps(checkpoints: &Checkpoints) -> Vec<u64> {
        let steps = checkpoints.steps().unwrap();
        steps.into_iter().map(|(step, _)| step).collect()
    }

    fn step_of(newest: &Newest) -> Option<u64> {
        newest.whole.as_ref().map(|(_, manifest)| manifest.step)
    }

    #[test]
    fn the_newest_whole_checkpoint_is_found_and_two_are_kept() {
        let (dir, checkpoints) = checkpoints(&[]);
        let newest = checkpoints.newest().unwrap();
        assert_eq!((step_of(&newest), newest.passed_over.len()), (None, 0));
        [5, 10, 100].iter().for_each(|&step| save(&checkpoints, step));
        assert_eq!(steps(&checkpoints), [10, 100]);
        let newest = checkpoints.newest().unwrap();
        assert_eq!((step_of(&newest), newest.passed_over.len()), (Some(100), 0));
        assert_eq!(step_of(&checkpoints.newest_before(100).unwrap()), Some(10));
        assert_eq!(step_of(&checkpoints.newest_before(10).unwrap()), None);
        fs::write(dir.path().join("step-100/model.safetensors"), "bad!").unwrap();
        let newest = checkpoints.newest().unwrap();
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
        let (dir, checkpoints) = checkpoints(&[5]);
        let manifest = Manifest::new(6, 100, DataDigests::default());
        let failed = checkpoints.save(manifest, 2, |_| Err(Error::user("the disk is full")));
        assert!(failed.is_err());
        // Killed while writing: a folder aside, and no manifest in it.
        fs::create_dir(dir.path().join(".tmp-step-6")).unwrap();
        checkpoints.recover().unwrap();
        assert_eq!(step_of(&checkpoints.newest().unwrap()), Some(5));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_bad_checkpoint_is_removed_only_where_an_older_one_is_whole() {
        let (dir, checkpoints) = checkpoints(&[5, 10]);
        checkpoints.remove_bad(10).unwrap();
        checkpoints.remove_bad(9).unwrap();
        assert_eq!(steps(&checkpoints), [5]);
        // The last one stays, whatever its parameters gave.
        checkpoints.remove_bad(5).unwrap();
        assert_eq!(step_of(&checkpoints.newest().unwrap()), Some(5));
        save(&checkpoints, 10);
        fs::write(dir.path().join("step-5/model.safetensors"), "bad!").unwrap();
        checkpoints.remove_bad(10).unwrap();
        assert_eq!(steps(&checkpoints), [5, 10]);
    }

    #[test]
    fn later_checkpoints_are_removed() {
        let (dir, checkpoints) = checkpoints(&[5, 10]);
        checkpoints.remove_after(5).unwrap();
        assert_eq!(steps(&checkpoints), [5]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
