//! The tables of a page: results, settings, confusion matrices, labels, samples.

use super::curves::titled;
use super::html::{folded, note, number, rough, table};
use super::run::{ConfusionFile, Outcome, Run};
use crate::plot::escaped;
use lessen_train::show_size;
use std::collections::BTreeSet;

/// Most classes of a matrix that is shown.
const CLASSES: usize = 64;

/// The results: a row for each figure, a column for each run.
pub fn results(runs: &[Run]) -> String {
    let heads: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    let mut row = |name: &str, of: &dyn Fn(&Run) -> Option<String>| {
        let cells: Vec<Option<String>> = runs.iter().map(of).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "–".to_string()));
            rows.push((name.to_string(), cells.collect()));
        }
    };
    row("Recipe", &|run| {
        Some(run.settings.as_ref()?.text("run.recipe")?.to_string())
    });
    row("State", &|run| Some(run.state().to_string()));
    row("Steps", &|run| Some(run.steps.to_string()));
    row("Loss of the last step", &|run| Some(number(run.last("loss")?)));
    let scores: BTreeSet<&str> = runs.iter().flat_map(Run::scores).collect();
    for key in scores
        .iter()
        .filter(|key| **key != "dev_loss")
        .chain(scores.get("dev_loss"))
    {
        let name = match *key {
            "dev_loss" => "Loss on dev".to_string(),
            _ => titled(key, 0.0).0,
        };
        row(&name, &|run| Some(titled(key, run.last(key)?).1));
    }
    row("Best after step", &|run| {
        Some(run.outcome.as_ref()?.best_step?.to_string())
    });
    row("Median time of a step", &|run| {
        Some(format!("{}\u{a0}ms", rough(run.outcome.as_ref()?.step_ms?)))
    });
    row("Examples per second", &|run| {
        Some(rough(run.outcome.as_ref()?.samples_per_s?))
    });
    row("Tokens per second", &|run| {
        Some(rough(run.outcome.as_ref()?.tokens_per_s?))
    });
    row("Compiled in", &|run| {
        Some(format!("{}\u{a0}ms", rough(run.outcome.as_ref()?.compile_ms?)))
    });
    row("Peak memory", &|run| peak_memory(run.outcome.as_ref()?));
    row("Folder", &|run| Some(run.root.display().to_string()));
    let explained = if rows.iter().any(|(name, _)| name == "Peak memory") {
        note(PEAK_MEMORY)
    } else {
        String::new()
    };
    let figures = match runs {
        [_] => tiles(&rows),
        _ => table("Results", "", &heads, &rows),
    };
    figures + &explained
}

/// What the peaks of a run are.
const PEAK_MEMORY: &str = "Peak memory: planned is what the run announced for its whole process before the first step; \
                           measured is the most that was allocated; resident is the highest size of the process as the \
                           operating system counts it, with code and pages that the allocator has not given back.";

/// The peaks of a run beside each other.
fn peak_memory(outcome: &Outcome) -> Option<String> {
    let peak = |key: &str| {
        let bytes = outcome.peak_bytes.get(key)?.as_u64()?;
        let size = show_size(usize::try_from(bytes).ok()?).replace(' ', "\u{a0}");
        Some(format!("{size}\u{a0}{key}"))
    };
    let peaks: Vec<String> = ["planned", "measured", "resident"]
        .into_iter()
        .filter_map(peak)
        .collect();
    (!peaks.is_empty()).then(|| peaks.join(", "))
}

/// The figures of a single run.
fn tiles(rows: &[(String, Vec<String>)]) -> String {
    let tile = |(name, values): &(String, Vec<String>)| {
        let (name, value) = (escaped(name), escaped(&values.join(" ")));
        format!("<div><dt>{name}</dt><dd>{value}</dd></div>\n")
    };
    format!(
        "<dl class=\"tiles\">\n{}</dl>\n",
        rows.iter().map(tile).collect::<String>()
    )
}

/// The settings of runs: those in which they differ, then those that are the same, folded away.
pub fn settings(runs: &[Run]) -> String {
    let of: Vec<Vec<(String, String)>> = runs
        .iter()
        .map(|run| {
            run.settings
                .as_ref()
                .map(|settings| settings.entries())
                .unwrap_or_default()
        })
        .collect();
    // Keys of the first run in its order, then keys that only later runs have.
    let mut keys: Vec<&String> = Vec::new();
    for (key, _) in of.iter().flatten() {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let rows = keys.into_iter().map(|key| {
        let value = |entries: &Vec<(String, String)>| {
            let found = entries.iter().find(|(own, _)| own == key);
            found.map_or("–".to_string(), |(_, value)| value.clone())
        };
        (key.clone(), of.iter().map(value).collect::<Vec<_>>())
    });
    let (mut equal, differing): (Vec<_>, Vec<_>) =
        rows.partition(|(_, values)| values.iter().all(|value| *value == values[0]));
    if equal.is_empty() && differing.is_empty() {
        return String::new();
    }
    if runs.len() == 1 {
        let heads = [runs[0].name.clone()];
        return folded("All settings", &table("All settings", "", &heads, &equal));
    }
    let html = if differing.is_empty() {
        "<p>All settings are the same.</p>\n".to_string()
    } else {
        let names = runs.iter().map(|run| run.name.clone());
        table("Settings that differ", "", &names.collect::<Vec<_>>(), &differing)
    };
    if equal.is_empty() {
        return html;
    }
    equal.iter_mut().for_each(|(_, values)| values.truncate(1));
    let heads = ["all runs".to_string()];
    let title = "Settings that are the same in all runs";
    html + &folded(title, &table(title, "", &heads, &equal))
}

/// The confusion matrices of the runs that have one.
pub fn confusions(runs: &[Run]) -> String {
    let own = runs.iter().filter_map(|run| Some((run, run.confusion.as_ref()?)));
    own.map(|(run, matrix)| confusion(run, matrix)).collect()
}

fn confusion(run: &Run, matrix: &ConfusionFile) -> String {
    let classes = matrix.classes.len();
    let caption = format!("{}, after step {}", run.name, matrix.step);
    if classes > CLASSES {
        return format!(
            "<p>{}: a matrix of {classes} classes is too large to be shown; it is in {}.</p>\n",
            escaped(&caption),
            lessen_task::folder::CONFUSION
        );
    }
    let share = |part: u64, whole: u64| match whole {
        0 => "–".to_string(),
        _ => format!("{:.1} %", 100.0 * part as f64 / whole as f64),
    };
    let column = |class: usize| matrix.counts.iter().map(|row| row[class]).sum::<u64>();
    let heads: String = matrix
        .classes
        .iter()
        .map(|name| format!("<th scope=\"col\">{}</th>", escaped(name)))
        .collect();
    let mut rows = String::new();
    for (class, (name, counts)) in matrix.classes.iter().zip(&matrix.counts).enumerate() {
        let support: u64 = counts.iter().sum();
        let cell = |(predicted, &count): (usize, &u64)| {
            let weight = count as f64 / support.max(1) as f64;
            // Few mistakes are to be seen, too.
            let (kind, weight) = if predicted == class {
                ("right", weight)
            } else {
                ("wrong", weight.sqrt())
            };
            let title = format!("{name} taken for {}: {count} of {support}", matrix.classes[predicted]);
            format!(
                "<td class=\"{kind}\" style=\"--share:{weight:.3}\" title=\"{}\">{count}</td>",
                escaped(&title)
            )
        };
        let cells: String = counts.iter().enumerate().map(cell).collect();
        rows += &format!(
            "<tr><th scope=\"row\">{}</th>{cells}<td class=\"margin\">{}</td></tr>\n",
            escaped(name),
            share(counts[class], support)
        );
    }
    let precisions: String = (0..classes)
        .map(|class| {
            format!(
                "<td class=\"margin\">{}</td>",
                share(matrix.counts[class][class], column(class))
            )
        })
        .collect();
    let right: u64 = (0..classes).map(|class| matrix.counts[class][class]).sum();
    let all: u64 = matrix.counts.iter().flatten().sum();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix of {0}\">\
         <table class=\"confusion\"><caption>{0}: rows are right, columns predicted</caption>\n\
         <thead><tr><td></td>{heads}<th scope=\"col\">recall</th></tr></thead>\n<tbody>\n{rows}\
         <tr><th scope=\"row\">precision</th>{precisions}<td class=\"margin\">{1}</td></tr>\n</tbody></table></div>\n",
        escaped(&caption),
        share(right, all)
    )
}

/// How well each label is found, of the runs that have several labels for a text.
pub fn labels(runs: &[Run]) -> String {
    let own = runs.iter().filter_map(|run| Some((run, run.labels.as_ref()?)));
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let tables = own.map(|(run, file)| {
        let title = format!("{}, after step {}", run.name, file.step);
        let heads = ["Precision", "Recall", "F1", "Texts"].map(str::to_string);
        let rows = file.labels.iter().map(|row| {
            let cells = [row.precision, row.recall, row.f1].map(percent).into_iter();
            (row.name.clone(), cells.chain([number(row.support)]).collect())
        });
        table(&title, &title, &heads, &rows.collect::<Vec<_>>())
    });
    tables.collect()
}

/// Demonstrations of the models at the end of their runs.
pub fn samples(runs: &[Run]) -> String {
    let mut html = String::new();
    for run in runs {
        let lines = run.outcome.as_ref().map_or(&[][..], |outcome| &outcome.showcase);
        if !lines.is_empty() {
            let (name, text) = (escaped(&run.name), escaped(&lines.join("\n")));
            html += &format!(
                "<figure class=\"sample\"><figcaption>{name}</figcaption><pre tabindex=\"0\">{text}</pre></figure>\n"
            );
        }
    }
    html
}
