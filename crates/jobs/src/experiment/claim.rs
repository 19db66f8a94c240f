//! Claims of a paper as conditions on the measured numbers, and their verdicts.

use super::digits;
use super::measure::{Better, Measure};
use super::pairs::{Pairs, means};
use super::reader::Reader;
use super::significance;
use super::summary::{BySeed, Key, Ratio, Summary};
use lessen_base::{Error, Result};
use serde_json::{Value, json};

/// A claim.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// The claim in words.
    pub text: String,
    /// The name of the measure.
    pub measure: String,
    condition: Condition,
    /// Where it is written, for messages.
    place: String,
}

#[derive(Clone, Debug)]
enum Condition {
    /// One point is better than another by more than this.
    Better { point: String, than: String, by: f64 },
    /// A point's mean is at least, or at most, this.
    Bound { point: String, least: bool, bound: f64 },
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The difference is that way, and more than chance makes.
    Held,
    /// It is the other way, and more than chance makes.
    NotHeld,
    /// Chance may make it with this many seeds.
    NotDecided(usize),
    /// A number is missing.
    Unknown,
}

impl Verdict {
    /// For people.
    pub(super) fn words(self) -> String {
        match self {
            Verdict::Held => "held".to_string(),
            Verdict::NotHeld => "not held".to_string(),
            Verdict::NotDecided(1) => "not decided with 1 seed".to_string(),
            Verdict::NotDecided(seeds) => format!("not decided with {seeds} seeds"),
            Verdict::Unknown => "not measured".to_string(),
        }
    }
}

impl Claim {
    /// Reads a `[[claim]]`.
    ///
    /// # Errors
    /// A key that is unknown, missing or has a wrong value.
    pub(super) fn read(mut reader: Reader<'_, '_>) -> Result<Claim> {
        let text = reader.required("text", "text = \"warm-up helps\"")?;
        let measure = reader.required("measure", "measure = \"dev_loss\"")?;
        let (better, than) = (reader.text("better")?, reader.text("than")?);
        let (by, point) = (reader.number("by")?, reader.text("point")?);
        let (least, most) = (reader.number("at_least")?, reader.number("at_most")?);
        let condition = match (better, than, point, least, most) {
            (Some(point), Some(than), None, None, None) => Condition::Better {
                point,
                than,
                by: by.unwrap_or(0.0),
            },
            (None, None, Some(point), Some(bound), None) => Condition::Bound {
                point,
                least: true,
                bound,
            },
            (None, None, Some(point), None, Some(bound)) => Condition::Bound {
                point,
                least: false,
                bound,
            },
            _ => {
                return Err(reader.error(
                    "a claim has better and than (and by), or point and one of at_least and at_most; write one of both",
                ));
            }
        };
        let place = reader.origin().to_string();
        reader.finish()?;
        Ok(Claim {
            text,
            measure,
            condition,
            place,
        })
    }

    /// Refuses a claim about a point or a measure that the experiment does not have.
    ///
    /// # Errors
    /// The unknown name, with the known names.
    pub(super) fn check(&self, points: &[&str], measures: &[Measure]) -> Result<()> {
        let named: Vec<&str> = match &self.condition {
            Condition::Better { point, than, .. } => vec![point, than],
            Condition::Bound { point, .. } => vec![point],
        };
        for name in &named {
            check_name(&self.place, "point", name, points)?;
        }
        if let [point, than] = named[..]
            && point == than
        {
            return Err(Error::user(format!(
                "{}: the claim compares '{point}' with itself; name another point in better or than",
                self.place
            )));
        }
        let measure = find(&self.place, &self.measure, measures)?;
        if matches!(self.condition, Condition::Better { .. }) && measure.better.is_none() {
            return Err(Error::user(format!(
                "{}: which is better in the measure {}, lower or higher? Give the measure better = \"lower\" or \"higher\"",
                self.place, self.measure
            )));
        }
        Ok(())
    }

    /// What is measured of it; `of` has the numbers of a point. [`judge`] decides all claims of a page.
    pub(super) fn measured(&self, measure: &Measure, of: impl Fn(&str) -> BySeed) -> Judged {
        match &self.condition {
            Condition::Better { point, than, by } => compared(measure, (point, &of(point)), (than, &of(than)), *by),
            Condition::Bound { point, least, bound } => bounded(measure, (point, &of(point)), *least, *bound),
        }
    }
}

/// A claim with its verdict.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub verdict: Verdict,
    /// The p of the t-test over the seeds; none of fewer than two.
    pub chance: Option<f64>,
    /// Whether what is measured is on the claim's side.
    is_met: bool,
    /// The numbers, in words.
    pub measured: String,
    /// By how much a point is better than the other, or than the bound; negative where it is worse.
    pub gain: Option<f64>,
    /// The ratio of two points.
    pub ratio: Option<Ratio>,
    /// Their differences by seed.
    pub pairs: Option<Pairs>,
}

impl Judged {
    /// The object of a claim with this text.
    pub(super) fn to_json(&self, text: &str) -> Value {
        let ratio = self
            .ratio
            .map(|ratio| json!({ "value": ratio.value, "deviation": ratio.deviation, "paired": ratio.paired }));
        json!({
            "claim": text,
            "verdict": self.verdict.words(),
            "p": self.chance,
            "measured": self.measured,
            "gain": self.gain,
            "ratio": ratio,
            "pairs": self.pairs.as_ref().map(Pairs::to_json),
        })
    }

    fn unknown() -> Judged {
        Judged {
            verdict: Verdict::Unknown,
            chance: None,
            is_met: false,
            measured: "a number is missing".to_string(),
            gain: None,
            ratio: None,
            pairs: None,
        }
    }
}

fn summary(numbers: &[(Key, f64)]) -> Option<Summary> {
    Summary::of(&numbers.iter().map(|(_, number)| *number).collect::<Vec<f64>>())
}

/// Decides all claims of a page together.
pub(super) fn judge(judged: &mut [Judged]) {
    let chances: Vec<Option<f64>> = judged.iter().map(|own| own.chance).collect();
    for (own, is_decided) in judged.iter_mut().zip(significance::decided(&chances)) {
        if is_decided {
            own.verdict = if own.is_met { Verdict::Held } else { Verdict::NotHeld };
        }
    }
}

/// Whether the first point is better than the second one, by more than `by`.
fn compared(measure: &Measure, own: (&str, &[(Key, f64)]), other: (&str, &[(Key, f64)]), by: f64) -> Judged {
    let Some((a, b)) = summary(own.1).zip(summary(other.1)) else {
        return Judged::unknown();
    };
    let gain = match measure.better {
        Some(Better::Lower) => b.mean - a.mean,
        _ => a.mean - b.mean,
    };
    let pairs = Pairs::of(own.1, other.1, measure.better == Some(Better::Lower));
    let by_seed = pairs.summary();
    let deviation = by_seed.map_or(0.0, |found| found.deviation);
    let size = measure.show_within(gain.abs(), deviation);
    let difference = match gain {
        _ if gain > 0.0 => format!("better by {size}"),
        _ if gain < 0.0 => format!("worse by {size}"),
        _ => "equal".to_string(),
    };
    let claimed = match by {
        0.0 => String::new(),
        _ if by > 0.0 => format!(", claimed: better by more than {}", measure.show_given(by)),
        _ => format!(", claimed: worse by less than {}", measure.show_given(-by)),
    };
    let gains: Vec<f64> = pairs.seeds.iter().map(|gain| gain - by).collect();
    let chance = significance::chance(&gains);
    let mut shown = match (by_seed, chance) {
        (Some(found), Some(chance)) => format!(
            "; deviation of {} differences by seed {}, {}",
            found.count,
            measure.show_within(deviation, deviation),
            significance::show(chance)
        ),
        _ => "; no spread".to_string(),
    };
    let ratio = Ratio::of(own.1, other.1);
    shown += &ratio.map_or(String::new(), |ratio| format!("; ratio {}", show_ratio(ratio)));
    if pairs.has_networks() {
        shown += &format!("; {}", pairs.told(&|number| measure.show_within(number, deviation)));
    }
    Judged {
        verdict: Verdict::NotDecided(gains.len()),
        chance,
        is_met: by_seed.is_some_and(|found| found.mean > by),
        measured: format!(
            "{} {} against {} {}: {difference}{claimed}{shown}",
            own.0,
            measure.show_summary(a, ""),
            other.0,
            measure.show_summary(b, "")
        ),
        gain: Some(gain),
        ratio,
        pairs: Some(pairs),
    }
}

/// A ratio with its spread.
fn show_ratio(ratio: Ratio) -> String {
    match ratio.deviation {
        None => format!("{:.3}", ratio.value),
        Some(deviation) => {
            let how = if ratio.paired { "seed by seed" } else { "seeds differ" };
            format!("{} ({how})", digits::spread(ratio.value, deviation, None))
        }
    }
}

/// Whether a point's mean is at least, or at most, a bound.
fn bounded(measure: &Measure, own: (&str, &[(Key, f64)]), least: bool, bound: f64) -> Judged {
    let Some(found) = summary(own.1) else {
        return Judged::unknown();
    };
    let sign = if least { 1.0 } else { -1.0 };
    let gain = sign * (found.mean - bound);
    let apart: Vec<f64> = means(own.1).iter().map(|number| sign * (number - bound)).collect();
    // A bound that all seeds meet exactly holds.
    let is_exact = apart.len() > 1 && apart.iter().all(|number| *number == 0.0);
    let chance = if is_exact {
        Some(0.0)
    } else {
        significance::chance(&apart)
    };
    let word = if least { "at least" } else { "at most" };
    let size = measure.show_within(gain.abs(), found.deviation);
    let difference = match gain {
        _ if gain < 0.0 => format!("missed by {size}"),
        _ => format!("met by {size}"),
    };
    Judged {
        verdict: Verdict::NotDecided(apart.len()),
        chance,
        is_met: apart.iter().sum::<f64>() >= 0.0,
        measured: format!(
            "{} {}, claimed {word} {}: {difference}; {}",
            own.0,
            measure.show_summary(found, ""),
            measure.show_given(bound),
            chance.map_or("no spread".to_string(), significance::show)
        ),
        gain: Some(gain),
        ratio: None,
        pairs: None,
    }
}

/// The measure of this name; `place` names who asks.
///
/// # Errors
/// A name that no measure has.
pub(super) fn find<'m>(place: &str, name: &str, measures: &'m [Measure]) -> Result<&'m Measure> {
    let names: Vec<&str> = measures.iter().map(|measure| measure.name.as_str()).collect();
    check_name(place, "measure", name, &names)?;
    let found = measures.iter().find(|measure| measure.name == name);
    found.ok_or_else(|| Error::internal(format!("the measure {name} has vanished")))
}

/// Refuses a name that nothing has.
///
/// # Errors
/// The name, with the known names.
pub(super) fn check_name(place: &str, what: &str, name: &str, known: &[&str]) -> Result<()> {
    if known.contains(&name) {
        return Ok(());
    }
    Err(Error::user(format!(
        "{place}: there is no {what} called '{name}'; there are {}",
        known.join("; ")
    )))
}
