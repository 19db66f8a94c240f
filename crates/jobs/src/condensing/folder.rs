//! The folder of a condensation.
//!
//! ```text
//! condense.toml          the settings of the recipe, all of them
//! manifest.json          data, settings, classes, iterations
//! images.png             the images as they are seen, a row for each class
//! condensed.npz          images and labels, as numbers that networks read, with mean and deviation of the channels
//! condensed.safetensors  the same
//! preprocessor_config.json  how bytes become such numbers
//! classes.txt            the names of the classes
//! pictures/              images.png after some of the iterations
//! metrics.jsonl          the distances of each iteration; events.out.tfevents.* has them for TensorBoard
//! sessions.json          time and memory of all sessions
//! checkpoint/            the state after an iteration, from which a killed condensation is resumed
//! diverged.txt           why it ended, if a distance was not finite
//! work/                  files that a method keeps between iterations, if it has any
//! .lock                  while a process works on it
//! ```

use super::manifest::Manifest;
use crate::job::{CONDENSATION, JobFolder};
use lessen_base::Result;
use lessen_base::atomic::{unwritable, write_file};
use lessen_condense::LabelledImages;
use lessen_task::folder::DIVERGED;
use lessen_task::recipe::config::Config;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// The folder of files that a method keeps between iterations.
pub(super) const WORK: &str = "work";
/// The folder of pictures, and the beginning and end of their names.
const PICTURES: &str = "pictures";
const PICTURE: (&str, &str) = ("iteration-", ".png");

/// The folder of a condensation that has been created or opened: that of a job, with images and pictures.
#[derive(Clone, Debug)]
pub struct CondensedFolder(JobFolder);

impl Deref for CondensedFolder {
    type Target = JobFolder;

    fn deref(&self) -> &JobFolder {
        &self.0
    }
}

impl From<JobFolder> for CondensedFolder {
    fn from(folder: JobFolder) -> CondensedFolder {
        CondensedFolder(folder)
    }
}

impl CondensedFolder {
    /// Opens a folder for reading.
    ///
    /// # Errors
    /// A folder without a condensation.
    pub fn open(root: &Path) -> Result<CondensedFolder> {
        JobFolder::open(CONDENSATION, root).map(CondensedFolder)
    }

    /// Whether a folder is that of a condensation.
    pub fn is_at(root: &Path) -> bool {
        JobFolder::is_at(CONDENSATION, root)
    }

    /// The settings of the recipe with their types.
    ///
    /// # Errors
    /// As [`JobFolder::settings`], and settings that do not go together.
    pub fn config(&self) -> Result<Config> {
        Config::new(self.settings()?)
    }

    /// Writes why the condensation ended before its last iteration.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write_divergence(&self, sentence: &str) -> Result<()> {
        write_file(&self.root().join(DIVERGED), format!("{sentence}\n").as_bytes())
    }

    /// Removes what a process before left, since another one may come further.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn remove_divergence(&self) -> Result<()> {
        let path = self.root().join(DIVERGED);
        if !path.exists() {
            return Ok(());
        }
        fs::remove_file(&path).map_err(|error| unwritable(&path, &error))
    }

    /// What the images were made of and how.
    ///
    /// # Errors
    /// A file that cannot be read, or is none.
    pub fn manifest(&self) -> Result<Manifest> {
        Manifest::read(CONDENSATION, &self.manifest_file())
    }

    /// Whether there is a manifest: a folder of a process that was killed at once has none.
    pub(crate) fn has_manifest(&self) -> bool {
        self.manifest_file().is_file()
    }

    /// Writes the names of the classes.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write_classes(&self, names: &[String]) -> Result<()> {
        let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
        write_file(&self.root().join("classes.txt"), lines.as_bytes())
    }

    /// Writes the picture of the images.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write_image(&self, png: &[u8]) -> Result<()> {
        write_file(&self.root().join("images.png"), png)
    }

    /// Writes the picture of the images, which is also kept as that after so many iterations.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write_picture(&self, done: usize, png: &[u8]) -> Result<()> {
        let dir = self.root().join(PICTURES);
        fs::create_dir_all(&dir).map_err(|error| unwritable(&dir, &error))?;
        let (start, end) = PICTURE;
        write_file(&dir.join(format!("{start}{done}{end}")), png)?;
        self.write_image(png)
    }

    /// The pictures that are kept, with the iterations that were done.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn pictures(&self) -> Result<Vec<(usize, PathBuf)>> {
        let dir = self.root().join(PICTURES);
        if !dir.exists() {
            return Ok(Vec::new());
        }
        let done = |path: &Path| {
            let name = path.file_name()?.to_str()?;
            name.strip_prefix(PICTURE.0)?.strip_suffix(PICTURE.1)?.parse().ok()
        };
        let entries = fs::read_dir(&dir).map_err(|error| unwritable(&dir, &error))?;
        let paths = entries.flatten().map(|entry| entry.path());
        let mut found: Vec<(usize, PathBuf)> = paths.filter_map(|path| Some((done(&path)?, path))).collect();
        found.sort();
        Ok(found)
    }

    /// Removes the pictures after numbers of iterations that are not kept.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn remove_pictures(&self, is_kept: impl Fn(usize) -> bool) -> Result<()> {
        for (_, path) in self.pictures()?.into_iter().filter(|(done, _)| !is_kept(*done)) {
            fs::remove_file(&path).map_err(|error| unwritable(&path, &error))?;
        }
        Ok(())
    }

    /// The images with their labels.
    ///
    /// # Errors
    /// Files that cannot be read, or do not go together.
    pub fn images(&self) -> Result<LabelledImages> {
        let manifest = self.manifest()?;
        let images = super::arrays::read(self.root(), &manifest)?;
        Ok(match manifest.own.learned_rate {
            Some(rate) => images.with_learned_rate(rate),
            None => images,
        })
    }
}
