//! What was found in the data of a training without a recipe, what was chosen, and how the models compare.

use crate::choosing::CHOICE;
use lessen_pages::html::{folded, note, table};
use lessen_pages::run::Run;
use serde_json::Value;
use std::fs;

/// Blocks of the longest bar of a histogram.
const BAR: f64 = 40.0;

/// The section of all runs that were chosen; empty where there are none.
pub(super) fn section(runs: &[Run]) -> String {
    runs.iter().filter_map(of_run).collect()
}

fn of_run(run: &Run) -> Option<String> {
    let text = fs::read_to_string(run.root.join(CHOICE)).ok()?;
    let choice: Value = serde_json::from_str(&text).ok()?;
    let look = &choice["look"];
    let mut html = note(&format!("{}: {}", run.name, words(&look["reason"])));
    html += &columns(look);
    html += &choices(&choice["plan"]["choices"]);
    html += &scores(&choice["result"]);
    for (name, histogram) in [
        ("Characters of a text", &look["texts"]["characters"]["histogram"]),
        ("Words of a text", &look["texts"]["words"]["histogram"]),
        ("Numbers to be learned", &look["numbers"]["histogram"]),
    ] {
        html += &bars(name, histogram);
    }
    html += &classes(&look["classes"]);
    Some(html)
}

/// A value as people read it.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn columns(look: &Value) -> String {
    let row = |column: &Value| {
        (
            words(&column["name"]),
            vec![words(&column["role"]), words(&column["reason"])],
        )
    };
    let rows: Vec<_> = list(&look["columns"]).iter().map(row).collect();
    titled("Columns", "column", &["role", "why"], &rows)
}

fn choices(all: &Value) -> String {
    let row = |own: &Value| {
        (
            words(&own["what"]),
            ["value", "why", "key"].map(|key| words(&own[key])).to_vec(),
        )
    };
    let rows: Vec<_> = list(all).iter().map(row).collect();
    titled("Choices", "what", &["chosen", "why", "what changes it"], &rows)
}

fn scores(result: &Value) -> String {
    let row = |own: &Value| {
        let scores = own["scores"].as_object().into_iter().flatten();
        let shown = |(name, score): (&String, &Value)| {
            let number = |key: &str| score[key].as_f64().unwrap_or(f64::NAN);
            format!(
                "{name} {:.4} ({:.4} to {:.4})",
                number("value"),
                number("low"),
                number("high")
            )
        };
        (
            words(&own["name"]),
            vec![scores.map(shown).collect::<Vec<String>>().join(", ")],
        )
    };
    let rows: Vec<_> = list(&result["scores"]).iter().map(row).collect();
    titled(
        "Models on held-out examples",
        "model",
        &["scores with intervals of 95 %"],
        &rows,
    )
}

fn classes(found: &Value) -> String {
    let counts: Vec<(String, f64)> = list(&found["counts"])
        .iter()
        .map(|pair| (words(&pair[0]), pair[1].as_f64().unwrap_or_default()))
        .collect();
    let rows = of_counts(counts);
    match rows.len() {
        0 => String::new(),
        _ => folded(
            "Examples of each class",
            &titled("Classes", "class", &["examples", ""], &rows),
        ),
    }
}

fn bars(name: &str, histogram: &Value) -> String {
    let counts: Vec<f64> = list(&histogram["counts"]).iter().filter_map(Value::as_f64).collect();
    let bound = |at: usize| histogram["bounds"][at].as_f64().unwrap_or_default();
    let width = (bound(1) - bound(0)) / counts.len().max(1) as f64;
    let ranges = counts.iter().enumerate().map(|(bin, count)| {
        let from = bound(0) + width * bin as f64;
        (
            format!("{from:.6} to {:.6}", from + width).replace(".000000", ""),
            *count,
        )
    });
    let rows = of_counts(ranges.collect());
    match rows.len() {
        0 => String::new(),
        _ => folded(name, &titled(name, "from, to", &["examples", ""], &rows)),
    }
}

/// Rows of counts with a bar each.
fn of_counts(counts: Vec<(String, f64)>) -> Vec<(String, Vec<String>)> {
    let most = counts.iter().map(|(_, count)| *count).fold(1.0, f64::max);
    let row = |(name, count): (String, f64)| {
        let bar = "█".repeat((BAR * count / most).round() as usize);
        (name, vec![format!("{count}"), bar])
    };
    counts.into_iter().map(row).collect()
}

fn titled(caption: &str, corner: &str, heads: &[&str], rows: &[(String, Vec<String>)]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heads: Vec<String> = heads.iter().map(|head| head.to_string()).collect();
    table(caption, corner, &heads, rows)
}
