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
use crate::folder::check_free;
use crate::folder::run_lock::RunLock;
use crate::folder::{DIVERGED, NewFolderGuard};
use crate::recipe::config::Config;
use crate::recipe::settings::Settings;
use lessen_base::atomic::{recover, unwritable, write_file};
use lessen_base::{Error, Result};
use lessen_condense::LabelledImages;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file of the settings.
const SETTINGS: &str = "condense.toml";
/// The folder of files that a method keeps between iterations.
pub(super) const WORK: &str = "work";
/// The file of the manifest.
const MANIFEST: &str = "manifest.json";
/// The folder of pictures, and the beginning and end of their names.
const PICTURES: &str = "pictures";
const PICTURE: (&str, &str) = ("iteration-", ".png");

/// The folder of a condensation that has been created or opened.
#[derive(Clone, Debug)]
pub struct CondensedFolder {
    root: PathBuf,
    /// Keeps other processes from it; none where the folder is only read.
    _lock: Option<Arc<RunLock>>,
}

impl CondensedFolder {
    /// Refuses a folder that cannot become that of a new condensation, as far as reading tells.
    ///
    /// # Errors
    /// A folder that holds something, or is read-only.
    pub(super) fn check_free(root: &Path) -> Result<()> {
        check_free(root)
    }

    /// Creates the folder of a new condensation, or takes an empty one, and locks it. Dropping the guard removes it
    /// again.
    ///
    /// # Errors
    /// As [`CondensedFolder::check_free`], and a folder that cannot be created or written to, or that another process
    /// has locked.
    pub(super) fn create(root: &Path) -> Result<(CondensedFolder, NewFolderGuard)> {
        check_free(root)?;
        let guard = NewFolderGuard::new(root);
        fs::create_dir_all(root).map_err(|error| unwritable(root, &error))?;
        // Another process may have begun here since the folder was looked at.
        match RunLock::take(root).and_then(|lock| check_free(root).map(|()| lock)) {
            Ok(lock) => Ok((CondensedFolder::of(root, Some(lock)), guard)),
            Err(error) => {
                guard.keep();
                Err(error)
            }
        }
    }

    fn of(root: &Path, lock: Option<RunLock>) -> CondensedFolder {
        CondensedFolder {
            root: root.to_path_buf(),
            _lock: lock.map(Arc::new),
        }
    }

    /// Opens a folder for reading.
    ///
    /// # Errors
    /// A folder without a condensation.
    pub fn open(root: &Path) -> Result<CondensedFolder> {
        if CondensedFolder::is_at(root) {
            return Ok(CondensedFolder::of(root, None));
        }
        let what = if root.exists() {
            format!("holds no condensation (it has no {SETTINGS})")
        } else {
            "does not exist".to_string()
        };
        Err(Error::user(format!(
            "the folder {} {what}; name the folder that `lessen condense` wrote",
            root.display()
        )))
    }

    /// Whether a folder is that of a condensation.
    pub fn is_at(root: &Path) -> bool {
        root.join(SETTINGS).is_file()
    }

    /// Opens the folder of a condensation to resume, locks it, and repairs it after a crash.
    ///
    /// # Errors
    /// A folder without a condensation, that cannot be written to, or that another process has locked.
    pub(super) fn reopen(root: &Path) -> Result<CondensedFolder> {
        CondensedFolder::open(root)?;
        let folder = CondensedFolder::of(root, Some(RunLock::take(root)?));
        recover(root)?;
        Ok(folder)
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The settings of the recipe.
    ///
    /// # Errors
    /// A file that cannot be read or has a mistake.
    pub fn settings(&self) -> Result<Settings> {
        let path = self.root.join(SETTINGS);
        let shown = path.display().to_string();
        let text = fs::read_to_string(&path)
            .map_err(|error| Error::user(format!("{shown} cannot be read ({error}); restore the file")))?;
        Settings::parse(&text, &shown)
    }

    /// The settings of the recipe with their types.
    ///
    /// # Errors
    /// As [`CondensedFolder::settings`], and settings that do not go together.
    pub fn config(&self) -> Result<Config> {
        Config::new(self.settings()?)
    }

    /// Writes the settings.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write_settings(&self, settings: &Settings) -> Result<()> {
        write_file(&self.root.join(SETTINGS), settings.to_toml().as_bytes())
    }

    /// Writes why the condensation ended before its last iteration.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write_divergence(&self, sentence: &str) -> Result<()> {
        write_file(&self.root.join(DIVERGED), format!("{sentence}\n").as_bytes())
    }

    /// Removes what a process before left, since another one may come further.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn remove_divergence(&self) -> Result<()> {
        let path = self.root.join(DIVERGED);
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
        Manifest::read(&self.root.join(MANIFEST))
    }

    /// Whether there is a manifest: a folder of a process that was killed at once has none.
    pub(crate) fn has_manifest(&self) -> bool {
        self.manifest_file().is_file()
    }

    /// The file of the manifest.
    pub(super) fn manifest_file(&self) -> PathBuf {
        self.root.join(MANIFEST)
    }

    /// The folder of the checkpoint.
    pub(super) fn checkpoint(&self) -> PathBuf {
        self.root.join("checkpoint")
    }

    /// The file of the distances.
    pub(crate) fn metrics(&self) -> PathBuf {
        self.root.join("metrics.jsonl")
    }

    /// The file of the time and memory of all sessions.
    pub(crate) fn sessions(&self) -> PathBuf {
        self.root.join("sessions.json")
    }

    /// Writes the names of the classes.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write_classes(&self, names: &[String]) -> Result<()> {
        let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
        write_file(&self.root.join("classes.txt"), lines.as_bytes())
    }

    /// Writes the picture of the images.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write_image(&self, png: &[u8]) -> Result<()> {
        write_file(&self.root.join("images.png"), png)
    }

    /// Writes the picture of the images, which is also kept as that after so many iterations.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write_picture(&self, done: usize, png: &[u8]) -> Result<()> {
        let dir = self.root.join(PICTURES);
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
        let dir = self.root.join(PICTURES);
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
        let images = super::arrays::read(&self.root, &manifest)?;
        Ok(match manifest.learned_rate {
            Some(rate) => images.with_learned_rate(rate),
            None => images,
        })
    }
}
