//! The folder of a run.
//!
//! ```text
//! config.toml            the settings, all of them, with the recipe's name and the budget under [run]
//! settings.jsonl         which of them were others in earlier steps, where a run went on with others
//! sessions.json          time and memory that it has taken in all of its sessions
//! memory.json            what the training step takes in memory, over its schedule
//! metrics.jsonl          a line for every step and every evaluation
//! events.out.tfevents.*  the same for TensorBoard
//! checkpoints/step-N/    model, tokenizer and the states of training after N steps; the newest ones are kept
//! best/                  model and tokenizer of the best evaluation, its step and score
//! model/                 model and tokenizer at the end
//! report.json, report.md the results
//! confusion.json         the confusion matrix of a classifier's last evaluation
//! labels.json            how well each label was found in the last evaluation, where texts can have several
//! pictures.json          some images of the last evaluation, with labels and predictions
//! diverged.txt           why the run ended, where a loss was no number
//! ```

pub mod checkpoints;
mod event_messages;
pub mod events;
pub mod history;
pub mod manifest;
pub(crate) mod memory;
pub mod metrics;
pub mod names;
mod new_folder;
pub mod pictures;
pub(crate) mod spent;

use self::checkpoints::{Checkpoints, remove_atomically};
use self::manifest::Manifest;
pub(crate) use self::new_folder::NewFolderGuard;
use self::new_folder::check_free;
use self::pictures::PICTURES;
use crate::recipe::optimizer;
use crate::recipe::settings::Settings;
use lessen_base::atomic::{recover, unwritable, write_file};
use lessen_base::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The file that says why the loss of a run was no number, until the run goes on.
pub const DIVERGED: &str = "diverged.txt";

/// The file with the confusion matrix of the last evaluation.
pub const CONFUSION: &str = "confusion.json";

/// The folder of the checkpoints.
const CHECKPOINTS: &str = "checkpoints";

/// The file with the scores of each label of the last evaluation.
pub const LABELS: &str = "labels.json";

/// Which of a run's models is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhichModel {
    /// The one at the end.
    #[default]
    Last,
    /// The one of the best evaluation.
    Best,
    /// The one of the checkpoint after so many steps.
    Step(u64),
}

/// The folder of a run that has been created or opened.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Refuses what cannot become the folder of a new run, as far as that can be told without writing.
    ///
    /// # Errors
    /// A folder that holds something, or is read-only.
    pub fn check_free(root: &Path) -> Result<()> {
        check_free(root)
    }

    /// Creates the folder of a new run, or takes an empty one. Dropping the guard removes it again.
    ///
    /// # Errors
    /// As [`Folder::check_free`], and a folder that cannot be created or written to.
    pub(crate) fn create(root: &Path) -> Result<(Folder, NewFolderGuard)> {
        check_free(root)?;
        let guard = NewFolderGuard::new(root);
        let folder = Folder {
            root: root.to_path_buf(),
        };
        folder.check_writable()?;
        Ok((folder, guard))
    }

    /// Opens the folder of a run to go on with, and repairs what a crash left.
    ///
    /// # Errors
    /// A folder without a run, or that cannot be written to.
    pub(crate) fn reopen(root: &Path) -> Result<Folder> {
        let folder = Folder::open(root)?;
        folder.check_writable()?;
        recover(&folder.root)?;
        folder.checkpoints().recover()?;
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

    /// Creates the folders, and tries to write before any time is spent.
    fn check_writable(&self) -> Result<()> {
        let checkpoints = self.root.join(CHECKPOINTS);
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

    /// The settings of the run.
    ///
    /// # Errors
    /// A `config.toml` that cannot be read, has a mistake, or is of another version of Lessen.
    pub fn settings(&self) -> Result<Settings> {
        let shown = self.config().display().to_string();
        let text = fs::read_to_string(self.config())
            .map_err(|error| Error::user(format!("{shown} cannot be read ({error}); restore the file")))?;
        let mut settings = Settings::parse(&text, &shown)?;
        if settings.phases.is_empty() {
            // Runs of earlier versions name the keys of all optimizers.
            optimizer::leave_out_unread(&mut settings.values);
        }
        if settings.text("run.recipe").is_none() {
            return Err(Error::user(format!(
                "{shown} has no run.recipe, so another version of Lessen wrote it; train again with this version"
            )));
        }
        Ok(settings)
    }

    /// Writes `config.toml`.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(crate) fn write_settings(&self, settings: &Settings) -> Result<()> {
        write_file(&self.config(), settings.to_toml().as_bytes())
    }

    /// The file of the history of settings.
    pub fn history(&self) -> PathBuf {
        self.root.join("settings.jsonl")
    }

    /// The file of what the run has taken.
    pub(crate) fn sessions(&self) -> PathBuf {
        self.root.join("sessions.json")
    }

    /// The file of the metrics.
    pub fn metrics(&self) -> PathBuf {
        self.root.join("metrics.jsonl")
    }

    /// The best model's folder.
    pub fn best(&self) -> PathBuf {
        self.root.join("best")
    }

    /// The file of the report for programs.
    pub(crate) fn report(&self) -> PathBuf {
        self.root.join("report.json")
    }

    /// The folder of the model that the run results in: the last one, or the best one where a score decides.
    pub fn model(&self) -> PathBuf {
        self.root.join("model")
    }

    /// The checkpoints.
    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::new(self.root.join(CHECKPOINTS))
    }

    /// Writes a file of the run atomically.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        write_file(&self.root.join(name), text.as_bytes())
    }

    /// Removes what a run left that got further than `step` steps, before it goes on from there: its last model, its
    /// report and later checkpoints, which would be taken for those of the run as it is now.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(crate) fn remove_after(&self, step: u64) -> Result<()> {
        let files =
            ["report.json", "report.md", CONFUSION, LABELS, PICTURES, DIVERGED].map(|name| self.root.join(name));
        for path in files.into_iter().chain([self.model()]) {
            remove_atomically(&path)?;
        }
        self.checkpoints().remove_after(step)
    }

    /// A model of the run, and its phase, unless that is the last one. The last model of a run that has not ended is
    /// that of the newest checkpoint.
    ///
    /// # Errors
    /// A run that has not saved this model.
    pub fn usable_model(&self, which: WhichModel) -> Result<(PathBuf, Option<String>)> {
        let (shown, of_phase) = (self.root.display(), |manifest: Manifest| {
            manifest.phase.map(|phase| phase.name)
        });
        match which {
            WhichModel::Best if self.best().is_dir() => {
                let phase = manifest::read_best(&self.best())?.and_then(|best| best.phase);
                Ok((self.best(), phase))
            }
            WhichModel::Best => Err(Error::user(format!(
                "{shown} has no best model; leave out --best to use the last one"
            ))),
            WhichModel::Last if self.model().is_dir() => Ok((self.model(), None)),
            WhichModel::Last => {
                let newest = self.checkpoints().newest()?.whole;
                newest
                    .map(|(path, manifest)| (path, of_phase(manifest)))
                    .ok_or_else(|| {
                        Error::user(format!(
                            "{shown} has no saved model yet; go on with `lessen train --resume --out {shown}`"
                        ))
                    })
            }
            WhichModel::Step(step) => {
                let (path, manifest) = self.checkpoints().after(step)?;
                Ok((path, of_phase(manifest)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::manifest::DataDigests;
    use super::*;
    use crate::recipe::value::SettingValue;
    use lessen_base::atomic::write_folder;

    fn fill(text: &'static str) -> impl FnOnce(&Path) -> Result<()> {
        move |aside| write_file(&aside.join("model.safetensors"), text.as_bytes())
    }

    fn create(root: &Path) -> Result<Folder> {
        let (folder, guard) = Folder::create(root)?;
        guard.keep();
        Ok(folder)
    }

    fn run() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = create(&dir.path().join("run")).unwrap();
        folder.write("config.toml", "").unwrap();
        (dir, folder)
    }

    fn save(folder: &Folder, step: u64) {
        let manifest = Manifest::new(step, 100, DataDigests::default());
        folder
            .checkpoints()
            .save(manifest, 2, |aside| fill("good")(aside).map(|()| Vec::new()))
            .unwrap();
    }

    #[test]
    fn only_a_folder_without_a_run_becomes_a_new_one() {
        let (dir, folder) = run();
        let error = create(folder.root()).unwrap_err().to_string();
        assert!(
            error.contains("is not empty; go on with its run by --resume"),
            "{error}"
        );
        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        create(&empty).unwrap();
        // As if it had been killed before it wrote its settings.
        fs::write(empty.join(".tmp-config.toml"), "[mo").unwrap();
        create(&empty).unwrap();
        fs::write(empty.join("checkpoints/note.txt"), "").unwrap();
        assert!(create(&empty).unwrap_err().to_string().contains("is not empty"));
        fs::write(dir.path().join("file"), "").unwrap();
        let refused = |path: &str| create(&dir.path().join(path)).unwrap_err().to_string();
        assert!(refused("file").contains("is a file"));
        let locked = dir.path().join("locked");
        fs::create_dir(&locked).unwrap();
        let mut permissions = fs::metadata(&locked).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&locked, permissions).unwrap();
        assert!(refused("locked/a/run").contains("locked is read-only"));
        assert!(refused("file/run").contains("cannot be written"));
        let none = Folder::reopen(&dir.path().join("none")).unwrap_err().to_string();
        assert!(none.contains("does not exist"), "{none}");
        let no_run = Folder::reopen(dir.path()).unwrap_err().to_string();
        assert!(no_run.contains("holds no run"), "{no_run}");
    }

    #[test]
    fn a_new_folder_whose_run_never_begins_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("runs/a");
        let (folder, guard) = Folder::create(&root).unwrap();
        folder.write("config.toml", "").unwrap();
        fs::create_dir(dir.path().join("runs/b")).unwrap();
        drop(guard);
        assert!(!root.exists() && dir.path().join("runs/b").exists());
        fs::remove_dir(dir.path().join("runs/b")).unwrap();
        drop(Folder::create(&root).unwrap().1);
        assert!(dir.path().join("runs").exists(), "it existed before");
        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        drop(Folder::create(&empty).unwrap().1);
        assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
        drop(Folder::create(&dir.path().join("new/a")).unwrap().1);
        assert!(!dir.path().join("new").exists());
        create(&root).unwrap();
        assert!(root.join("checkpoints").is_dir());
    }

    #[test]
    fn the_last_model_is_used_and_else_that_of_a_checkpoint() {
        let (_dir, folder) = run();
        let no_model = folder.usable_model(WhichModel::Last).unwrap_err().to_string();
        assert!(no_model.contains("has no saved model yet"), "{no_model}");
        save(&folder, 5);
        assert!(
            folder
                .usable_model(WhichModel::Last)
                .unwrap()
                .0
                .ends_with("checkpoints/step-5")
        );
        let no_best = folder.usable_model(WhichModel::Best).unwrap_err().to_string();
        assert!(no_best.contains("has no best model"), "{no_best}");
        save(&folder, 9);
        assert!(
            folder
                .usable_model(WhichModel::Last)
                .unwrap()
                .0
                .ends_with("checkpoints/step-9")
        );
        assert!(
            folder
                .usable_model(WhichModel::Step(5))
                .unwrap()
                .0
                .ends_with("checkpoints/step-5")
        );
        let other = folder.usable_model(WhichModel::Step(6)).unwrap_err().to_string();
        assert!(
            other.ends_with("has no checkpoint after 6 steps; there are those after 5, 9"),
            "{other}"
        );
        write_folder(&folder.model(), fill("last")).unwrap();
        assert_eq!(folder.usable_model(WhichModel::Last).unwrap(), (folder.model(), None));
    }

    #[test]
    fn a_run_that_goes_on_leaves_nothing_of_what_came_later() {
        let (_dir, folder) = run();
        [5, 10].iter().for_each(|&step| save(&folder, step));
        write_folder(&folder.model(), fill("last")).unwrap();
        write_folder(&folder.best(), fill("best")).unwrap();
        for name in ["report.json", "report.md"] {
            folder.write(name, "").unwrap();
        }
        folder.remove_after(5).unwrap();
        let newest = folder.checkpoints().newest().unwrap().whole.unwrap();
        assert_eq!(newest.1.step, 5);
        let entries = fs::read_dir(folder.root()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["best", "checkpoints", "config.toml"]);
        folder.remove_after(5).unwrap();
    }

    #[test]
    fn recipe_and_budget_are_keys_of_the_configuration() {
        let (_dir, folder) = run();
        for budget in ["", "run.budget = \"123456789012B\"\n"] {
            let text = format!("run.recipe = \"my own\"\n{budget}train.steps = 7\n");
            let settings = Settings::parse(&text, "my.toml").unwrap();
            folder.write_settings(&settings).unwrap();
            let found = folder.settings().unwrap();
            assert_eq!(found.text("run.recipe"), Some("my own"));
            assert_eq!(found.difference(&settings, &[]), None);
        }
        folder
            .write("config.toml", "[run]\nrecipe = \"a\"\nbudget = \"much\"\n")
            .unwrap();
        let sentence = folder.settings().unwrap_err().to_string();
        assert!(
            sentence.ends_with(
                "config.toml line 3: run.budget must be a number with a unit, such as 512MiB or 2GiB, not \"much\""
            ),
            "{sentence}"
        );
    }

    #[test]
    fn the_folder_of_an_older_version_is_told_in_one_sentence() {
        let (_dir, folder) = run();
        folder
            .write(
                "config.toml",
                "# recipe: adder\n# budget: 67108864\n[train]\nsteps = 8\n",
            )
            .unwrap();
        let sentence = folder.settings().unwrap_err().to_string();
        assert!(
            sentence.contains("config.toml has no run.recipe, so another version of Lessen wrote it; train again"),
            "{sentence}"
        );
    }

    #[test]
    fn a_run_of_an_older_version_has_no_keys_of_other_optimizers() {
        let (_dir, folder) = run();
        let text = "[run]\nrecipe = \"a\"\n[optimizer]\nkind = \"sgd\"\nbeta1 = 0.9\nmomentum = 0.8\n";
        folder.write("config.toml", text).unwrap();
        let settings = folder.settings().unwrap();
        assert_eq!(settings.get("optimizer.beta1"), None);
        assert_eq!(settings.get("optimizer.momentum"), Some(&SettingValue::Number(0.8)));
    }
}
