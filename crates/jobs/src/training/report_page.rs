//! The tables of `report.md`: the curve, the evaluations, the settings.

use super::course::{Course, Evaluation};
use lessen_task::recipe::settings::Settings;

/// Most evaluations in the table.
const EVALUATIONS: usize = 40;

/// The tables.
pub(super) fn details(course: &Course, settings: &Settings) -> String {
    let mut text = String::new();
    if !course.curve.is_empty() {
        text += "\n## Loss\n\nThe mean loss of the steps up to each step, and the learning rate there.\n\n";
        text += "| step | loss | learning rate |\n|---:|---:|---:|\n";
        for stretch in &course.curve {
            text += &format!("| {} | {:.4} | {:.3e} |\n", stretch.last, stretch.loss(), stretch.lr);
        }
    }
    text += &evaluations(course.evaluations.items());
    text += &format!("\n## Settings\n\n```toml\n{}```\n", settings.to_toml());
    text
}

fn evaluations(all: &[Evaluation]) -> String {
    let Some(last) = all.last() else {
        return String::new();
    };
    let names: Vec<&str> = last.scores.iter().map(|(name, _)| name.as_str()).collect();
    let every = all.len().div_ceil(EVALUATIONS);
    // The last one is always among them.
    let shown = all
        .iter()
        .rev()
        .step_by(every.max(1))
        .collect::<Vec<_>>()
        .into_iter()
        .rev();
    let mut text = format!(
        "\n## Evaluations\n\n| step | {} |\n|---:|{}\n",
        names.join(" | "),
        "---:|".repeat(names.len())
    );
    for evaluation in shown {
        let score = |name: &&str| {
            let found = evaluation.scores.iter().find(|(own, _)| own == name);
            found.map_or(String::new(), |(_, score)| format!("{score:.4}"))
        };
        let scores: Vec<String> = names.iter().map(score).collect();
        text += &format!("| {} | {} |\n", evaluation.step, scores.join(" | "));
    }
    text
}
