//! Which columns of a file hold texts and labels: those that are named, or else those with usual names.

use std::path::Path;

use lessen_base::{Error, Result};

use crate::files::quoted;

/// The columns of labelled texts, as people name them. A number stands for a column of a CSV or TSV file without header
/// line, counted from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The text; usual names where it is missing: `text`, `sentence`, `title` and so on.
    pub text: Option<String>,
    /// The second text of a pair; usual names: `sentence2`, `hypothesis` and so on, beside their first.
    pub text_pair: Option<String>,
    /// The label; usual names: `label`, `class` and so on.
    pub label: Option<String>,
}

/// Usual names of the two texts of a pair.
const PAIRS: &[(&str, &str)] = &[
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("text", "text_pair"),
    ("sentence", "sentence_pair"),
    ("question", "answer"),
    ("query", "passage"),
];

/// Usual names of a text.
const TEXTS: &[&str] = &[
    "text",
    "sentence",
    "title",
    "content",
    "review",
    "comment",
    "tweet",
    "message",
    "document",
    "utterance",
    "body",
    "question",
    "query",
    "headline",
];

/// Usual names of a label.
const LABELS: &[&str] = &[
    "label",
    "labels",
    "class",
    "category",
    "target",
    "intent",
    "sentiment",
    "stars",
    "rating",
    "score",
    "topic",
    "gold_label",
];

/// Positions of the columns of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Positions {
    pub(crate) text: usize,
    pub(crate) text_pair: Option<usize>,
    /// None where labels are not asked for and have no column.
    pub(crate) label: Option<usize>,
}

impl Columns {
    /// The number that a column is given by.
    fn number(name: &str) -> Option<usize> {
        name.parse().ok().filter(|&number: &usize| number > 0)
    }

    /// Whether columns are given by numbers, as those of files without header line.
    pub(crate) fn are_numbers(&self) -> bool {
        let given = [&self.text, &self.text_pair, &self.label];
        let mut given = given.into_iter().flatten().peekable();
        given.peek().is_some() && given.all(|name| Columns::number(name).is_some())
    }

    /// The positions in a file without header line, of which a line has `count` columns.
    pub(crate) fn numbered(&self, path: &Path, count: usize, with_label: bool) -> Result<Positions> {
        let position = |name: &Option<String>, key: &str| -> Result<Option<usize>> {
            let Some(number) = name.as_deref().and_then(Columns::number) else {
                return Ok(None);
            };
            if number <= count {
                return Ok(Some(number - 1));
            }
            Err(Error::user(format!(
                "{} line 1 has {count} columns and no column {number} ({key}); number them from 1 to {count}",
                path.display()
            )))
        };
        let missing = |key: &str| {
            Error::user(format!(
                "{}: some of its columns are given by numbers, but not {key}; number that too",
                path.display()
            ))
        };
        let label = position(&self.label, LABEL)?;
        Ok(Positions {
            text: position(&self.text, TEXT)?.ok_or_else(|| missing(TEXT))?,
            text_pair: position(&self.text_pair, PAIR)?,
            label: if with_label {
                Some(label.ok_or_else(|| missing(LABEL))?)
            } else {
                label
            },
        })
    }

    /// The positions in a file with these names of columns, which stand in line `line`.
    pub(crate) fn named<S: AsRef<str>>(
        &self,
        path: &Path,
        line: usize,
        header: &[S],
        with_label: bool,
    ) -> Result<Positions> {
        let usual = |name: &str| {
            let is = |column: &S| column.as_ref().trim().eq_ignore_ascii_case(name);
            header.iter().position(is)
        };
        let given = |name: &str, key: &str| {
            let found = header.iter().position(|column| column.as_ref().trim() == name);
            found.map(Some).ok_or_else(|| {
                Error::user(format!(
                    "{} line {line} has no column {} ({key}); its columns are {}",
                    path.display(),
                    quoted(name),
                    listed(header)
                ))
            })
        };
        let unknown = |what: &str, key: &str| {
            Error::user(format!(
                "{} line {line} has the columns {}, and none of them is known to be the {what}; name it with {key}",
                path.display(),
                listed(header)
            ))
        };
        let of_pair = PAIRS
            .iter()
            .find_map(|(first, second)| Some((usual(first)?, usual(second)?)));
        let (text, text_pair) = match (&self.text, &self.text_pair, of_pair) {
            (None, None, Some((first, second))) => (Some(first), Some(second)),
            (text, pair, _) => {
                let text = match text {
                    Some(name) => given(name, TEXT)?,
                    None => TEXTS.iter().find_map(|name| usual(name)),
                };
                (text, pair.as_deref().map_or(Ok(None), |name| given(name, PAIR))?)
            }
        };
        let label = match &self.label {
            Some(name) if with_label => given(name, LABEL)?,
            Some(name) => header.iter().position(|column| column.as_ref().trim() == name),
            None => LABELS.iter().find_map(|name| usual(name)),
        };
        if with_label && label.is_none() {
            return Err(unknown("label", LABEL));
        }
        Ok(Positions {
            text: text.ok_or_else(|| unknown("text", TEXT))?,
            text_pair,
            label,
        })
    }
}

/// The keys of recipes that name columns, for messages.
const TEXT: &str = "data.text";
const PAIR: &str = "data.text_pair";
const LABEL: &str = "data.label";

/// Names of columns for a message; at most eight of them.
fn listed<S: AsRef<str>>(header: &[S]) -> String {
    let names: Vec<String> = header.iter().take(8).map(|name| quoted(name.as_ref().trim())).collect();
    let more = if header.len() > names.len() { ", ..." } else { "" };
    format!("{}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(columns: &Columns, header: &[&str], with_label: bool) -> Result<Positions> {
        columns.named(Path::new("a.csv"), 1, header, with_label)
    }

    fn at(text: usize, text_pair: Option<usize>, label: Option<usize>) -> Result<Positions> {
        Ok(Positions { text, text_pair, label })
    }

    #[test]
    fn usual_names_are_found_whatever_their_case() {
        let usual = Columns::default();
        assert_eq!(positions(&usual, &["id", "Label", "Text"], true), at(2, None, Some(1)));
        assert_eq!(positions(&usual, &["class", "sentence"], true), at(1, None, Some(0)));
        assert_eq!(
            positions(&usual, &["premise", "hypothesis", "text", "label"], true),
            at(0, Some(1), Some(3))
        );
        assert_eq!(positions(&usual, &["text", "n"], false), at(0, None, None));
        assert_eq!(
            positions(&usual, &["a", "label"], true).unwrap_err().to_string(),
            "a.csv line 1 has the columns 'a', 'label', and none of them is known to be the text; name it with data.text"
        );
        assert_eq!(
            positions(&usual, &["text", "b"], true).unwrap_err().to_string(),
            "a.csv line 1 has the columns 'text', 'b', and none of them is known to be the label; name it with data.label"
        );
    }

    #[test]
    fn given_names_go_before_usual_ones() {
        let columns = Columns {
            text: Some("body".into()),
            text_pair: None,
            label: Some("y".into()),
        };
        let header = ["sentence1", "sentence2", "body", "label", "y"];
        assert_eq!(positions(&columns, &header, true), at(2, None, Some(4)));
        assert_eq!(
            positions(&columns, &["body", "z"], true).unwrap_err().to_string(),
            "a.csv line 1 has no column 'y' (data.label); its columns are 'body', 'z'"
        );
        assert_eq!(positions(&columns, &["body", "z"], false), at(0, None, None));
    }

    #[test]
    fn numbers_stand_for_columns_without_header() {
        let columns = Columns {
            text: Some("2".into()),
            text_pair: Some("3".into()),
            label: Some("1".into()),
        };
        assert!(columns.are_numbers() && !Columns::default().are_numbers());
        let numbered = |count| columns.numbered(Path::new("a.csv"), count, true);
        assert_eq!(numbered(3), at(1, Some(2), Some(0)));
        assert_eq!(
            numbered(2).unwrap_err().to_string(),
            "a.csv line 1 has 2 columns and no column 3 (data.text_pair); number them from 1 to 2"
        );
        let half = Columns { label: None, ..columns };
        let error = half.numbered(Path::new("a.csv"), 3, true).unwrap_err().to_string();
        assert_eq!(
            error,
            "a.csv: some of its columns are given by numbers, but not data.label; number that too"
        );
    }
}
