//! Measures of an experiment's runs: numbers of `metrics.jsonl` and `report.json`, and losses at other lengths.

use super::digits;
use super::reader::Reader;
use super::summary::Summary;
use crate::training::median;
use lessen_base::{Error, Result};
use lessen_saved::lengths::Length;
use lessen_task::recipe::value::SettingValue;
use serde_json::Value;
use std::collections::BTreeSet;

/// Numbers of a run as a whole, as `report.json` has them; all that are not here are of a step.
const OF_THE_RUN: [&str; 5] = ["compile_ms", PEAK, "samples_per_s", "tokens_per_s", "best_step"];

/// Numbers of a search and of the training of its network.
pub(super) const OF_SEARCHES: [&str; 12] = [
    TEST_ERROR,
    "test_accuracy",
    "test_loss",
    "energy_mj",
    "latency_ms",
    "size_mb",
    "value",
    "mean_bits_pointwise",
    "mean_bits_depthwise",
    "bits_ratio",
    "search_seconds",
    "training_seconds",
];

/// The key of the share of a test split that a network gets wrong.
pub(super) const TEST_ERROR: &str = "test_error";

/// The key of the peak of the plans.
pub(super) const PEAK: &str = "peak_bytes";

/// Keys of condensations: the accuracy of networks that learn from the images, and the same relative to that after the
/// whole training split; the distance of gradients and the time of an iteration.
pub(super) const ACCURACY: &str = "accuracy";
pub(super) const RELATIVE: &str = "relative";
pub(super) const DISTANCE: &str = "distance";
pub(super) const ITERATION_TIME: &str = "iteration_ms";

/// The factor from bytes to MiB.
const MIB: f64 = 1.0 / (1 << 20) as f64;

/// Numbers that every step has.
const OF_STEPS: [&str; 3] = ["loss", "lr", STEP_TIME];

/// The key of a step's time.
const STEP_TIME: &str = "step_ms";

/// Times of which the median counts at the end of a run.
const TIMES: [&str; 2] = [STEP_TIME, ITERATION_TIME];

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

impl Better {
    /// The end of a sentence.
    fn says(self) -> &'static str {
        match self {
            Better::Lower => "; lower is better",
            Better::Higher => "; higher is better",
        }
    }
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
        let digits = match reader.value("digits")? {
            None => None,
            Some(SettingValue::Count(digits @ 0..=12)) => Some(digits as usize),
            Some(_) => return Err(reader.error("measure.digits must be a whole number from 0 to 12")),
        };
        let scale = reader.number("scale")?.unwrap_or(1.0);
        if scale == 0.0 {
            return Err(reader.error("measure.scale must not be 0, which hides every number; leave it out"));
        }
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

    /// The measures of an experiment that names none: the scores of its runs, loss, time of a step and peak.
    pub(super) fn defaults(scores: &[String]) -> Vec<Measure> {
        let scores = scores.iter().map(|score| format!("dev_{score}"));
        Measure::of_values(scores.chain(["dev_loss", STEP_TIME, PEAK].map(str::to_string)))
    }

    /// The measures of an experiment of condensations that names none: these accuracies, distance and time.
    pub(super) fn of_condensations(accuracies: Vec<String>) -> Vec<Measure> {
        let images = [DISTANCE, ITERATION_TIME].map(str::to_string);
        Measure::of_values(accuracies.into_iter().chain(images))
    }

    /// The measures of an experiment of searches that names none: error and costs.
    pub(super) fn of_searches() -> Vec<Measure> {
        Measure::of_values(
            [TEST_ERROR, "energy_mj", "latency_ms", "size_mb"]
                .map(str::to_string)
                .into_iter(),
        )
    }

    fn of_values(values: impl Iterator<Item = String>) -> Vec<Measure> {
        let measure = |value: String| {
            let (scale, name) = match value.as_str() {
                PEAK => (MIB, "peak_bytes, MiB".to_string()),
                _ => (1.0, value.clone()),
            };
            Measure {
                name,
                at: Moment::End,
                phase: None,
                length: None,
                better: natural(&value),
                digits: None,
                scale,
                optional: false,
                value,
            }
        };
        values.map(measure).collect()
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
        if self.is_of_run() {
            let number = &outcome.report[&self.value];
            // What the plans say of states, constants and arena, which is the same in every process.
            let planned = || number["plans"].as_f64().or_else(|| number["planned"].as_f64());
            return number.as_f64().or_else(planned);
        }
        let course = self.course(outcome);
        let numbers = course.iter().map(|(_, number)| *number);
        match (self.at, self.better) {
            (Moment::End, _) if self.is_time() => {
                let times: Vec<f64> = numbers.collect();
                (!times.is_empty()).then(|| median(times))
            }
            (Moment::End, _) => course.last().map(|(_, number)| *number),
            (Moment::Step(step), _) => course.iter().find(|(own, _)| *own == step).map(|(_, number)| *number),
            (Moment::Best, Some(Better::Higher)) => numbers.reduce(f64::max),
            (Moment::Best, _) => numbers.reduce(f64::min),
        }
    }

    fn is_time(&self) -> bool {
        TIMES.contains(&self.value.as_str())
    }

    /// Whether it has a course over the steps.
    pub(super) fn has_course(&self) -> bool {
        self.length.is_none() && !self.is_of_run()
    }

    /// Whether it is a number of a run as a whole.
    fn is_of_run(&self) -> bool {
        let value = self.value.as_str();
        OF_THE_RUN.contains(&value) || OF_SEARCHES.contains(&value)
    }

    /// Its key in a file of kept runs, whatever it is called on the page.
    pub(super) fn key(&self) -> String {
        default_name(&self.value, self.at, self.phase.as_deref(), self.length)
    }

    /// The number over the steps of a run.
    pub(super) fn course(&self, outcome: &Outcome) -> Vec<(u64, f64)> {
        let own = |line: &&Value| self.phase.as_ref().is_none_or(|phase| line["phase"] == phase.as_str());
        let point = |line: &Value| Some((line["step"].as_u64()?, line.get(&self.value)?.as_f64()?));
        outcome.metrics.iter().filter(own).filter_map(point).collect()
    }

    /// A number for people.
    pub(super) fn show(&self, number: f64) -> String {
        digits::alone(number * self.scale, self.digits)
    }

    /// A number that the file gives.
    pub(super) fn show_given(&self, number: f64) -> String {
        digits::given(number * self.scale)
    }

    /// A number whose spread is known, with the digits that it leaves.
    pub(super) fn show_within(&self, number: f64, spread: f64) -> String {
        digits::with_digits_of(number * self.scale, spread * self.scale.abs(), self.digits)
    }

    /// Mean, deviation and number of runs; `more` is said beside the latter.
    pub(super) fn show_summary(&self, found: Summary, more: &str) -> String {
        let (mean, deviation) = (found.mean * self.scale, found.deviation * self.scale.abs());
        let shown = match found.count {
            1 => digits::alone(mean, self.digits),
            _ => digits::spread(mean, deviation, self.digits),
        };
        format!("{shown} ({}{more})", found.count)
    }

    /// What it is, in words.
    pub(super) fn describe(&self) -> String {
        let key = format!("`{}`", self.value);
        let mut text = match (self.at, self.length) {
            (_, Some(length)) => format!("{key} in windows of length {length}, after the end"),
            (Moment::End, None) if self.value == PEAK => format!("{key}: states, constants and arena, as planned"),
            (Moment::End, None) if self.is_of_run() => format!("{key} of the whole run"),
            (Moment::End, None) if self.is_time() => format!("median of {key} over the steps"),
            (Moment::End, None) => format!("last {key}"),
            (Moment::Best, None) => format!("best {key}"),
            (Moment::Step(step), None) => format!("{key} after step {step}"),
        };
        if let Some(phase) = &self.phase {
            text += &format!(" in phase {phase}");
        }
        if self.scale == MIB {
            text += ", in MiB";
        } else if self.scale != 1.0 {
            text += &format!(", times {}", digits::given(self.scale));
        }
        text += match self.better {
            Some(better) => better.says(),
            None => "",
        };
        if self.optional {
            text += "; not every run has it";
        }
        text
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
    let value = value.split('/').next().unwrap_or(value);
    let is = |words: &[&str]| words.iter().any(|word| value.ends_with(word));
    match value {
        _ if is(&[
            "loss",
            "perplexity",
            "mse",
            "mae",
            "error",
            "_ms",
            "_mj",
            "_mb",
            "_seconds",
            "_bytes",
            DISTANCE,
        ]) =>
        {
            Some(Better::Lower)
        }
        _ if is(&["accuracy", "f1", "matthews", "pearson", "spearman", "_per_s", RELATIVE]) => Some(Better::Higher),
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
