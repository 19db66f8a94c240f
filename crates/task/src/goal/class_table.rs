//! Tables of the scores of classes.

use super::scores::ScoreTable;
use crate::folder::{CONFUSION, LABELS};
use lessen_data::{ClassScores, Confusion, LabelCounts};
use serde_json::{Map, Value, json};

/// Most classes whose confusion matrix is shown as text.
const MOST_SHOWN: usize = 16;

/// Scores of classes that exclude each other, with the confusion matrix.
#[derive(Debug)]
pub(super) struct ConfusionTable(pub(super) Confusion);

/// Scores of labels that do not exclude each other.
#[derive(Debug)]
pub(super) struct LabelTable(pub(super) LabelCounts);

impl ScoreTable for ConfusionTable {
    fn file(&self) -> &'static str {
        CONFUSION
    }

    /// The names of the classes, and a row for each true class with the number of predictions of each class.
    fn to_file(&self, step: u64) -> Value {
        let counts: Vec<&[u64]> = self.0.rows().collect();
        json!({ "step": step, "classes": self.0.names(), "counts": counts })
    }

    fn to_json(&self) -> Map<String, Value> {
        let confusion = &self.0;
        Map::from_iter([
            ("classes".into(), rows(confusion.names(), confusion.classes())),
            ("mean".into(), row("mean", confusion.mean())),
            ("weighted_mean".into(), row("weighted mean", confusion.weighted_mean())),
            ("confusion".into(), confusion.rows().map(|row| json!(row)).collect()),
        ])
    }

    fn to_text(&self) -> String {
        let (confusion, names) = (&self.0, self.0.names());
        let corner = "class \\ answer";
        let first = width(names, corner.len());
        let means = [("mean", confusion.mean()), ("weighted mean", confusion.weighted_mean())];
        let classes = names.iter().map(String::as_str).zip(confusion.classes());
        let mut text = table(first, classes.chain(means));
        if names.len() > MOST_SHOWN {
            return format!(
                "{text}\n\nthe confusion matrix of {} classes is in --json\n",
                names.len()
            );
        }
        let column = width(names, 6);
        text += &format!("\n\n{corner:<first$}");
        names.iter().for_each(|name| text += &format!("  {name:>column$}"));
        for (name, row) in names.iter().zip(confusion.rows()) {
            text += &format!("\n{name:<first$}");
            row.iter().for_each(|count| text += &format!("  {count:>column$}"));
        }
        text + "\n"
    }
}

impl ScoreTable for LabelTable {
    fn file(&self) -> &'static str {
        LABELS
    }

    /// A row for each label, then means.
    fn to_file(&self, step: u64) -> Value {
        let labels = &self.0;
        let names = labels.names().iter().map(String::as_str);
        let means = [("micro", labels.micro()), ("mean", labels.mean())];
        let all = names.zip(labels.classes()).chain(means);
        let rows: Vec<Value> = all.map(|(name, scores)| row(name, scores)).collect();
        json!({ "step": step, "labels": rows })
    }

    fn to_json(&self) -> Map<String, Value> {
        let labels = &self.0;
        Map::from_iter([
            ("classes".into(), rows(labels.names(), labels.classes())),
            ("micro".into(), row("micro", labels.micro())),
            ("mean".into(), row("mean", labels.mean())),
            ("weighted_mean".into(), row("weighted mean", labels.weighted_mean())),
        ])
    }

    fn to_text(&self) -> String {
        let labels = &self.0;
        let means = [
            ("micro", labels.micro()),
            ("mean", labels.mean()),
            ("weighted mean", labels.weighted_mean()),
        ];
        let classes = labels.names().iter().map(String::as_str).zip(labels.classes());
        table(width(labels.names(), means[2].0.len()), classes.chain(means)) + "\n"
    }
}

/// The scores of a class, or a mean over classes, as JSON.
fn row(name: &str, scores: ClassScores) -> Value {
    let ClassScores {
        precision,
        recall,
        f1,
        support,
    } = scores;
    json!({ "name": name, "precision": precision, "recall": recall, "f1": f1, "support": support })
}

fn rows(names: &[String], classes: impl Iterator<Item = ClassScores>) -> Value {
    let named = names.iter().zip(classes);
    named.map(|(name, scores)| row(name, scores)).collect()
}

/// The width of a column of class names, at least `least`.
fn width(names: &[String], least: usize) -> usize {
    names.iter().map(|name| name.chars().count()).fold(least, usize::max)
}

/// A table of class scores and their means, with a first column of width `first`.
fn table<'a>(first: usize, rows: impl Iterator<Item = (&'a str, ClassScores)>) -> String {
    let heads = ["precision", "recall", "f1", "support"];
    let mut text = format!("\n{:<first$}", "class");
    heads.iter().for_each(|head| text += &format!("  {head:>9}"));
    for (name, class) in rows {
        let ClassScores {
            precision,
            recall,
            f1,
            support,
        } = class;
        text += &format!("\n{name:<first$}  {precision:>9.4}  {recall:>9.4}  {f1:>9.4}  {support:>9}");
    }
    text
}
