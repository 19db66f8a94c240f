//! A job that is asked for.

use super::{JobFolder, JobKind};
use crate::schema::SCHEMA;
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_data::memory::DataInMemory;
use lessen_task::folder::Folder;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::SettingValue;
use lessen_task::shared_data::SharedData;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A job that is asked for, a training or another one: its settings and its folder.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) settings: Settings,
    pub(crate) out: PathBuf,
    /// The settings of a job that is resumed, as they were.
    pub(crate) before: Option<Settings>,
    /// Data that it shares with other runs.
    pub(crate) shared: SharedData,
    /// What gives a training its batches in place of its data.
    pub(crate) feed: Option<Arc<dyn Feed>>,
    /// The processes that share a training.
    pub(crate) group: Group,
}

/// Gives a training its batches one by one, in place of the order of its data. It is asked in the thread of the run,
/// which waits meanwhile.
pub trait Feed: Send + Sync {
    /// What the run is to do next; none once it is to stop, with a checkpoint from which it can be resumed.
    fn next(&self) -> Option<Wish>;

    /// Is told why the batch that was given last cannot be trained on; the run goes on without it.
    fn refused(&self, error: Error);

    /// Is told the scores that were asked for: their names and values.
    fn scored(&self, scores: &[(String, f64)]);
}

/// What a training is to do next.
pub enum Wish {
    /// A step on all examples of the training split of this data, as one batch.
    Step(Box<DataInMemory>),
    /// An evaluation of the present parameters on the run's validation data.
    Evaluate,
}

/// A feed that shows nothing of itself.
impl fmt::Debug for dyn Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Feed")
    }
}

impl Request {
    /// A new job with these settings in this folder. Settings that a program has put together get a name, by which the
    /// folder is told from those of other versions.
    pub fn new(mut settings: Settings, out: PathBuf) -> Request {
        if settings.text("run.recipe").is_none() {
            let name = SettingValue::Text("without a name".to_string());
            // No text is refused as a name.
            let _ = settings.set_named("run.recipe", name, "the recipe's name".to_string());
        }
        Request {
            settings,
            out,
            before: None,
            shared: SharedData::default(),
            feed: None,
            group: Group::alone(),
        }
    }

    /// Resumes the run in a folder with its own settings, over which `change` puts flags. It must have the recipe
    /// called `recipe`, if it is given.
    ///
    /// # Errors
    /// A folder without a run, one of another recipe, the errors of `change`.
    pub fn resume(
        out: PathBuf,
        recipe: Option<&str>,
        change: impl FnOnce(&mut Settings) -> Result<()>,
    ) -> Result<Request> {
        let before = Folder::open(&out)?.settings()?.under(&SCHEMA)?;
        Request::of_folder(("run", out, before), recipe, change)
    }

    /// Resumes the job of this kind in a folder, as [`Request::resume`] does with runs.
    ///
    /// # Errors
    /// A folder without such a job, one of another recipe, the errors of `change`.
    pub fn resume_job(
        kind: JobKind,
        out: PathBuf,
        recipe: Option<&str>,
        change: impl FnOnce(&mut Settings) -> Result<()>,
    ) -> Result<Request> {
        let before = JobFolder::open(kind, &out)?.settings()?;
        Request::of_folder((kind.noun, out, before), recipe, change)
    }

    /// The request for a folder with the settings `before`.
    fn of_folder(
        (noun, out, before): (&str, PathBuf, Settings),
        recipe: Option<&str>,
        change: impl FnOnce(&mut Settings) -> Result<()>,
    ) -> Result<Request> {
        let own = before.text("run.recipe").unwrap_or_default();
        if let Some(recipe) = recipe.filter(|recipe| *recipe != own) {
            return Err(Error::user(format!(
                "the {noun} {} is of the recipe {own}, not {recipe}; leave the recipe out, or name another folder with --out",
                out.display()
            )));
        }
        let mut settings = before.clone();
        change(&mut settings)?;
        Ok(Request {
            settings,
            out,
            before: Some(before),
            shared: SharedData::default(),
            feed: None,
            group: Group::alone(),
        })
    }

    /// The request on data in memory, which its settings do not name. It is read as files are; a folder has the
    /// digests of the data alone, so that a job is resumed with the same data.
    pub fn with_data(self, data: DataInMemory) -> Request {
        self.on(&SharedData::of(data))
    }

    /// The training on batches that `feed` gives, in place of those of its data. Its data still says vocabulary,
    /// classes and scales, and it is evaluated on its own validation split.
    pub fn fed_by(self, feed: Arc<dyn Feed>) -> Request {
        Request {
            feed: Some(feed),
            ..self
        }
    }

    /// The folder.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// The training that the processes of a group share: each asks for it, with a folder of its own.
    pub fn shared_by(self, group: Group) -> Request {
        Request { group, ..self }
    }

    /// Refuses a job of this noun that is resumed without data, which was in memory.
    ///
    /// # Errors
    /// Data that is neither named nor given.
    pub(crate) fn check_data(&self, noun: &str, config: &Config) -> Result<()> {
        if self.before.is_none() || self.shared.has_data_for(config) {
            return Ok(());
        }
        Err(Error::user(format!(
            "the {noun} {} began with data in memory, and none is given; give the same data again, or name a file or folder \
             that holds it with --data",
            self.out.display()
        )))
    }

    /// The request on data that it shares with other runs.
    pub(crate) fn on(self, shared: &SharedData) -> Request {
        Request {
            shared: shared.clone(),
            ..self
        }
    }
}
