//! Claims of a paper as conditions on the measured numbers, and their verdicts.

use super::digits;
use super::measure::{Better, Measure};
use super::pairs::Pairs;
use super::reader::Reader;
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
    /// The difference is that way, and larger than the deviation.
    Held,
    /// It is the other way, and larger than the deviation.
    DidNotHold,
    /// It is no larger than the deviation.
    WithinSpread,
    /// A number is missing.
    Unknown,
}

impl Verdict {
    /// For people.
    pub(super) fn word(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::DidNotHold => "did not hold",
            Verdict::WithinSpread => "within the spread",
            Verdict::Unknown => "not measured",
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

    /// Its verdict; `of` has the numbers of a point.
    pub(super) fn verdict(&self, measure: &Measure, of: impl Fn(&str) -> BySeed) -> Judged {
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
    /// The numbers, in words.
    pub measured: String,
    /// By how much a point is better than the other, or than the bound; negative where it is worse.
    pub gain: Option<f64>,
    /// The ratio of two points.
    pub ratio: Option<Ratio>,
    /// Their differences pair by pair, where several networks learned from each set of images.
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
            "verdict": self.verdict.word(),
            "measured": self.measured,
            "gain": self.gain,
            "ratio": ratio,
            "pairs": self.pairs.as_ref().map(Pairs::to_json),
        })
    }

    fn unknown() -> Judged {
        Judged {
            verdict: Verdict::Unknown,
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

/// Whether the first point is better than the second one, by more than `by`.
fn compared(measure: &Measure, own: (&str, &[(Key, f64)]), other: (&str, &[(Key, f64)]), by: f64) -> Judged {
    let Some((a, b)) = summary(own.1).zip(summary(other.1)) else {
        return Judged::unknown();
    };
    let gain = match measure.better {
        Some(Better::Lower) => b.mean - a.mean,
        _ => a.mean - b.mean,
    };
    let spread = a.pooled(b);
    let size = measure.show_within(gain.abs(), spread.unwrap_or(0.0));
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
    let told = spread.map_or("no spread, as each has one run".to_string(), |spread| {
        format!("pooled deviation {}", measure.show_within(spread, spread))
    });
    let ratio = Ratio::of(own.1, other.1);
    let mut shown = ratio.map_or(String::new(), |ratio| format!("; ratio {}", show_ratio(ratio)));
    let pairs = Pairs::of(own.1, other.1, measure.better == Some(Better::Lower));
    if let Some(pairs) = &pairs {
        shown += &format!(
            "; {}",
            pairs.told(&|number| measure.show_within(number, spread.unwrap_or(0.0)))
        );
    }
    Judged {
        verdict: judge(gain - by, spread.unwrap_or(0.0)),
        measured: format!(
            "{} {} against {} {}: {difference}{claimed}; {told}{shown}",
            own.0,
            measure.show_summary(a, ""),
            other.0,
            measure.show_summary(b, "")
        ),
        gain: Some(gain),
        ratio,
        pairs,
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
    let gain = if least { found.mean - bound } else { bound - found.mean };
    let verdict = match judge(gain, found.deviation) {
        // A bound that is met exactly holds.
        Verdict::WithinSpread if gain == 0.0 && found.deviation == 0.0 => Verdict::Held,
        verdict => verdict,
    };
    let word = if least { "at least" } else { "at most" };
    let size = measure.show_within(gain.abs(), found.deviation);
    let difference = match gain {
        _ if gain < 0.0 => format!("missed by {size}"),
        _ => format!("met by {size}"),
    };
    Judged {
        verdict,
        measured: format!(
            "{} {}, claimed {word} {}: {difference}",
            own.0,
            measure.show_summary(found, ""),
            measure.show_given(bound)
        ),
        gain: Some(gain),
        ratio: None,
        pairs: None,
    }
}

/// The verdict on a gain that is claimed to be positive.
fn judge(gain: f64, spread: f64) -> Verdict {
    match gain {
        _ if gain > spread => Verdict::Held,
        _ if gain < -spread => Verdict::DidNotHold,
        _ if gain.is_nan() => Verdict::Unknown,
        _ => Verdict::WithinSpread,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_within_the_spread_is_no_verdict() {
        assert_eq!(judge(0.2, 0.1), Verdict::Held);
        assert_eq!(judge(-0.2, 0.1), Verdict::DidNotHold);
        assert_eq!(
            [judge(0.1, 0.1), judge(-0.1, 0.1), judge(0.0, 0.0)],
            [Verdict::WithinSpread; 3]
        );
        assert_eq!(judge(1e-9, 0.0), Verdict::Held);
        assert_eq!(judge(f64::NAN, 0.1), Verdict::Unknown);
    }
}
