//! A saved model in the folder of a run or in a Hugging Face folder: evaluation, prediction, generation.

mod adapter_options;
mod answering;
mod batched;
mod calibrating;
mod evaluation;
mod generation;
mod images;
pub mod judged;
mod logits;
mod plain;
mod precision;
mod prediction;
mod rows;
mod sequences;
mod tagging;
mod timing;

use self::logits::Logits;
use crate::cut_texts::CutTexts;
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_compile::Precision;
use lessen_nn::{Model, Ranges, Task};
use lessen_task::device::NewBackend;
use lessen_task::first_weights;
use lessen_task::folder::{Folder, WhichModel};
use lessen_task::goal::SharedGoal;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::phases::Recipe;
use lessen_task::wording::tell;
use lessen_task::{CheckedTask, SavedModel};
use lessen_train::Session;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once};

pub use self::adapter_options::AdapterOptions;
pub use self::answering::Answerer;
pub use self::batched::{BatchedPredictor, RawAnswer};
pub use self::evaluation::Evaluation;
pub use self::images::{ImageInput, ImagePredictor};
pub(crate) use self::precision::Chosen;
pub use self::prediction::{Answer, Predictor, split_pair};
pub use self::rows::{Cell, RowPredictor};
pub use self::tagging::{TaggedSpan, Tagger, Tags, WordTag};
pub use self::timing::{LENGTH, RandomBatches, random_texts};
pub use lessen_task::goal::Prediction;

/// A saved model with its settings: the settings of its training, or for a Hugging Face folder the settings that follow
/// from the model. What asks the model owns all that it needs, and may outlive it.
pub struct SavedRun {
    config: Config,
    saved: Arc<SavedModel>,
    is_plain: bool,
    /// The precision of inference; none means the precision of training.
    precision: Option<Chosen>,
    new_backend: NewBackend,
    /// The predictor of [`SavedRun::predict`], once it was asked for.
    predictor: Mutex<Option<Arc<Predictor>>>,
    /// Whether it was told what nothing reads of its weights.
    told: Once,
    /// The processes that share its evaluations and predictions.
    group: Group,
}

impl SavedRun {
    /// Opens a run or a Hugging Face folder. `which` names one of the models of a run; the last model of a run that has
    /// not ended is that of its newest checkpoint. `adapters` says where its own adapters belong, and which others are
    /// added to it.
    ///
    /// # Errors
    /// A folder with neither of both, or with a damaged one, a model that the folder does not have, and adapters that
    /// do not go with it.
    pub fn open(
        root: &Path,
        which: WhichModel,
        adapters: AdapterOptions,
        new_backend: &NewBackend,
    ) -> Result<SavedRun> {
        let is_plain = plain::is_plain(root);
        let (config, dir) = if is_plain {
            plain::check_only(root, which)?;
            (plain::config(adapters.of(root)?)?, root.to_path_buf())
        } else {
            let folder = Folder::open(root)?;
            let (dir, phase) = folder.usable_model(which)?;
            adapters.check_head(&dir)?;
            (
                config_of(Recipe::new(folder.settings()?)?, phase.as_deref(), &dir)?,
                dir,
            )
        };
        let saved = Arc::new(SavedModel::read(&config, adapters.of(&dir)?)?);
        Ok(SavedRun {
            config,
            saved,
            is_plain,
            precision: Chosen::of_folder(&dir),
            new_backend: new_backend.clone(),
            predictor: Mutex::default(),
            told: Once::new(),
            group: Group::alone(),
        })
    }

    /// The model, whose evaluations and predictions the processes of a group share: all of them ask for the same.
    pub fn shared_by(self, group: Group) -> SavedRun {
        SavedRun { group, ..self }
    }

    /// Sets the precision of products; with `bf16` and `int8`, matrices are held in it, too. By default products have
    /// the precision of training, and parameters are `f32`, or both are what the model was quantized for.
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = Some(Chosen::Asked(precision));
        self.predictor = Mutex::default();
    }

    /// Takes the model of another folder in place of its own, which was made from it: all other settings stay.
    ///
    /// # Errors
    /// A folder without a model.
    pub fn take_model(&mut self, folder: &Path) -> Result<()> {
        let saved = Arc::make_mut(&mut self.saved);
        saved.model = Model::from_dir(folder)?;
        saved.dir = folder.to_path_buf();
        saved.base = None;
        saved.added = Vec::new();
        self.precision = Chosen::of_folder(folder);
        self.predictor = Mutex::default();
        Ok(())
    }

    /// Whether products read `bf16` that the device has no instructions for, which takes longer than `f32`.
    ///
    /// # Errors
    /// A device that cannot be opened.
    pub fn widens_bf16(&self) -> Result<bool> {
        Ok(self.precision() == Some(Precision::Bf16) && self.new_backend.open()?.widens_bf16())
    }

    /// Whether products take integers.
    pub fn multiplies_integers(&self) -> bool {
        matches!(self.precision(), Some(Precision::Int8 | Precision::Int4))
    }

    /// The precision of inference; none means that of training.
    fn precision(&self) -> Option<Precision> {
        self.precision.map(Chosen::precision)
    }

    /// Changes settings that say how data is read, as `--set` gives them: keys of `data`, and `train.batch`.
    ///
    /// # Errors
    /// Other keys, and values that do not go with the model.
    pub fn set(&mut self, assignments: &[String]) -> Result<()> {
        let mut settings = self.config.settings.clone();
        for assignment in assignments {
            let key = assignment.split('=').next().unwrap_or_default().trim();
            let is_of_data = key.starts_with("data.") && key != "data.tokenizer";
            if !is_of_data && key != "train.batch" {
                return Err(Error::user(format!(
                    "--set {assignment} cannot change a saved model; set train.batch or keys of data other than \
                     data.tokenizer"
                )));
            }
            settings.set_flag(assignment)?;
        }
        self.config = Config::of(settings, self.config.phase.as_deref())?;
        self.predictor = Mutex::default();
        self.saved.check(&self.config)
    }

    /// The settings of the model's training phase.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The model and its tokenizer.
    pub fn saved(&self) -> &SavedModel {
        &self.saved
    }

    /// Counts of cut texts before any is asked about.
    fn uncut_texts(&self) -> Mutex<CutTexts> {
        Mutex::new(CutTexts {
            length: self.config.data.max_length,
            ..CutTexts::default()
        })
    }

    /// The model on a device, to be asked for logits.
    fn logits(&self) -> Result<Logits> {
        Ok(Logits::new(self.session()?, &self.saved.model).shared_by(&self.group))
    }

    /// The model's task on the data of these settings.
    pub(crate) fn assembled(&self, config: Config) -> Result<CheckedTask> {
        CheckedTask::assemble(config, Some(SavedModel::clone(&self.saved)))
    }

    /// A device with the model's parameters.
    ///
    /// # Errors
    /// A device that cannot be opened, and a file that is damaged or lacks a parameter.
    pub fn session(&self) -> Result<Session> {
        self.session_of(&self.saved.model, None)
    }

    /// [`SavedRun::session`] of the model with its classes in another order: rows of its last layer come from these
    /// places.
    fn session_of(&self, model: &Model, places: Option<&[usize]>) -> Result<Session> {
        let parameters = model.parameters();
        let trained = model.quantization().filter(|own| own.ranges != Ranges::Fixed);
        if let (Some(Precision::Int8), Some(own)) = (self.precision(), trained) {
            return Err(Error::user(format!(
                "{} is trained for {}, and is computed as it was trained; write its integers with lessen quantize, and ask \
                 that folder",
                self.source().display(),
                own.bits
            )));
        }
        let backend = self.new_backend.open()?;
        let mut session = match self.precision {
            Some(precision) => precision.session(backend, parameters.clone(), self.saved.folder())?,
            None => {
                let mut session = Session::zeros(backend, parameters.clone())?;
                session.set_precision(self.config.train.precision);
                session
            }
        };
        let rest = first_weights::read(&mut session, &parameters, self.saved.folder(), &|_| false, places)?;
        if let Some(remark) = first_weights::remark(self.source(), &rest) {
            self.told.call_once(|| tell(&format!("note: {remark}")));
        }
        first_weights::convert_norms(&mut session, model)?;
        Ok(session)
    }

    /// The folder that the model was read from.
    pub fn source(&self) -> &Path {
        &self.saved.dir
    }

    /// The training objective of the model.
    pub fn task(&self) -> Task {
        self.saved.model.task()
    }

    /// The names of a classifier's classes, by their numbers; empty for other models.
    pub fn labels(&self) -> &[String] {
        self.saved.model.labels()
    }

    /// The goal that the model was trained for.
    fn goal(&self) -> SharedGoal {
        self.config
            .data
            .format
            .format()
            .goal_of(&self.saved.model, &self.config)
    }
}

/// How many examples are best asked about at once, in batches of this size.
fn at_once(batch: usize) -> usize {
    batch.saturating_mul(16).min(4096)
}

/// The folder of a model: of a run, or a Hugging Face folder itself.
///
/// # Errors
/// As [`SavedRun::open`].
pub(crate) fn model_dir(root: &Path, which: WhichModel) -> Result<PathBuf> {
    if plain::is_plain(root) {
        return plain::check_only(root, which).map(|()| root.to_path_buf());
    }
    Ok(Folder::open(root)?.usable_model(which)?.0)
}

/// The settings of the training phase called `phase`, or of the last one.
///
/// # Errors
/// A training phase that the recipe does not have.
fn config_of(mut recipe: Recipe, phase: Option<&str>, dir: &Path) -> Result<Config> {
    let found = match phase {
        Some(_) => recipe.phases.iter().position(|config| config.phase.as_deref() == phase),
        None => recipe.phases.len().checked_sub(1),
    };
    let found = found.ok_or_else(|| {
        Error::user(format!(
            "{} is of the phase {}, which the run's config.toml lacks; restore the file",
            dir.display(),
            phase.unwrap_or_default()
        ))
    })?;
    Ok(recipe.phases.swap_remove(found))
}
