//! The tasks of the GLUE benchmark, from its TSV files as distributed.
//!
//! Columns are found by the names in the header (CoLA has none: there they are known by place). A tab
//! separates, nothing quotes: a quotation mark is a character like any other.

use crate::files::{numbered_lines, read_text};
use crate::{Dataset, Error, Examples, Labels, Metric, Result, Target};
use std::path::{Path, PathBuf};

/// A task of GLUE that can be read.
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
    /// Does the hypothesis follow from, contradict, or have nothing to do with the premise? (Multi-Genre NLI)
    Mnli,
}

use GlueTask::*;

/// What the files of a task look like.
struct Layout {
    first: &'static str,
    second: Option<&'static str>,
    label: &'static str,
    /// Whether the label column holds the class's name; otherwise it holds its number, or the score.
    by_name: bool,
    dev: &'static str,
}

impl GlueTask {
    /// All tasks that can be read.
    pub const ALL: [GlueTask; 8] = [Cola, Sst2, Mrpc, Rte, Stsb, Wnli, Qnli, Mnli];

    /// The task's name, which is also that of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Cola => "CoLA",
            Sst2 => "SST-2",
            Mrpc => "MRPC",
            Rte => "RTE",
            Stsb => "STS-B",
            Wnli => "WNLI",
            Qnli => "QNLI",
            Mnli => "MNLI",
        }
    }

    /// The task of a name, whatever its capitals and hyphens: `STS-B`, `stsb`, `sst_2`.
    pub fn from_name(name: &str) -> Result<GlueTask> {
        let plain = |name: &str| name.replace(|c: char| !c.is_alphanumeric(), "").to_lowercase();
        let task = GlueTask::ALL
            .into_iter()
            .find(|task| plain(task.name()) == plain(name));
        task.ok_or_else(|| {
            let names = GlueTask::ALL.map(GlueTask::name).join(", ");
            Error::new(format!(
                "there is no GLUE task called '{name}' here; choose one of {names}"
            ))
        })
    }

    /// The classes in label order, or a score.
    pub fn target(self) -> Target {
        let names: &[&str] = match self {
            Stsb => return Target::Score,
            Cola => &["unacceptable", "acceptable"],
            Sst2 => &["negative", "positive"],
            Mrpc => &["not_equivalent", "equivalent"],
            Rte | Qnli => &["entailment", "not_entailment"],
            Wnli => &["not_entailment", "entailment"],
            Mnli => &["entailment", "neutral", "contradiction"],
        };
        Target::Classes(names.iter().map(|name| name.to_string()).collect())
    }

    /// The metrics of the task, the one that decides first.
    pub fn metrics(self) -> Vec<Metric> {
        match self {
            Cola => vec![Metric::Matthews],
            Mrpc => vec![Metric::F1, Metric::Accuracy],
            Stsb => vec![Metric::Spearman, Metric::Pearson],
            Sst2 | Rte | Wnli | Qnli | Mnli => vec![Metric::Accuracy],
        }
    }

    fn layout(self) -> Layout {
        let pair = |label, by_name| Layout {
            first: "sentence1",
            second: Some("sentence2"),
            label,
            by_name,
            dev: "dev.tsv",
        };
        match self {
            Cola | Sst2 => Layout {
                first: "sentence",
                second: None,
                label: "label",
                by_name: false,
                dev: "dev.tsv",
            },
            Mrpc => Layout {
                first: "#1 String",
                second: Some("#2 String"),
                label: "Quality",
                ..pair("", false)
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
                ..pair("gold_label", true)
            },
        }
    }

    /// Reads `train.tsv` and `dev.tsv` (MNLI: `dev_matched.tsv`) from `dir`, or from the folder in it that is
    /// called after the task. The test files of GLUE have no labels and are not read.
    ///
    /// # Errors
    /// A missing, empty or damaged file; a missing column; a line with too few or too many columns; a label
    /// that is none. The message names file and line.
    pub fn read(self, dir: &Path) -> Result<Dataset> {
        let dir = self.folder(dir)?;
        Ok(Dataset {
            train: self.read_split(&dir.join("train.tsv"))?,
            dev: self.read_split(&dir.join(self.layout().dev))?,
            test: None,
            target: self.target(),
            metrics: self.metrics(),
        })
    }

    fn folder(self, dir: &Path) -> Result<PathBuf> {
        let inner = dir.join(self.name());
        match [dir, &inner]
            .into_iter()
            .find(|folder| folder.join("train.tsv").exists())
        {
            Some(folder) => Ok(folder.to_path_buf()),
            None => Err(Error::new(format!(
                "there is no train.tsv in {} or {}; name the folder with the files of {}",
                dir.display(),
                inner.display(),
                self.name()
            ))),
        }
    }

    fn read_split(self, path: &Path) -> Result<Examples> {
        let layout = self.layout();
        let text = read_text(path)?;
        let mut lines = numbered_lines(&text);
        let header: Vec<&str> = match self {
            Cola => vec!["source", "label", "mark", "sentence"],
            _ => lines
                .next()
                .map(|(_, line)| line.split('\t').map(str::trim).collect())
                .unwrap_or_default(),
        };
        let column = |name: &str| {
            header.iter().position(|&column| column == name).ok_or_else(|| {
                let (path, task) = (path.display(), self.name());
                Error::new(format!(
                    "{path} line 1 names no column '{name}'; use the files of {task} as distributed"
                ))
            })
        };
        let (first, label) = (column(layout.first)?, column(layout.label)?);
        let second = layout.second.map(column).transpose()?;
        let target = self.target();
        let mut examples = Examples::unlabelled(vec![], &target);
        for (number, line) in lines {
            let cells: Vec<&str> = line.split('\t').collect();
            let at = |reason: String| Error::new(format!("{} line {number} {reason}", path.display()));
            if cells.len() != header.len() {
                let (found, wanted) = (cells.len(), header.len());
                return Err(at(format!(
                    "has {found} columns instead of {wanted}; restore the file or the line"
                )));
            }
            let cell = cells[label].trim();
            match (&mut examples.labels, &target) {
                (Labels::Classes(labels), Target::Classes(names)) => {
                    let class = match layout.by_name {
                        true => names.iter().position(|name| name == cell),
                        false => cell.parse().ok().filter(|&class: &usize| class < names.len()),
                    };
                    let wanted = || match layout.by_name {
                        true => names.join(", "),
                        false => format!("0 to {}", names.len() - 1),
                    };
                    let class = class
                        .ok_or_else(|| at(format!("has the label '{cell}'; the labels are {}", wanted())))?;
                    labels.push(class as i32);
                }
                (Labels::Scores(scores), _) => {
                    let score = cell.parse().ok().filter(|score: &f32| score.is_finite());
                    scores.push(score.ok_or_else(|| at(format!("has the score '{cell}'; write a number")))?);
                }
                (Labels::Classes(_), Target::Score) => unreachable!("labels were made for this target"),
            }
            let second = second.map(|second| cells[second].to_string());
            examples.texts.push((cells[first].to_string(), second));
        }
        if examples.is_empty() {
            return Err(Error::new(format!(
                "{} has a header but no line of data; restore it",
                path.display()
            )));
        }
        Ok(examples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const RTE: &str =
        "index\tsentence1\tsentence2\tlabel\n0\tNo \"news\tis good.\tnot_entailment\n1\ta\tb\tentailment\n";

    fn read_two(task: GlueTask, train: &str, dev: &str) -> Result<Dataset> {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(task.name());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("train.tsv"), train).unwrap();
        fs::write(folder.join(task.layout().dev), dev).unwrap();
        let data = task.read(dir.path());
        assert_eq!(
            data,
            task.read(&folder),
            "the task's own folder and its parent mean the same"
        );
        data
    }

    fn message(task: GlueTask, text: &str) -> String {
        let message = read_two(task, text, text).unwrap_err().to_string();
        message.rsplit_once("/").unwrap().1.to_string()
    }

    #[test]
    fn names_are_found_whatever_their_spelling() {
        for task in GlueTask::ALL {
            assert_eq!(GlueTask::from_name(task.name()), Ok(task));
        }
        assert_eq!(GlueTask::from_name("sts_b"), Ok(Stsb));
        let error = GlueTask::from_name("snli").unwrap_err().to_string();
        assert!(
            error.contains("'snli'") && error.contains("CoLA, SST-2"),
            "{error}"
        );
    }

    #[test]
    fn columns_are_those_of_the_task() {
        let data = read_two(Rte, RTE, RTE).unwrap();
        assert_eq!(data.train.texts[0], ("No \"news".into(), Some("is good.".into())));
        assert_eq!(data.train.labels, Labels::Classes(vec![1, 0]));
        assert_eq!(data.metrics, [Metric::Accuracy]);

        let cola = "gj04\t0\t*\tThey drank the pub.\ngj04\t1\t\tThe \"\" end.\n";
        let data = read_two(Cola, cola, cola).unwrap();
        assert_eq!(data.dev.texts[1], ("The \"\" end.".into(), None));
        assert_eq!(data.dev.labels, Labels::Classes(vec![0, 1]));
        assert_eq!(data.class_names().unwrap()[1], "acceptable");

        let mrpc = "\u{feff}Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n\
                    1\t7\t8\tHe said \" no .\tNo , he said .\r\n";
        let data = read_two(Mrpc, mrpc, mrpc).unwrap();
        assert_eq!(
            data.train.texts,
            [("He said \" no .".into(), Some("No , he said .".into()))]
        );
        assert_eq!(data.metrics, [Metric::F1, Metric::Accuracy]);

        let stsb = "index\tgenre\tsentence1\tsentence2\tscore\n0\tx\ta\tb\t3.800\n";
        let data = read_two(Stsb, stsb, stsb).unwrap();
        assert_eq!(
            (data.train.labels, data.target),
            (Labels::Scores(vec![3.8]), Target::Score)
        );

        let sst = "sentence\tlabel\nit 's a charming\t1\n";
        assert_eq!(
            read_two(Sst2, sst, sst).unwrap().dev.texts,
            [("it 's a charming".into(), None)]
        );
        let wnli = "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n";
        assert_eq!(
            read_two(Wnli, wnli, wnli).unwrap().dev.labels,
            Labels::Classes(vec![1])
        );
        let qnli = "index\tquestion\tsentence\tlabel\n0\twho\the\tnot_entailment\n";
        assert_eq!(
            read_two(Qnli, qnli, qnli).unwrap().dev.texts,
            [("who".into(), Some("he".into()))]
        );
        let mnli = "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tb\tneutral\tcontradiction\n";
        assert_eq!(
            read_two(Mnli, mnli, mnli).unwrap().dev.labels,
            Labels::Classes(vec![2])
        );
    }

    #[test]
    fn every_mistake_names_file_and_line() {
        let rows = |rows: &str| format!("index\tsentence1\tsentence2\tlabel\n{rows}");
        assert_eq!(
            message(Rte, &rows("0\ta\tb\tentailment\n1\ta\tb")),
            "train.tsv line 3 has 3 columns instead of 4; restore the file or the line"
        );
        let split_by_tab = message(Rte, &rows("0\ta\tb\tc\tentailment\n"));
        assert!(
            split_by_tab.contains("line 2 has 5 columns instead of 4"),
            "{split_by_tab}"
        );
        assert_eq!(
            message(Rte, &rows("0\ta\tb\tperhaps\n")),
            "train.tsv line 2 has the label 'perhaps'; the labels are entailment, not_entailment"
        );
        assert_eq!(
            message(Wnli, &rows("0\ta\tb\t2\n")),
            "train.tsv line 2 has the label '2'; the labels are 0 to 1"
        );
        assert!(message(Stsb, RTE).contains("train.tsv line 1 names no column 'score'"));
        let stsb = "sentence1\tsentence2\tscore\na\tb\tnan\n";
        assert_eq!(
            message(Stsb, stsb),
            "train.tsv line 2 has the score 'nan'; write a number"
        );
        assert!(message(Rte, &rows("")).contains("header but no line of data"));
        assert!(message(Rte, "").contains("train.tsv is empty"));
        let empty = tempfile::tempdir().unwrap();
        let missing = Rte.read(empty.path()).unwrap_err().to_string();
        assert!(
            missing.starts_with("there is no train.tsv in ") && missing.contains("RTE"),
            "{missing}"
        );
    }
}
