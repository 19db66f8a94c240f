//! The clock settles how long candidates train: once, before the first of them begins.

use super::choice::Candidate;
use super::request::{ChoiceRequest, Part};
use crate::schema::SCHEMA;
use crate::training::Request;
use crate::training::probe::{Pace, probe};
use lessen_base::{Error, Result};
use lessen_task::device::NewBackend;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::{Origin, SettingValue};
use lessen_task::shared_data::SharedData;
use std::path::Path;
use std::time::Duration;

/// The share of a candidate's time that its evaluations may take.
const OF_EVALUATIONS: f64 = 0.2;

/// The share of a candidate's time in which its steps are timed.
const OF_PROBE: f64 = 0.03;

/// The most seconds in which steps are timed.
const LONGEST_PROBE: f64 = 2.0;

/// The settings of a candidate with the number of its steps.
pub(super) struct SettledCandidate {
    pub settings: Settings,
    /// Seconds that its training takes, as its first steps tell.
    pub seconds: f64,
    /// Those of them that pass before the first step.
    pub beginning: f64,
    /// What was settled, in words.
    pub words: String,
}

/// Settles the steps of a candidate that may take the seconds that are left at each call. The first of its models is
/// taken for which they are enough. `train.steps` and `train.epochs` of flags stay as they are.
///
/// # Errors
/// Settings, data or a checkpoint with a mistake.
pub(super) fn settle(
    candidate: &Candidate,
    request: &ChoiceRequest<'_>,
    shared: &SharedData,
    seconds: &dyn Fn() -> f64,
    new_backend: &NewBackend,
) -> Result<SettledCandidate> {
    let part = Part::of(&candidate.name);
    // Where no time is left, the smallest model is the one that is taken, and others need not be timed.
    let first = if seconds() > 0.0 {
        0
    } else {
        candidate.recipes.len().saturating_sub(1)
    };
    let mut smaller = candidate.recipes.iter().skip(first).peekable();
    while let Some(recipe) = smaller.next() {
        let mut settings = SCHEMA.parse(recipe, "what was chosen")?;
        (request.over)(&mut settings, part)?;
        let probed = Request::new(settings.clone(), request.out.join(&candidate.name)).on(shared);
        let time = (seconds() * OF_PROBE).min(LONGEST_PROBE);
        let pace = probe(&probed, Duration::from_secs_f64(time.max(0.0)), new_backend)?;
        let plan = Steps::of(candidate, &pace, seconds() - pace.beginning);
        let given = ["train.steps", "train.epochs", "train.eval_every"];
        let given = given.map(|key| (key, matches!(settings.origin(key), Origin::Flag(_))));
        let is_given = |key: &str| given.contains(&(key, true));
        let is_settled = is_given("train.steps") || is_given("train.epochs");
        if smaller.peek().is_some() && !is_settled && plan.epochs(&pace) < candidate.least_epochs as f64 {
            continue;
        }
        let own = is_settled.then(|| given_steps(&settings, &pace));
        let total = own.unwrap_or(plan.total);
        let every = plan.every.min(total).max(1);
        let set = |settings: &mut Settings, key: &str, count: u64| match is_given(key) {
            true => Ok(()),
            false => settings.set_at(key, SettingValue::Count(count), Origin::Line(CLOCK.to_string(), 1)),
        };
        set(&mut settings, "train.steps", total)?;
        set(&mut settings, "train.eval_every", every)?;
        let settings = settings.with_absolute_paths();
        return Ok(SettledCandidate {
            beginning: pace.beginning,
            seconds: pace.beginning + total as f64 * pace.step + (total / every) as f64 * pace.evaluation,
            words: format!(
                "{} steps ({:.1} epochs) of {:.1} ms",
                total,
                total as f64 / pace.epoch as f64,
                1e3 * pace.step
            ),
            settings,
        });
    }
    Err(Error::internal("a candidate without a recipe"))
}

/// The place of settings that the clock has settled, for messages.
const CLOCK: &str = "the time that there is";

/// The steps that flags give.
fn given_steps(settings: &Settings, pace: &Pace) -> u64 {
    let count = |key: &str| match settings.get(key) {
        Some(SettingValue::Count(count)) => *count,
        _ => 0,
    };
    match count("train.steps") {
        0 => count("train.epochs").max(1).saturating_mul(pace.epoch),
        steps => steps,
    }
}

/// The steps that a time is enough for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Steps {
    total: u64,
    /// Steps between evaluations.
    every: u64,
}

impl Steps {
    fn of(candidate: &Candidate, pace: &Pace, seconds: f64) -> Steps {
        let step = pace.step.max(1e-6);
        // At least one evaluation, at the end.
        let evaluations = (seconds * OF_EVALUATIONS / pace.evaluation.max(1e-6)).max(1.0);
        let wanted = candidate.epochs.saturating_mul(pace.epoch).max(1);
        let most = (seconds.max(0.0) * (1.0 - OF_EVALUATIONS) / step) as u64;
        let total = wanted.min(most.max(1));
        let rounds = (total as f64 / pace.epoch as f64)
            .ceil()
            .min(evaluations.floor())
            .max(1.0);
        Steps {
            total,
            every: total.div_ceil(rounds as u64).max(1),
        }
    }

    fn epochs(&self, pace: &Pace) -> f64 {
        self.total as f64 / pace.epoch as f64
    }
}

/// Reads settled settings back.
///
/// # Errors
/// A text that was changed by hand.
pub(super) fn read(text: &str, file: &Path) -> Result<Settings> {
    SCHEMA.parse(text, &file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate() -> Candidate {
        Candidate {
            name: "network".into(),
            model: "an encoder".into(),
            recipes: Vec::new(),
            epochs: 10,
            least_epochs: 3,
        }
    }

    fn pace(step: f64, evaluation: f64) -> Pace {
        Pace {
            beginning: 1.0,
            step,
            evaluation,
            epoch: 100,
        }
    }

    #[test]
    fn steps_fill_the_time_and_no_more_epochs_than_are_worth_it() {
        let of = |step, evaluation, seconds| Steps::of(&candidate(), &pace(step, evaluation), seconds);
        assert_eq!(
            of(0.001, 0.01, 100.0),
            Steps {
                total: 1000,
                every: 100
            }
        );
        // 80 s of steps of 0.4 s, and an evaluation in each epoch.
        assert_eq!(of(0.4, 0.1, 100.0), Steps { total: 200, every: 100 });
        // An evaluation takes a tenth of the time.
        assert_eq!(of(0.1, 10.0, 100.0), Steps { total: 800, every: 400 });
        assert_eq!(of(10.0, 1.0, 0.0), Steps { total: 1, every: 1 });
    }
}
