//! The examples that a model answers worst.

use lessen_base::Result;
use lessen_saved::saved_run::judged::{Judged, Known};
use lessen_task::CheckedTask;
use lessen_task::goal::logits::{sigmoid, softmax};

/// Errors that are shown.
const SHOWN: usize = 5;

/// Characters of an example that are shown.
const LONGEST: usize = 100;

/// The worst errors on a split, a line each: those in which the model is surest of what is wrong.
///
/// # Errors
/// Data that cannot be read any more.
pub(super) fn worst(answers: &[Judged], task: &CheckedTask, split: &str) -> Result<Vec<String>> {
    let names = task.goal().class_names();
    let mut wrong: Vec<(f64, &Judged, String)> = answers.iter().filter_map(|own| wrong_of(own, names)).collect();
    wrong.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.example.cmp(&b.1.example)));
    wrong.truncate(SHOWN);
    if wrong.is_empty() {
        return Ok(Vec::new());
    }
    let places: Vec<usize> = wrong.iter().map(|(_, own, _)| own.example).collect();
    let shown = task.data()?.corpus().show(split, &places)?;
    let mut lines = vec!["worst errors:".to_string()];
    for ((_, _, what), text) in wrong.iter().zip(shown) {
        lines.push(format!("  {what}: {}", cut(&text)));
    }
    Ok(lines)
}

/// How wrong an answer is, and what is wrong in words; none for one that is right.
fn wrong_of<'a>(own: &'a Judged, names: &[String]) -> Option<(f64, &'a Judged, String)> {
    let name = |class: usize| names.get(class).map_or(class.to_string(), String::clone);
    match &own.known {
        Known::Class(known) => {
            let shares = softmax(&own.logits);
            let found = (0..shares.len())
                .rev()
                .max_by(|a, b| shares[*a].total_cmp(&shares[*b]))?;
            let words = format!(
                "{} is {}, not {} ({:.0} %)",
                "it",
                name(*known),
                name(found),
                100.0 * shares[found]
            );
            (found != *known).then_some((shares[found], own, words))
        }
        Known::Number(known) => {
            let found = f64::from(*own.logits.first()?);
            let words = format!("it is {known:.4}, not {found:.4}");
            Some(((found - known).abs(), own, words))
        }
        Known::Labels(known) => {
            let shares: Vec<f64> = own.logits.iter().map(|logit| sigmoid(*logit)).collect();
            let miss = |label: usize| {
                if known[label] {
                    1.0 - shares[label]
                } else {
                    shares[label]
                }
            };
            let label = (0..known.len()).max_by(|a, b| miss(*a).total_cmp(&miss(*b)))?;
            let has = if known[label] { "has" } else { "does not have" };
            let words = format!("it {has} {}, which got {:.0} %", name(label), 100.0 * shares[label]);
            (miss(label) > 0.5).then_some((miss(label), own, words))
        }
    }
}

/// A text on one line that is not too long.
pub(super) fn cut(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
