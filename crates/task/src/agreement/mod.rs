//! Whether settings, data and model go together: checked in one place, before anything is traced. The result is a
//! [`CheckedTask`], which nothing else can make.

mod checked_task;
mod given_batch;
mod goal;
mod init;
mod inputs;
mod saved;
mod sizes;

pub use self::checked_task::CheckedTask;
pub use self::goal::check_model;
pub use self::init::check_base;
pub use self::inputs::check_vocabulary;

use crate::fine_tuning::FineTuning;
use crate::goal::Goal;
use crate::models::Sizes;
use crate::reader::Reader;
use crate::recipe::config::Config;
use crate::recipe_model;
use crate::saved_model::{SavedModel, generation_of};
use crate::shared_data::SharedData;
use crate::task_data::{ReadData, TaskData};
use lessen_base::Result;
use lessen_nn::Model;
use std::sync::Arc;

impl CheckedTask {
    /// Assembles the task of a recipe. The model is `saved`, or else the recipe's: that of the checkpoint to start
    /// from, or a new one. Without data, as for a plan, `model.vocab` and `model.classes` are assumed.
    ///
    /// # Errors
    /// Settings, data or a checkpoint with a mistake, or that do not go together.
    pub fn assemble(config: Config, saved: Option<SavedModel>) -> Result<CheckedTask> {
        CheckedTask::assemble_on(config, saved, &SharedData::default())
    }

    /// [`CheckedTask::assemble`] on data that it shares with other tasks.
    ///
    /// # Errors
    /// As [`CheckedTask::assemble`].
    pub fn assemble_on(config: Config, saved: Option<SavedModel>, shared: &SharedData) -> Result<CheckedTask> {
        config.check()?;
        let format = config.data.format.format();
        let read = if shared.has_data_for(&config) {
            let known = saved.as_ref().map(|saved| saved.known(&config)).unwrap_or_default();
            Some(shared.read(&config, &known)?)
        } else {
            None
        };
        let corpus = read.as_ref().map(ReadData::corpus);
        let found = match corpus {
            Some(corpus) => corpus.goal(),
            None => format.assumed_goal(&config),
        };
        let goal = goal::scored(&config, found)?;
        goal::check_loss(&config, goal.as_ref())?;
        let (dir, model, reader, generation) = match saved {
            Some(saved) => {
                goal::check_model(goal.as_ref(), &saved.model)?;
                (
                    Some(saved.dir),
                    saved.model,
                    Some(Arc::new(saved.reader)),
                    saved.generation,
                )
            }
            None => {
                let (model, reader) = new_model(&config, goal.as_ref(), read.as_ref())?;
                let generation = config.init().map(|init| generation_of(init, &model)).transpose()?;
                (None, model, reader, generation.flatten())
            }
        };
        sizes::check_batch(&config, &model)?;
        Ok(CheckedTask {
            fine_tuning: FineTuning::of(&config, goal.as_ref(), &model, corpus)?,
            config,
            goal,
            model,
            generation,
            saved: dir,
            data: read.zip(reader).map(|(read, reader)| TaskData::new(read, reader)),
        })
    }

    /// The task of a later training phase: the same data and goal, and the model that the phase makes of this one.
    ///
    /// # Errors
    /// Settings that do not go together with the data or the checkpoint that the run started from.
    pub fn later(&self, mut config: Config) -> Result<CheckedTask> {
        config.check()?;
        let goal = goal::scored(&config, self.goal.clone())?;
        goal::check_loss(&config, goal.as_ref())?;
        if let Some(init) = &self.config.model.init {
            recipe_model::check_unchanged(init, &self.config, &config)?;
            if self.fine_tuning.lora.is_none() {
                // The checkpoint that the run started from may be gone.
                config.model.init = Some(self.saved.as_ref().unwrap_or(init).clone());
            }
        }
        let reader = self.data.as_ref().map(|data| data.reader.as_ref());
        let own = Sizes::of(&config, reader);
        let sizes = Sizes {
            vocab: self.model.vocab_size(),
            image: self.model.image().unwrap_or(own.image),
            ..own
        };
        let model = sound_model(&config, goal.as_ref(), sizes, reader)?;
        sizes::check_batch(&config, &model)?;
        let corpus = self.data.as_ref().map(TaskData::corpus);
        Ok(CheckedTask {
            fine_tuning: FineTuning::of(&config, goal.as_ref(), &model, corpus)?,
            config,
            goal,
            model,
            generation: self.generation.clone(),
            saved: None,
            data: self.data.clone(),
        })
    }

    /// The same task with the classes of its model in the data's order, and the old number of each class, from which
    /// rows of the last layer are to be taken; none where the order stays.
    ///
    /// # Errors
    /// A class that the model does not know.
    pub fn numbered_by_data(mut self) -> Result<(CheckedTask, Option<Vec<usize>>)> {
        let places = self.goal.number_classes(&mut self.model)?;
        Ok((self, places))
    }
}

/// The model of a new run and, where there is data, its reader.
fn new_model(config: &Config, goal: &dyn Goal, read: Option<&ReadData>) -> Result<(Model, Option<Arc<Reader>>)> {
    if let Some(init) = config.init() {
        init::check_init(config, init)?;
    }
    let reader = read.map(|read| read.reader(config)).transpose()?;
    let sizes = Sizes::of(config, reader.as_deref());
    Ok((sound_model(config, goal, sizes, reader.as_deref())?, reader))
}

/// The model of a recipe, checked against data and settings.
fn sound_model(config: &Config, goal: &dyn Goal, sizes: Sizes, reader: Option<&Reader>) -> Result<Model> {
    let tokenizer = reader.and_then(|reader| reader.tokenizer().ok());
    sizes::check_sizes(config, sizes.vocab)?;
    inputs::check_image_size(config, sizes)?;
    let mut model = recipe_model::build(config, goal, sizes)?;
    model.set_vocab_size(init::vocabulary_for(config, &model, tokenizer));
    init::check_new(config, &model, reader)?;
    Ok(model)
}
