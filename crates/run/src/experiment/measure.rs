//! Measures of an experiment's runs: numbers of `metrics.jsonl` and `report.json`, and losses at other lengths.

use super::reader::Reader;
use crate::lengths::Length;
use crate::recipe::value::SettingValue;
use crate::training::median;
use lessen_base::{Error, Result};
use serde_json::Value;
use std::collections::BTreeSet;

/// Numbers of a run as a whole, as `report.json` has them; all that are not here are of a step.
const OF_THE_RUN: [&str; 5] = ["compile_ms", "peak_bytes", "samples_per_s", "tokens_per_s", "best_step"];

/// Numbers that every step has.
const OF_STEPS: [&str; 3] = ["loss", "lr", STEP_TIME];

/// The key of a step's time. At the end of a run, the median of the times counts.
const STEP_TIME: &str = "step_ms";

/// The step at which a number is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Moment {
    /// The last step that has the number.
    End,
    /// The step with the best number.
    Best,
    /// The step of this number.
    Step(u64),
}

/// Which of two numbers is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    Lower,
    Higher,
}

/// A column of the table.
#[derive(Clone, Debug)]
pub(super) struct Measure {
    /// Its heading.
    pub name: String,
    /// The key in the files of a run.
    pub value: String,
    pub at: Moment,
    /// Only in this training phase.
    pub phase: Option<String>,
    /// The length of the windows in an evaluation after the end.
    pub length: Option<Length>,
    /// Which of two numbers is better, as far as that is known.
    pub better: Option<Better>,
    /// Digits after the point.
    pub digits: Option<usize>,
    /// Factor of the number before it is shown.
    pub scale: f64,
    /// Whether runs without it are allowed, as long as one has it.
    pub optional: bool,
}

impl Measure {
    /// Reads a `[[measure]]`.
    ///
    /// # Errors
    /// A key that is unknown, missing or has a wrong value.
    pub(super) fn read(mut reader: Reader<'_, '_>) -> Result<Measure> {
        let value = reader.required("value", "value = \"dev_loss\"")?;
        let at = match reader.value("at")? {
            None => Moment::End,
            Some(SettingValue::Text(word)) if word == "end" => Moment::End,
            Some(SettingValue::Text(word)) if word == "best" => Moment::Best,
            Some(SettingValue::Count(step)) if step > 0 => Moment::Step(step),
            Some(_) => return Err(reader.error("measure.at must be \"end\", \"best\" or the number of a step")),
        };
        let phase = reader.text("phase")?;
        let length = reader.text("length")?.map(|text| Length::parse(&text)).transpose();
        let length = length.map_err(|error| error.at(reader.origin()))?;
        if length.is_some() && (value != "dev_loss" || at != Moment::End || phase.is_some()) {
            return Err(reader.error("measure.length is for value = \"dev_loss\" at the end; leave out at and phase"));
        }
        let words = [("lower", Better::Lower), ("higher", Better::Higher)];
        let better = reader.word("better", &words)?.or_else(|| natural(&value));
        if at == Moment::Best && better.is_none() {
            return Err(
                reader.error("measure.better is missing; write \"lower\" or \"higher\", so that a best one exists")
            );
        }
        let digits = reader.number("digits")?.map(|digits| digits.clamp(0.0, 12.0) as usize);
        let scale = reader.number("scale")?.unwrap_or(1.0);
        let optional = reader.switch("optional")?.unwrap_or(false);
        let name = reader.text("name")?;
        let name = name.unwrap_or_else(|| default_name(&value, at, phase.as_deref(), length));
        reader.finish()?;
        Ok(Measure {
            name,
            value,
            at,
            phase,
            length,
            better,
            digits,
            scale,
            optional,
        })
    }

    /// Refuses a measure that runs with these keys in their metrics and phases do not have. `origin` names the place.
    ///
    /// # Errors
    /// A number or a phase that is unknown; the sentence lists the known names.
    pub(super) fn check(&self, known: &BTreeSet<String>, phases: &[&str], run: &str) -> Result<()> {
        if let Some(phase) = self.phase.as_deref().filter(|phase| !phases.contains(phase)) {
            let has = if phases.is_empty() {
                "none".to_string()
            } else {
                phases.join(", ")
            };
            return Err(Error::user(format!(
                "the measure {} is of the phase '{phase}', but {run} has {has}",
                self.name
            )));
        }
        let is_of_run = OF_THE_RUN.contains(&self.value.as_str());
        if is_of_run && (self.at != Moment::End || self.phase.is_some()) {
            return Err(Error::user(format!(
                "the measure {} is of a whole run; leave out at and phase",
                self.name
            )));
        }
        if is_of_run || known.contains(&self.value) {
            return Ok(());
        }
        let alike = |name: &&str| strsim::normalized_damerau_levenshtein(name, &self.value);
        let all = known.iter().map(String::as_str).chain(OF_THE_RUN);
        let nearest = all.max_by(|a, b| alike(a).total_cmp(&alike(b))).unwrap_or_default();
        Err(Error::user(format!(
            "the measure {} has the value '{}', which {run} does not record; did you mean {nearest}?",
            self.name, self.value
        )))
    }

    /// The number of a run; none where it has no such number.
    pub(super) fn of(&self, outcome: &Outcome) -> Option<f64> {
        if let Some(length) = self.length {
            return outcome.lengths.get(length.to_string())?.as_f64();
        }
        if OF_THE_RUN.contains(&self.value.as_str()) {
            let number = &outcome.report[&self.value];
            // What the plans say of states, constants and arena, which is the same in every process.
            let planned = || number["plans"].as_f64().or_else(|| number["planned"].as_f64());
            return number.as_f64().or_else(planned);
        }
        let course = self.course(outcome);
        let numbers = course.iter().map(|(_, number)| *number);
        match (self.at, self.better) {
            (Moment::End, _) if self.value == STEP_TIME => Some(median(numbers.collect())),
            (Moment::End, _) => course.last().map(|(_, number)| *number),
            (Moment::Step(step), _) => course.iter().find(|(own, _)| *own == step).map(|(_, number)| *number),
            (Moment::Best, Some(Better::Higher)) => numbers.reduce(f64::max),
            (Moment::Best, _) => numbers.reduce(f64::min),
        }
    }

    /// Whether it has a course over the steps.
    pub(super) fn has_course(&self) -> bool {
        self.length.is_none() && !OF_THE_RUN.contains(&self.value.as_str())
    }

    /// The number over the steps of a run.
    pub(super) fn course(&self, outcome: &Outcome) -> Vec<(u64, f64)> {
        let own = |line: &&Value| self.phase.as_ref().is_none_or(|phase| line["phase"] == phase.as_str());
        let point = |line: &Value| Some((line["step"].as_u64()?, line.get(&self.value)?.as_f64()?));
        outcome.metrics.iter().filter(own).filter_map(point).collect()
    }

    /// The number for people.
    pub(super) fn show(&self, number: f64) -> String {
        let number = number * self.scale;
        match self.digits {
            Some(digits) => format!("{number:.digits$}"),
            None if number.abs() >= 1e5 || (number != 0.0 && number.abs() < 1e-3) => format!("{number:.3e}"),
            None if number.abs() >= 100.0 => format!("{number:.1}"),
            None => format!("{number:.4}"),
        }
    }
}

/// The folder of a finished run, as far as measures read it.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The lines of `metrics.jsonl`.
    pub metrics: Vec<Value>,
    /// `report.json`.
    pub report: Value,
    /// Losses by the length of the windows.
    pub lengths: Value,
}

/// The keys of the metrics of a run with these scores and recorded statistics.
pub(super) fn known_keys(clips: bool, scores: &[&str], statistics: impl Iterator<Item = String>) -> BTreeSet<String> {
    let steps = OF_STEPS
        .into_iter()
        .chain(clips.then_some("gradient_norm"))
        .map(str::to_string);
    let scores = scores.iter().chain(&["loss"]).map(|name| format!("dev_{name}"));
    steps.chain(scores).chain(statistics).collect()
}

/// Which of two numbers is better, where the name tells.
fn natural(value: &str) -> Option<Better> {
    let is = |words: &[&str]| words.iter().any(|word| value.ends_with(word));
    match value {
        _ if is(&["loss", "mse", "mae", "_ms", "_bytes"]) => Some(Better::Lower),
        _ if is(&["accuracy", "f1", "matthews", "pearson", "spearman", "_per_s"]) => Some(Better::Higher),
        _ => None,
    }
}

fn default_name(value: &str, at: Moment, phase: Option<&str>, length: Option<Length>) -> String {
    let place = match (at, length) {
        (_, Some(length)) => format!(" at length {length}"),
        (Moment::End, None) => String::new(),
        (Moment::Best, None) => ", best".to_string(),
        (Moment::Step(step), None) => format!(" after step {step}"),
    };
    let phase = phase.map_or(String::new(), |phase| format!(" of phase {phase}"));
    format!("{value}{place}{phase}")
}
