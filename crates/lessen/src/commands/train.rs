//! `lessen train`

use super::candidates;
use super::device_args::DeviceArgs;
use super::job_end::{Stopped, end};
use super::recipe_args::RecipeArgs;
use crate::{processes, tell};
use clap::Args;
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_jobs::SCHEMA;
use lessen_jobs::choosing::{ChoiceRequest, choose, is_under_way, last_under_way, name_of};
use lessen_jobs::job::processes::{OwnFolder, copy_folder};
use lessen_jobs::training::report::Report;
use lessen_jobs::training::{Request, train};
use lessen_task::device::NewBackend;
use lessen_task::folder::names::{last_run, next_run};
use lessen_task::recipe::settings::Settings;
use std::path::PathBuf;

/// The recipe that needs no data.
const DEFAULT: &str = "adder";

/// Minutes of a training on one's own data.
const MINUTES: f64 = 3.0;

/// Flags of `lessen train`.
#[derive(Args)]
pub struct Train {
    /// Name of a built-in recipe, or a TOML file (paths in it are relative to its folder); without one, --data is
    /// looked at and everything is chosen [default: adder, without --data]
    #[arg(add = candidates::recipes())]
    recipe: Option<String>,
    #[command(flatten)]
    over: RecipeArgs,
    /// Folder for the results [default: runs/RECIPE-N]
    #[arg(long, value_name = "DIR", add = candidates::runs())]
    out: Option<PathBuf>,
    /// Resume the run in the folder from its newest checkpoint, with its own settings
    #[arg(long)]
    resume: bool,
    /// Steps to train
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    steps: Option<u64>,
    /// Minutes that looking, choosing and training may take together, where no recipe says what is trained [default: 3]
    #[arg(long, value_name = "N")]
    minutes: Option<f64>,
    /// Seconds without an answer after which a process of several that share the training is given up [default: 120]
    #[arg(long, value_name = "SECONDS")]
    deadline: Option<f64>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Train {
    /// Trains, together with the other processes that a launcher has started; the exit code.
    pub fn run(self) -> Result<u8> {
        processes::alone_or_together(self.deadline, |group| match group.size() {
            1 => self.train_alone(),
            _ => self.share(group),
        })
    }

    /// Trains in one process; the exit code.
    fn train_alone(&self) -> Result<u8> {
        if let Some(out) = self.own_data()? {
            return self.choose(out);
        }
        if self.minutes.is_some() {
            return Err(Error::user(
                "--minutes is for `lessen train --data FILE` without a recipe, which chooses how much it trains; leave it out, \
                 or say --steps",
            ));
        }
        self.show(&train(&self.request()?, &self.device.new_backend())?)
    }

    /// Trains with the processes of a group; the exit code.
    fn share(&self, group: &Group) -> Result<u8> {
        let (request, own) = self.shared_request(group)?;
        let report = train(&request, &self.device.new_backend())?;
        drop(own);
        self.show(&report)
    }

    /// The training that the processes of a group share, and the folder of this process, if it is not the first.
    ///
    /// # Errors
    /// A mistake in what is asked for, which is the error of all processes; a process that does not answer.
    pub fn shared_request(&self, group: &Group) -> Result<(Request, Option<OwnFolder>)> {
        let first = group.is_first().then(|| match self.minutes.is_some() || self.own_data()?.is_some() {
            true => Err(Error::user(
                "several processes share a training with a recipe; name one, or start one process, which looks at --data and \
                 chooses",
            )),
            false => self.request(),
        });
        let mistake = first.as_ref().and_then(|first| first.as_ref().err());
        group.agree(
            "the request",
            mistake.map_or(Ok(Vec::new()), |mistake| Err(mistake.clone())),
        )?;
        let shared = match first.transpose()? {
            Some(request) if self.resume => copy_folder(group, request.out()).map(|()| (request, None)),
            Some(request) => Ok((request, None)),
            None => self.own_request(group),
        };
        let told = shared.as_ref().map(|_| Vec::new()).map_err(Error::clone);
        group.agree("the settings", told)?;
        let (request, own) = shared?;
        Ok((request.shared_by(group.clone()), own))
    }

    /// The training of a process that is not the first, in a folder of its own.
    fn own_request(&self, group: &Group) -> Result<(Request, Option<OwnFolder>)> {
        let own = OwnFolder::new()?;
        let request = if self.resume {
            copy_folder(group, &own.job())?;
            Request::resume(own.job(), None, |settings| self.over.apply(settings, self.steps))?
        } else {
            Request::new(self.settings()?, own.job())
        };
        Ok((request, Some(own)))
    }

    /// Prints the report; the exit code.
    fn show(&self, report: &Report) -> Result<u8> {
        let stopped = report.interrupted.then(|| Stopped {
            after: Some(format!("step {}", report.steps)),
            command: "train",
            out: &report.out,
        });
        end(self.json, (&report.to_json(), report.to_text()), stopped)
    }

    /// The device.
    pub fn new_backend(&self) -> NewBackend {
        self.device.new_backend()
    }

    /// The folder of a training on one's own data without a recipe; none of other trainings.
    fn own_data(&self) -> Result<Option<PathBuf>> {
        let name = match (&self.recipe, self.over.data()) {
            (None, Some(data)) => Some(name_of(data)),
            _ => None,
        };
        if !self.resume {
            return Ok(name.map(|name| self.out.clone().unwrap_or_else(|| next_run(&name))));
        }
        match (&self.out, name) {
            (Some(out), _) => Ok(is_under_way(out)?.then(|| out.clone())),
            (None, Some(name)) => {
                let out = last_under_way(&name)?.ok_or_else(|| {
                    Error::user(format!(
                        "no training of {name} without a recipe is under way in runs/; name its folder with --out, or \
                         leave out --resume to begin one"
                    ))
                })?;
                tell(&format!("going on with {}", out.display()));
                Ok(Some(out))
            }
            (None, None) => Ok(None),
        }
    }

    /// Looks at data, chooses, trains and compares; the exit code.
    fn choose(&self, out: PathBuf) -> Result<u8> {
        let minutes = self.minutes.unwrap_or(MINUTES);
        if !(minutes.is_finite() && minutes > 0.0) {
            return Err(Error::user(format!(
                "--minutes {minutes} is no time; give a number above 0"
            )));
        }
        let request = ChoiceRequest {
            data: self.over.data().cloned().unwrap_or_default(),
            out,
            minutes,
            init: self.over.init().cloned(),
            resumes: self.resume,
            over: &|settings, part| self.over.apply_where(settings, self.steps, &|key| part.takes(key)),
        };
        let report = choose(&request, &self.device.new_backend())?;
        let stopped = report.interrupted.then(|| Stopped {
            after: None,
            command: "train",
            out: &report.out,
        });
        end(self.json, (&report.to_json(), report.to_text()), stopped)
    }

    /// The training that is asked for, where a recipe says what is trained.
    ///
    /// # Errors
    /// A recipe that is none, no folder to resume, a value that a key does not take.
    pub fn request(&self) -> Result<Request> {
        if self.resume {
            return self.resumed();
        }
        let settings = self.settings()?;
        let name = settings.text("run.recipe").unwrap_or(DEFAULT);
        let out = self.out.clone().unwrap_or_else(|| next_run(name));
        Ok(Request::new(settings, out))
    }

    /// The settings of a new run.
    fn settings(&self) -> Result<Settings> {
        let mut settings = SCHEMA.load(self.recipe.as_deref().unwrap_or(DEFAULT))?;
        self.over.apply(&mut settings, self.steps)?;
        Ok(settings)
    }

    /// The run to resume. Its settings come from the folder, also where the recipe is named again: flags that the run
    /// began with need not be repeated.
    fn resumed(&self) -> Result<Request> {
        let named = self.recipe.as_deref().map(|name| SCHEMA.load(name)).transpose()?;
        let named = named.as_ref().and_then(|settings| settings.text("run.recipe"));
        let out = self.resumed_folder(named.unwrap_or(DEFAULT))?;
        Request::resume(out, named, |settings| self.over.apply(settings, self.steps))
    }

    fn resumed_folder(&self, recipe: &str) -> Result<PathBuf> {
        let found = self.out.clone().or_else(|| last_run(recipe));
        found.ok_or_else(|| {
            Error::user(format!(
                "there is no run of {recipe} in runs/ to resume; name its folder with --out"
            ))
        })
    }
}
