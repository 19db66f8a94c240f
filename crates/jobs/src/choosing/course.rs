//! The course of a choice: a look, choices, candidates that are trained one after another, and the result.

use super::choice::{self, Plan};
use super::ending;
use super::placing::place;
use super::plan::plan_of;
use super::progress::{CHOICE, Progress, Settled, Stage};
use super::report::ChoiceReport;
use super::request::ChoiceRequest;
use super::settling::{read, settle};
use crate::training::{Request, train};
use lessen_base::atomic::unwritable;
use lessen_base::{Error, Result};
use lessen_data::look::{Look, LookOptions};
use lessen_task::device::NewBackend;
use lessen_task::folder::Folder;
use lessen_task::folder::run_lock::RunLock;
use lessen_task::shared_data::SharedData;
use lessen_task::wording::{report, show_duration, tell};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// The share of the minutes that the linear model may take, which leaves the rest to the network.
const OF_LINEAR: f64 = 0.25;

/// The share of the minutes for what comes after the trainings.
const OF_ENDING: f64 = 0.1;

/// The time in which models learn something, in times of what it takes to read data and time models.
const OF_READING: f64 = 4.0;

/// Looks at data, chooses what is trained, trains it and takes the best, as validation tells.
///
/// # Errors
/// Data that nothing can be learned from, a folder that cannot be used, settings with a mistake.
pub fn choose(request: &ChoiceRequest<'_>, new_backend: &NewBackend) -> Result<ChoiceReport> {
    let clock = Instant::now();
    let (out, shared) = (request.out.as_path(), SharedData::default());
    let (mut progress, _lock) = if request.resumes {
        resumed(out)?
    } else {
        Folder::check_free(out)?;
        let progress = begin(request, &shared, clock, new_backend)?;
        fs::create_dir_all(out).map_err(|error| unwritable(out, &error))?;
        let lock = RunLock::take(out)?;
        progress.write(out)?;
        (progress, lock)
    };
    let before = progress.seconds;
    if progress.stage == Stage::Training {
        let Some(Trained { names, left_out }) = train_all(out, &progress, &shared, new_backend)? else {
            progress.seconds = before + clock.elapsed().as_secs_f64();
            progress.write(out)?;
            return Ok(ChoiceReport::interrupted(out));
        };
        let (winner, mut result) = ending::judge(out, &progress, &names, &shared, new_backend)?;
        if let Some(verdict) = result["verdict"].as_array_mut() {
            verdict.extend(left_out.into_iter().map(Value::String));
        }
        (progress.result, progress.stage) = (result, Stage::Placing(winner));
        progress.seconds = before + clock.elapsed().as_secs_f64();
        progress.write(out)?;
    }
    if let Stage::Placing(winner) = progress.stage.clone() {
        place(out, &winner)?;
        progress.stage = Stage::Done(winner);
        progress.write(out)?;
    }
    let ended = ChoiceReport::of(out, &progress)?;
    ended.write(out)?;
    Ok(ended)
}

/// A choice that goes on, and the lock of its folder.
fn resumed(out: &Path) -> Result<(Progress, RunLock)> {
    let progress = Progress::read(out)?.ok_or_else(|| {
        Error::user(format!(
            "the folder {} has no {CHOICE} to go on from; name the folder of a `lessen train --data`",
            out.display()
        ))
    })?;
    Ok((progress, RunLock::take(out)?))
}

/// Looks, chooses and settles; nothing is written yet.
fn begin(
    request: &ChoiceRequest<'_>,
    shared: &SharedData,
    clock: Instant,
    new_backend: &NewBackend,
) -> Result<Progress> {
    let look = Look::of(&request.data, &LookOptions::default())?;
    report(look.to_text().trim_end());
    if let Some(reason) = &look.blocking {
        return Err(Error::user(reason.clone()));
    }
    let plan = plan_of(&look, request)?;
    report(&format!("chosen for these {} min:", request.minutes));
    report(choice::to_text(&plan.choices).trim_end());
    let mut progress = Progress::new(request.minutes, look.to_json(), plan);
    settle_all(&mut progress, request, shared, clock, new_backend)?;
    Ok(progress)
}

/// Settles the steps of all candidates.
fn settle_all(
    progress: &mut Progress,
    request: &ChoiceRequest<'_>,
    shared: &SharedData,
    clock: Instant,
    new_backend: &NewBackend,
) -> Result<()> {
    let whole = 60.0 * progress.minutes;
    let Plan { candidates, .. } = &progress.plan;
    let (mut taken, mut beginnings) = (whole * OF_ENDING, 0.0);
    for (number, candidate) in candidates.iter().enumerate() {
        let is_last = number + 1 == candidates.len();
        let seconds = || {
            let left = whole - taken - clock.elapsed().as_secs_f64();
            if is_last { left } else { left.min(whole * OF_LINEAR) }
        };
        let settled = settle(candidate, request, shared, &seconds, new_backend)?;
        report(&format!(
            "{}: {}, {}, about {}",
            candidate.name,
            candidate.model,
            settled.words,
            show_duration(settled.seconds)
        ));
        taken += settled.seconds;
        beginnings += settled.beginning;
        progress.settled.push(Settled {
            name: candidate.name.clone(),
            settings: settled.settings.to_toml(),
        });
    }
    let needed = beginnings + clock.elapsed().as_secs_f64();
    if needed > whole {
        tell(&format!(
            "warning: reading {} and timing its models alone takes longer than {} min, so that hardly anything is \
             learned; give it about {:.0} min with --minutes",
            request.data.display(),
            progress.minutes,
            (OF_READING * needed / 60.0).ceil()
        ));
    }
    Ok(())
}

/// The candidates that were trained to their end, and what there is to tell of the others.
struct Trained {
    names: Vec<String>,
    left_out: Vec<String>,
}

/// Trains the candidates one after another; none where that was interrupted. One that diverges is left out if another
/// is trained to its end.
fn train_all(
    out: &Path,
    progress: &Progress,
    shared: &SharedData,
    new_backend: &NewBackend,
) -> Result<Option<Trained>> {
    let (mut all, mut first) = (
        Trained {
            names: Vec::new(),
            left_out: Vec::new(),
        },
        None,
    );
    for Settled { name, .. } in &progress.settled {
        report(&format!("training the {name} model"));
        match trained(out, progress, name, shared, new_backend) {
            Ok(true) => all.names.push(name.clone()),
            Ok(false) => return Ok(None),
            Err(error @ Error::User(_)) => {
                let sentence = format!("the {name} model is left out: {error}");
                report(&sentence);
                all.left_out.push(sentence);
                first = first.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    match first {
        Some(error) if all.names.is_empty() => Err(error),
        _ => Ok(Some(all)),
    }
}

/// Trains a candidate to its end; false where it was interrupted.
fn trained(out: &Path, progress: &Progress, name: &str, shared: &SharedData, new_backend: &NewBackend) -> Result<bool> {
    let folder = out.join(name);
    let asked = match folder.join("config.toml").is_file() {
        true => Request::resume(folder, None, |_| Ok(()))?,
        false => {
            let text = progress.settings_of(name).unwrap_or_default();
            Request::new(read(text, &out.join(CHOICE))?, folder)
        }
    };
    Ok(!train(&asked.on(shared), new_backend)?.interrupted)
}
