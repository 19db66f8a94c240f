//! The scores of the candidates beside the simplest guess, each with the interval that its examples leave.

use lessen_base::SplitMix64;
use lessen_saved::saved_run::judged::{Judged, Known};
use lessen_task::goal::logits::{largest, sigmoid};
use lessen_task::goal::scores::Scores;
use serde_json::{Value, json};

/// Samples of the bootstrap.
const SAMPLES: usize = 400;

/// The share of samples beyond the interval on each side.
const TAIL: f64 = 0.025;

/// The distance of a number from the mean, as a share of the mean, that rounding alone makes.
const ROUNDING: f64 = 1e-12;

/// A score with its interval of 95 %.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scored {
    pub name: &'static str,
    pub value: f64,
    pub interval: (f64, f64),
    pub is_share: bool,
    /// Whether less of it is better.
    pub is_error: bool,
}

impl Scored {
    /// The value such that more is better.
    pub(crate) fn gain(&self) -> f64 {
        if self.is_error { -self.value } else { self.value }
    }

    /// The value in words.
    pub(crate) fn show(&self) -> String {
        match self.is_share {
            true => format!("{:.1} %", 100.0 * self.value),
            false => format!("{:.4}", self.value),
        }
    }

    /// The value and its interval in words.
    fn show_whole(&self) -> String {
        let (low, high) = self.interval;
        match self.is_share {
            true => format!("{} ({:.1} to {:.1})", self.show(), 100.0 * low, 100.0 * high),
            false => format!("{} ({low:.4} to {high:.4})", self.show()),
        }
    }

    fn to_json(&self) -> Value {
        json!({ "value": self.value, "low": self.interval.0, "high": self.interval.1 })
    }
}

/// A row of the table: who answered, and the scores, the one that decides first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub name: String,
    pub scores: Vec<Scored>,
}

impl Entry {
    /// The score that decides.
    pub(crate) fn first(&self) -> Option<&Scored> {
        self.scores.first()
    }

    /// The score that decides, such that more is better.
    pub(crate) fn gain(&self) -> f64 {
        self.first().map_or(f64::NEG_INFINITY, Scored::gain)
    }

    /// The row for programs.
    pub(crate) fn to_json(&self) -> Value {
        let scores = self
            .scores
            .iter()
            .map(|score| (score.name.to_string(), score.to_json()));
        json!({ "name": self.name, "scores": scores.collect::<serde_json::Map<_, _>>() })
    }
}

/// The table in plain text.
pub(crate) fn to_text(entries: &[Entry]) -> Vec<String> {
    let width = entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let row = |entry: &Entry| {
        let scores: Vec<String> = entry
            .scores
            .iter()
            .map(|score| format!("{} {}", score.name, score.show_whole()))
            .collect();
        format!("  {:width$}  {}", entry.name, scores.join(", "))
    };
    entries.iter().map(row).collect()
}

/// The scores of a model's answers to the examples of a split.
pub(crate) fn of_answers(name: &str, all: &[Judged]) -> Entry {
    let pairs: Vec<Pair> = all.iter().filter_map(pair_of).collect();
    of_pairs(name, &pairs)
}

/// The scores of an evaluation, without intervals.
pub(crate) fn of_scores(name: &str, scores: &Scores) -> Entry {
    let loss = scores.deciding(Some("loss"));
    let all = scores.named.iter().chain([&loss]).map(|score| Scored {
        name: score.name,
        value: score.value,
        interval: (score.value, score.value),
        is_share: score.is_share,
        is_error: score.is_error,
    });
    Entry {
        name: name.to_string(),
        scores: all.collect(),
    }
}

/// The scores of the guess that knows no example: the most frequent class, the mean number, no label.
pub(crate) fn of_guess(all: &[Judged], majority: Option<usize>, mean: f64) -> Entry {
    let guess = |judged: &Judged| match &judged.known {
        Known::Class(known) => Pair::Classes(majority.unwrap_or(0), *known),
        Known::Number(known) => Pair::Numbers(mean, *known),
        Known::Labels(known) => Pair::Labels(vec![false; known.len()], known.clone()),
    };
    let pairs: Vec<Pair> = all.iter().map(guess).collect();
    let name = match all.first().map(|judged| &judged.known) {
        Some(Known::Class(_)) => "most frequent class",
        Some(Known::Labels(_)) => "no label",
        _ => "mean",
    };
    of_pairs(name, &pairs)
}

/// An answer and what is right.
enum Pair {
    Classes(usize, usize),
    Numbers(f64, f64),
    Labels(Vec<bool>, Vec<bool>),
}

fn pair_of(judged: &Judged) -> Option<Pair> {
    Some(match &judged.known {
        Known::Class(known) => Pair::Classes(usize::try_from(*largest(&judged.logits, 1).first()?).ok()?, *known),
        Known::Number(known) => Pair::Numbers(f64::from(*judged.logits.first()?), *known),
        Known::Labels(known) => {
            let found = judged.logits.iter().map(|logit| sigmoid(*logit) >= 0.5).collect();
            Pair::Labels(found, known.clone())
        }
    })
}

fn of_pairs(name: &str, pairs: &[Pair]) -> Entry {
    let whole: Vec<usize> = (0..pairs.len()).collect();
    let found = measures(pairs, &whole);
    let mut random = SplitMix64::new(1);
    let mut samples: Vec<Vec<f64>> = vec![Vec::with_capacity(SAMPLES); found.len()];
    if !pairs.is_empty() {
        for _ in 0..SAMPLES {
            let drawn: Vec<usize> = pairs
                .iter()
                .map(|_| random.below(pairs.len() as u64) as usize)
                .collect();
            for (own, (_, value, ..)) in samples.iter_mut().zip(measures(pairs, &drawn)) {
                own.push(value);
            }
        }
    }
    let scores = found
        .into_iter()
        .zip(samples)
        .map(|((name, value, is_share, is_error), mut own)| {
            own.sort_by(f64::total_cmp);
            let at = |share: f64| own.get((share * own.len() as f64) as usize).copied().unwrap_or(value);
            Scored {
                name,
                value,
                interval: (at(TAIL), at(1.0 - TAIL)),
                is_share,
                is_error,
            }
        });
    Entry {
        name: name.to_string(),
        scores: scores.collect(),
    }
}

/// Names and values of the scores of some pairs, whether they are shares, and whether less is better.
fn measures(pairs: &[Pair], chosen: &[usize]) -> Vec<(&'static str, f64, bool, bool)> {
    let count = chosen.len().max(1) as f64;
    let mut classes: Vec<[f64; 3]> = Vec::new();
    let (mut right, mut labels) = (0.0, [0.0; 3]);
    let (mut squares, mut errors, mut sum) = (0.0, 0.0, 0.0);
    for &index in chosen {
        match &pairs[index] {
            Pair::Classes(found, known) => {
                let most = found.max(known) + 1;
                if classes.len() < most {
                    classes.resize(most, [0.0; 3]);
                }
                if found == known {
                    right += 1.0;
                    classes[*known][0] += 1.0;
                } else {
                    classes[*found][1] += 1.0;
                    classes[*known][2] += 1.0;
                }
            }
            Pair::Numbers(found, known) => {
                squares += (found - known) * (found - known);
                errors += (found - known).abs();
                sum += known;
            }
            Pair::Labels(found, known) => {
                for (found, known) in found.iter().zip(known) {
                    match (found, known) {
                        (true, true) => labels[0] += 1.0,
                        (true, false) => labels[1] += 1.0,
                        (false, true) => labels[2] += 1.0,
                        (false, false) => {}
                    }
                }
                right += f64::from(u8::from(found == known));
            }
        }
    }
    match chosen.first().map(|index| &pairs[*index]) {
        Some(Pair::Classes(..)) => {
            let seen = classes.iter().filter(|[both, _, missed]| both + missed > 0.0);
            let mean = seen.clone().map(f1).sum::<f64>() / seen.count().max(1) as f64;
            vec![
                ("accuracy", right / count, true, false),
                ("macro F1", mean, true, false),
            ]
        }
        Some(Pair::Numbers(..)) => {
            let mean = sum / count;
            let from_mean = chosen.iter().map(|index| match &pairs[*index] {
                Pair::Numbers(_, known) => (known - mean) * (known - mean),
                Pair::Classes(..) | Pair::Labels(..) => 0.0,
            });
            let spread: f64 = from_mean.sum();
            // Equal numbers have no spread to explain, which counts as nothing explained.
            let are_equal = spread <= count * (ROUNDING * mean) * (ROUNDING * mean);
            let explained = if are_equal { 0.0 } else { 1.0 - squares / spread };
            vec![
                ("R2", explained, false, false),
                ("mean error", errors / count, false, true),
            ]
        }
        Some(Pair::Labels(..)) => vec![
            ("micro F1", f1(&labels), true, false),
            ("all labels right", right / count, true, false),
        ],
        None => Vec::new(),
    }
}

/// F1 of what was found rightly, found wrongly and missed.
fn f1([right, wrong, missed]: &[f64; 3]) -> f64 {
    let all = 2.0 * right + wrong + missed;
    if all > 0.0 { 2.0 * right / all } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(logits: &[f32], known: Known) -> Judged {
        Judged {
            example: 0,
            logits: logits.to_vec(),
            known,
        }
    }

    #[test]
    fn scores_are_those_of_their_definitions_and_lie_in_their_intervals() {
        // Predictions 0 0 1 1 1 of labels 0 1 1 1 0.
        let logits = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]];
        let all: Vec<Judged> = logits
            .iter()
            .zip([0, 1, 1, 1, 0])
            .map(|(own, label)| judged(own, Known::Class(label)))
            .collect();
        let entry = of_answers("linear", &all);
        let values: Vec<f64> = entry.scores.iter().map(|score| score.value).collect();
        // F1 of class 0: 2 / 4; of class 1: 4 / 6.
        assert!((values[0] - 0.6).abs() < 1e-12 && (values[1] - (0.5 + 2.0 / 3.0) / 2.0).abs() < 1e-12);
        for score in &entry.scores {
            assert!(
                score.interval.0 <= score.value && score.value <= score.interval.1,
                "{score:?}"
            );
        }
        let guess = of_guess(&all, Some(1), 0.0);
        assert_eq!(
            (guess.name.as_str(), guess.scores[0].value),
            ("most frequent class", 0.6)
        );
    }

    #[test]
    fn the_mean_explains_nothing_of_numbers() {
        let all: Vec<Judged> = [1.0, 2.0, 6.0]
            .map(|known| judged(&[known as f32], Known::Number(known)))
            .to_vec();
        assert_eq!(of_answers("linear", &all).gain(), 1.0);
        assert!(of_guess(&all, None, 3.0).gain().abs() < 1e-12);
    }

    #[test]
    fn equal_numbers_have_nothing_to_explain() {
        let all = [0.7, 0.7, 0.7]
            .map(|known| judged(&[known as f32 + 0.1], Known::Number(known)))
            .to_vec();
        for entry in [of_answers("linear", &all), of_guess(&all, None, 0.6)] {
            let score = entry.first().unwrap();
            assert_eq!((score.value, score.interval), (0.0, (0.0, 0.0)), "{score:?}");
        }
        // Samples of the bootstrap have equal numbers where one alone differs.
        let mut few = all.clone();
        few.extend([judged(&[0.7], Known::Number(0.2))]);
        let score = of_answers("linear", &few).scores.swap_remove(0);
        assert!(score.interval.0 > -100.0, "{score:?}");
    }

    #[test]
    fn labels_are_counted_together() {
        let known = vec![true, false, true];
        let all = [judged(&[2.0, 1.0, -1.0], Known::Labels(known))];
        assert_eq!(of_answers("linear", &all).scores[0].value, 0.5);
        assert_eq!(of_guess(&all, None, 0.0).gain(), 0.0);
    }
}
