//! What GLUE's server takes: answers to the test files, which have no labels.

use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use crate::files::{numbered_lines, read_text};
use crate::glue_task::{GlueTask, GlueTask::*, Layout, SCORES};
use crate::labels::LabelKind;

/// The diagnostic texts that answers of MNLI models are asked for, and the file of the answers.
const DIAGNOSTIC: (&str, &str) = ("diagnostic.tsv", "AX.tsv");

/// A test file: texts without labels.
#[derive(Clone, Debug, PartialEq)]
pub struct TestSplit {
    /// What the file numbers each line with.
    pub numbers: Vec<String>,
    /// The text and, for pair tasks, the second text.
    pub texts: Vec<(String, Option<String>)>,
}

impl GlueTask {
    /// Reads the test files of the task from `dir` or from its subfolder named after the task, each with the name of
    /// the file that its answers are to be sent in: `CoLA.tsv`, and for MNLI `MNLI-m.tsv`, `MNLI-mm.tsv` and, if there
    /// is a `diagnostic.tsv`, `AX.tsv`.
    ///
    /// # Errors
    /// A missing, empty or damaged file; a missing column; a line with a wrong number of columns.
    pub fn read_tests(self, dir: &Path) -> Result<Vec<(String, TestSplit)>> {
        let files = match self {
            Mnli => vec![
                ("test_matched.tsv", "MNLI-m.tsv".to_string()),
                ("test_mismatched.tsv", "MNLI-mm.tsv".to_string()),
            ],
            _ => vec![("test.tsv", format!("{}.tsv", self.name()))],
        };
        let inner = dir.join(self.name());
        let folder: PathBuf = match [dir, &inner]
            .into_iter()
            .find(|folder| folder.join(files[0].0).exists())
        {
            Some(folder) => folder.to_path_buf(),
            None => {
                return Err(Error::user(format!(
                    "there is no {} in {} or {}; name the folder with the files of {}",
                    files[0].0,
                    dir.display(),
                    inner.display(),
                    self.name()
                )));
            }
        };
        let more =
            (self == Mnli && folder.join(DIAGNOSTIC.0).exists()).then(|| (DIAGNOSTIC.0, DIAGNOSTIC.1.to_string()));
        files
            .into_iter()
            .chain(more)
            .map(|(file, answers)| Ok((answers, self.read_test(&folder.join(file))?)))
            .collect()
    }

    fn read_test(self, path: &Path) -> Result<TestSplit> {
        let Layout { first, second, .. } = self.layout();
        let text = read_text(path)?;
        let mut lines = numbered_lines(&text);
        let header = lines.next().map(|(_, line)| line).unwrap_or_default();
        let header: Vec<&str> = header.split('\t').map(str::trim).collect();
        let column = |names: &[&str]| {
            header.iter().position(|column| names.contains(column)).ok_or_else(|| {
                let (path, name, task) = (path.display(), names[0], self.name());
                Error::user(format!(
                    "{path} line 1 names no column '{name}'; use the files of {task} as distributed"
                ))
            })
        };
        let (number, first) = (column(&["index", "id"])?, column(&[first])?);
        let second = second.map(|second| column(&[second])).transpose()?;
        let mut split = TestSplit {
            numbers: Vec::new(),
            texts: Vec::new(),
        };
        for (line, cells) in lines {
            let cells: Vec<&str> = cells.split('\t').collect();
            if cells.len() != header.len() {
                let (path, found, wanted) = (path.display(), cells.len(), header.len());
                return Err(Error::user(format!(
                    "{path} line {line} has {found} columns instead of {wanted}; restore the file or the line"
                )));
            }
            split.numbers.push(cells[number].trim().to_string());
            let second = second.map(|second| cells[second].to_string());
            split.texts.push((cells[first].to_string(), second));
        }
        if split.texts.is_empty() {
            return Err(Error::user(format!(
                "{} has a header but no line of data; restore it",
                path.display()
            )));
        }
        Ok(split)
    }

    /// The answer of a class as the server wants it: its name where the task's files name classes, else its number.
    ///
    /// # Panics
    /// If the task has no such class.
    pub fn answer_of_class(self, class: usize) -> String {
        match (self.target(), self.layout().by_name) {
            (LabelKind::Classes(names), true) => names[class].clone(),
            _ => class.to_string(),
        }
    }

    /// The answer of a score as the server wants it: within the task's range.
    pub fn answer_of_score(self, score: f64) -> String {
        let (least, most) = (f64::from(*SCORES.start()), f64::from(*SCORES.end()));
        format!("{:.3}", score.clamp(least, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn test_files_are_read_with_their_numbers_and_answered_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write(
            "test_matched.tsv",
            "index\tgenre\tsentence1\tsentence2\n0\tx\ta\tb\n1\tx\tc\td\n",
        );
        write("test_mismatched.tsv", "index\tsentence2\tsentence1\n7\tb\ta\n");
        write("diagnostic.tsv", "index\tsentence1\tsentence2\n0\te\tf\n");
        let found = Mnli.read_tests(dir.path()).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"]);
        let pair = |a: &str, b: &str| (a.to_string(), Some(b.to_string()));
        assert_eq!(found[0].1.texts, [pair("a", "b"), pair("c", "d")]);
        assert_eq!(
            (found[1].1.numbers[0].as_str(), &found[1].1.texts[0]),
            ("7", &pair("a", "b"))
        );
        assert_eq!(
            [Mnli.answer_of_class(2), Rte.answer_of_class(1), Cola.answer_of_class(1)],
            ["contradiction", "not_entailment", "1"]
        );
        assert_eq!(
            [-0.2, 2.34567, 5.5].map(|score| Stsb.answer_of_score(score)),
            ["0.000", "2.346", "5.000"]
        );
    }

    #[test]
    fn mistakes_name_file_and_line() {
        let dir = tempfile::tempdir().unwrap();
        let task = dir.path().join("CoLA");
        fs::create_dir(&task).unwrap();
        let message = |task: GlueTask| task.read_tests(dir.path()).unwrap_err().to_string();
        assert!(message(Cola).starts_with("there is no test.tsv in "));
        let write = |text: &str| fs::write(task.join("test.tsv"), text).unwrap();
        write("index\tsentence\n");
        assert!(message(Cola).ends_with("CoLA/test.tsv has a header but no line of data; restore it"));
        write("index\ttext\n0\ta\n");
        assert!(message(Cola).contains("line 1 names no column 'sentence'"));
        write("index\tsentence\n0\ta\n1\n");
        assert!(message(Cola).contains("line 3 has 1 columns instead of 2"));
        write("index\tsentence\n0\ta\n");
        assert_eq!(Cola.read_tests(dir.path()).unwrap()[0].0, "CoLA.tsv");
    }
}
