//! The tasks: names, labels, metrics and the columns of their files.

use std::ops::RangeInclusive;

use lessen_base::{Error, Result};

use crate::labels::LabelKind;
use crate::metrics::Metric;

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
pub(crate) const SCORES: RangeInclusive<f32> = 0.0..=5.0;

/// The file format of a task.
pub(crate) struct Layout {
    pub(crate) first: &'static str,
    pub(crate) second: Option<&'static str>,
    pub(crate) label: &'static str,
    /// Whether the label column holds class names; otherwise it holds class numbers or scores.
    pub(crate) by_name: bool,
    pub(crate) dev: &'static str,
    /// Column names of files without a header line.
    pub(crate) columns: Option<&'static [&'static str]>,
    /// A further split and its file name.
    pub(crate) more: Option<(&'static str, &'static str)>,
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

    /// Returns what labels are: named classes, or a score.
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

    pub(crate) fn layout(self) -> Layout {
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
}
