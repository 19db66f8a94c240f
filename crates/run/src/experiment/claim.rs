//! Claims of a paper as conditions on the measured numbers, and their verdicts.

use super::measure::{Better, Measure};
use super::reader::Reader;
use super::summary::Summary;
use lessen_base::{Error, Result};

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
        for name in named {
            check_name(&self.place, "point", name, points)?;
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
    pub(super) fn verdict(&self, measure: &Measure, of: impl Fn(&str) -> Option<Summary>) -> (Verdict, String) {
        let unknown = (Verdict::Unknown, "a number is missing".to_string());
        let show = |number: f64| measure.show(number);
        match &self.condition {
            Condition::Better { point, than, by } => {
                let Some((a, b)) = of(point).zip(of(than)) else {
                    return unknown;
                };
                let gain = match measure.better {
                    Some(Better::Lower) => b.mean - a.mean,
                    _ => a.mean - b.mean,
                };
                let spread = a.pooled(b);
                let told = spread.map_or("one run each, no spread".to_string(), |spread| {
                    format!("pooled deviation {}", show(spread))
                });
                let beside = if *by == 0.0 {
                    String::new()
                } else {
                    format!(", claimed {}", show(*by))
                };
                let how = format!(
                    "{point} {} against {than} {}: better by {}{beside}; {told}",
                    show(a.mean),
                    show(b.mean),
                    show(gain)
                );
                (judge(gain - by, spread.unwrap_or(0.0)), how)
            }
            Condition::Bound { point, least, bound } => {
                let Some(found) = of(point) else { return unknown };
                let gain = if *least { found.mean - bound } else { bound - found.mean };
                let word = if *least { "at least" } else { "at most" };
                let how = format!(
                    "{point} {}, claimed {word} {}; deviation {}",
                    show(found.mean),
                    show(*bound),
                    show(found.deviation)
                );
                let verdict = match judge(gain, found.deviation) {
                    // A bound that is met exactly holds.
                    Verdict::WithinSpread if gain == 0.0 && found.deviation == 0.0 => Verdict::Held,
                    verdict => verdict,
                };
                (verdict, how)
            }
        }
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
