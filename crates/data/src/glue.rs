//! The tasks of the GLUE benchmark (Wang et al. 2019), read from the TSV files as distributed.
//!
//! Columns are found by the names in the header line; CoLA has none, so its columns are fixed. Fields are separated by
//! tabs and not quoted.

mod rows;
mod submission;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::columns::Columns;
use crate::examples::{Dataset, Examples, LabelKind, Labels};
use crate::files::quoted;
use crate::metrics::Metric;
use crate::row::RawLabel;
use crate::rows::{Place, Rows};

pub use submission::TestSplit;

/// A GLUE task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GlueTask {
    /// Is the sentence acceptable English? (Corpus of Linguistic Acceptability)
    Cola,
    /// Is the phrase of a film review positive? (Stanford Sentiment Treebank)
    Sst2,
    /// Do the two sentences mean the same? (Microsoft Research Paraphrase Corpus)
    Mrpc,
    /// Does the second text follow from the first? (Recognizing Textual Entailment)
    Rte,
    /// How alike are the two sentences, from 0 to 5? (Semantic Textual Similarity Benchmark)
    Stsb,
    /// Does the sentence with the pronoun replaced follow? (Winograd NLI)
    Wnli,
    /// Does the sentence hold the answer to the question? (Question NLI)
    Qnli,
    /// Do the two questions ask the same? (Quora Question Pairs)
    Qqp,
    /// Does the hypothesis follow from, contradict, or have nothing to do with the premise? (Multi-Genre NLI)
    Mnli,
}

use GlueTask::*;

/// The range of STS-B scores: from no common meaning to the same meaning.
const SCORES: RangeInclusive<f32> = 0.0..=5.0;

/// The file format of a task.
struct Layout {
    first: &'static str,
    second: Option<&'static str>,
    label: &'static str,
    /// Whether the label column holds class names; otherwise it holds class numbers or scores.
    by_name: bool,
    dev: &'static str,
    /// Column names of files without a header line.
    columns: Option<&'static [&'static str]>,
    /// A further split and its file name.
    more: Option<(&'static str, &'static str)>,
}

impl GlueTask {
    /// All tasks.
    pub const ALL: [GlueTask; 9] = [Cola, Sst2, Mrpc, Rte, Stsb, Wnli, Qnli, Qqp, Mnli];

    /// Returns the name of the task and of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Cola => "CoLA",
            Sst2 => "SST-2",
            Mrpc => "MRPC",
            Rte => "RTE",
            Stsb => "STS-B",
            Wnli => "WNLI",
            Qnli => "QNLI",
            Qqp => "QQP",
            Mnli => "MNLI",
        }
    }

    /// Returns the task of this name; case, `-` and `_` are ignored: `STS-B`, `stsb`, `sst_2`.
    ///
    /// # Errors
    /// An unknown name; the message lists the known ones.
    pub fn from_name(name: &str) -> Result<GlueTask> {
        let plain = |name: &str| name.replace(|c: char| !c.is_alphanumeric(), "").to_lowercase();
        let task = GlueTask::ALL.into_iter().find(|task| plain(task.name()) == plain(name));
        task.ok_or_else(|| {
            let names = GlueTask::ALL.map(GlueTask::name).join(", ");
            Error::user(format!(
                "there is no GLUE task called '{name}' here; choose one of {names}"
            ))
        })
    }

    /// Returns the kind of label.
    pub fn target(self) -> LabelKind {
        let names: &[&str] = match self {
            Stsb => return LabelKind::Score,
            Cola => &["unacceptable", "acceptable"],
            Sst2 => &["negative", "positive"],
            Mrpc => &["not_equivalent", "equivalent"],
            Qqp => &["not_duplicate", "duplicate"],
            Rte | Qnli => &["entailment", "not_entailment"],
            Wnli => &["not_entailment", "entailment"],
            Mnli => &["entailment", "neutral", "contradiction"],
        };
        LabelKind::Classes(names.iter().map(|name| name.to_string()).collect())
    }

    /// Returns the metrics, the one that selects the best checkpoint first.
    pub fn metrics(self) -> Vec<Metric> {
        match self {
            Cola => vec![Metric::Matthews],
            Mrpc | Qqp => vec![Metric::F1, Metric::Accuracy],
            Stsb => vec![Metric::Spearman, Metric::Pearson, Metric::Mse, Metric::Mae],
            Sst2 | Rte | Wnli | Qnli | Mnli => vec![Metric::Accuracy],
        }
    }

    /// Whether examples are pairs of texts.
    pub fn has_pairs(self) -> bool {
        self.layout().second.is_some()
    }

    fn layout(self) -> Layout {
        let pair = |label, by_name| Layout {
            first: "sentence1",
            second: Some("sentence2"),
            label,
            by_name,
            dev: "dev.tsv",
            columns: None,
            more: None,
        };
        match self {
            Cola => Layout {
                first: "sentence",
                second: None,
                columns: Some(&["source", "label", "mark", "sentence"]),
                ..pair("label", false)
            },
            Sst2 => Layout {
                first: "sentence",
                second: None,
                ..pair("label", false)
            },
            Mrpc => Layout {
                first: "#1 String",
                second: Some("#2 String"),
                ..pair("Quality", false)
            },
            Qqp => Layout {
                first: "question1",
                second: Some("question2"),
                ..pair("is_duplicate", false)
            },
            Rte => pair("label", true),
            Stsb => pair("score", false),
            Wnli => pair("label", false),
            Qnli => Layout {
                first: "question",
                second: Some("sentence"),
                ..pair("label", true)
            },
            Mnli => Layout {
                dev: "dev_matched.tsv",
                more: Some(("dev_mismatched", "dev_mismatched.tsv")),
                ..pair("gold_label", true)
            },
        }
    }

    /// Reads `train.tsv` and `dev.tsv` (MNLI: `dev_matched.tsv` and, if present, `dev_mismatched.tsv`) from `dir` or
    /// from its subfolder named after the task. GLUE's test files have no labels; [`GlueTask::read_tests`] reads them.
    ///
    /// # Errors
    /// A missing, empty or damaged file; a missing column; a line with a wrong number of columns; an unknown label. The
    /// message names file and line.
    pub fn read(self, dir: &Path) -> Result<Dataset> {
        let (dir, layout) = (self.folder(dir)?, self.layout());
        let more = layout.more.filter(|(_, file)| dir.join(file).exists());
        let more = more.map(|(name, file)| Ok((name, self.read_split(&dir.join(file))?)));
        Ok(Dataset {
            train: self.read_split(&dir.join("train.tsv"))?,
            dev: self.read_split(&dir.join(layout.dev))?,
            more: more.into_iter().collect::<Result<_>>()?,
            target: self.target(),
            metrics: self.metrics(),
            remarks: Vec::new(),
        })
    }

    fn folder(self, dir: &Path) -> Result<PathBuf> {
        let inner = dir.join(self.name());
        match [dir, &inner]
            .into_iter()
            .find(|folder| folder.join("train.tsv").exists())
        {
            Some(folder) => Ok(folder.to_path_buf()),
            None => Err(Error::user(format!(
                "there is no train.tsv in {} or {}; name the folder with the files of {}",
                dir.display(),
                inner.display(),
                self.name()
            ))),
        }
    }

    fn read_split(self, path: &Path) -> Result<Examples> {
        let (layout, target) = (self.layout(), self.target());
        let rows = Rows {
            place: Place::Glue(self, path.to_path_buf()),
            columns: Columns::default(),
            with_label: true,
        };
        let Examples { mut labels, .. } = Examples::unlabelled(vec![], &target);
        for row in rows.iter() {
            let row = row?;
            let cell = match &row.label {
                Some(RawLabel::One(label)) => label.as_str(),
                _ => "",
            };
            match (&mut labels, &target) {
                (Labels::Classes(labels), LabelKind::Classes(names)) => {
                    let class = match layout.by_name {
                        true => names.iter().position(|name| name == cell),
                        false => cell.parse().ok().filter(|&class: &usize| class < names.len()),
                    };
                    let wanted = || match layout.by_name {
                        true => names.join(", "),
                        false => format!("0 to {}", names.len() - 1),
                    };
                    let class = class.ok_or_else(|| {
                        row.error(&format!("has the label {}; the labels are {}", quoted(cell), wanted()))
                    })?;
                    labels.push(class as i32);
                }
                (Labels::Scores(scores), _) => {
                    let score = cell.parse().ok().filter(|score| SCORES.contains(score));
                    let (least, most) = (SCORES.start(), SCORES.end());
                    let wrong = || {
                        row.error(&format!(
                            "has the score {}; write a number from {least} to {most}",
                            quoted(cell)
                        ))
                    };
                    scores.push(score.ok_or_else(wrong)?);
                }
                (Labels::Classes(_) | Labels::Sets(_), _) => unreachable!("no task has other labels than its kind"),
            }
        }
        if labels.is_empty() {
            return Err(Error::user(format!(
                "{} has a header but no line of data; restore it",
                path.display()
            )));
        }
        Ok(Examples::from_rows(Arc::new(rows), None, labels))
    }
}

#[cfg(test)]
mod tests;
