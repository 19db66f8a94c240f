//! Columns of a file with texts and labels: the named ones, or else the ones with usual names.

use std::path::Path;

use lessen_base::{Error, Result};

use crate::files::quoted;
use crate::held_out_by::HeldOutBy;

/// The columns of labelled texts, as people name them. A number stands for a column of a CSV or TSV file without header
/// line, counted from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The text; usual names where it is missing: `text`, `sentence`, `title` and so on.
    pub text: Option<String>,
    /// The second text of a pair; usual names: `sentence2`, `hypothesis` and so on, beside their first.
    pub text_pair: Option<String>,
    /// The label; usual names: `label`, `class` and so on. Where texts can have several labels, a column that lists
    /// them, or with commas between them columns of 0 and 1, one for each label; where no usual name is found, all
    /// columns other than texts and numbers of rows are such.
    pub label: Option<String>,
    /// Whether texts can have several labels.
    pub several: bool,
    /// The column by which examples are held out for validation, which is read beside labels.
    pub held_out_by: HeldOutBy,
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
    "comment_text",
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

/// Usual names of a column with a list of labels.
const LABEL_LISTS: &[&str] = &[
    "labels",
    "label",
    "classes",
    "categories",
    "tags",
    "topics",
    "genres",
    "emotions",
];

/// Usual names of columns that say nothing of a text; pandas writes the number of a row under an empty name.
const IDS: &[&str] = &["id", "idx", "index", "guid", "uid", "", "unnamed: 0"];

/// Positions of the columns of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Positions {
    pub(crate) text: usize,
    pub(crate) text_pair: Option<usize>,
    /// None where labels are not asked for and have no column.
    pub(crate) label: Option<LabelAt>,
    /// The column by which examples are held out; none where labels are not asked for.
    pub(crate) held_out_by: Option<usize>,
}

/// Where labels stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LabelAt {
    /// In one column.
    One(usize),
    /// In columns of 0 and 1, one for each label.
    Each(Vec<usize>),
}

impl Columns {
    /// The number that a column is given by.
    fn number(name: &str) -> Option<usize> {
        name.parse().ok().filter(|&number: &usize| number > 0)
    }

    /// Whether columns are given by numbers, for files without a header line.
    pub(crate) fn are_numbers(&self) -> bool {
        let given = [&self.text, &self.text_pair, &self.label];
        let mut given = given.into_iter().flatten().peekable();
        given.peek().is_some() && given.all(|name| Columns::number(name).is_some())
    }

    /// The names of the columns of a table with these cells in its first line.
    pub(crate) fn names_of(&self, first: Vec<String>) -> Vec<String> {
        if self.are_numbers() {
            return (1..=first.len()).map(|number| number.to_string()).collect();
        }
        first
    }

    /// The positions in a file without a header line and with `count` columns.
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
        if with_label && label.is_none() {
            return Err(missing(LABEL));
        }
        let held_out_by = match self.held_out_by.column().filter(|_| with_label) {
            Some((name, key)) => {
                let found = position(&Some(name.to_string()), key)?;
                Some(found.ok_or_else(|| missing(key))?)
            }
            None => None,
        };
        Ok(Positions {
            text: position(&self.text, TEXT)?.ok_or_else(|| missing(TEXT))?,
            text_pair: position(&self.text_pair, PAIR)?,
            label: label.map(LabelAt::One),
            held_out_by,
        })
    }

    /// The positions in a file with these names of columns, which stand in line `line`, or where it is 0 in no line.
    pub(crate) fn named<S: AsRef<str>>(
        &self,
        path: &Path,
        line: usize,
        header: &[S],
        with_label: bool,
    ) -> Result<Positions> {
        let place = match line {
            0 => path.display().to_string(),
            line => format!("{} line {line}", path.display()),
        };
        let usual = |name: &str| {
            let is = |column: &S| column.as_ref().trim().eq_ignore_ascii_case(name);
            header.iter().position(is)
        };
        let given = |name: &str, key: &str| {
            let found = header.iter().position(|column| column.as_ref().trim() == name);
            found.ok_or_else(|| {
                Error::user(format!(
                    "{place} has no column {} ({key}); its columns are {}",
                    quoted(name),
                    listed(header)
                ))
            })
        };
        let unknown = |what: &str, key: &str| {
            Error::user(format!(
                "{place} has the columns {}, and none of them is known to be the {what}; name it with {key}",
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
                    Some(name) => Some(given(name, TEXT)?),
                    None => TEXTS.iter().find_map(|name| usual(name)),
                };
                (text, pair.as_deref().map(|name| given(name, PAIR)).transpose()?)
            }
        };
        let label = self.label_at(header, with_label, &|name| given(name, LABEL))?;
        let text = text.ok_or_else(|| unknown("text", TEXT))?;
        let label = match label {
            None if with_label && self.several => others(header, [Some(text), text_pair]),
            label => label,
        };
        if with_label && label.is_none() {
            return Err(unknown("label", LABEL));
        }
        if let (Some(LabelAt::One(column)), true) = (&label, with_label) {
            self.held_out_by.check_label(&place, header[*column].as_ref().trim())?;
        }
        let held_out_by = self.held_out_by.column().filter(|_| with_label);
        Ok(Positions {
            text,
            text_pair,
            label,
            held_out_by: held_out_by.map(|(name, key)| given(name, key)).transpose()?,
        })
    }

    /// Where labels stand, as far as a name says it. `given` is the column of a name, or else an error.
    fn label_at<S: AsRef<str>>(
        &self,
        header: &[S],
        with_label: bool,
        given: &dyn Fn(&str) -> Result<usize>,
    ) -> Result<Option<LabelAt>> {
        let there = |name: &str| header.iter().position(|column| column.as_ref().trim() == name);
        let Some(name) = &self.label else {
            let usual = if self.several { LABEL_LISTS } else { LABELS };
            let is = |column: &S, name: &str| column.as_ref().trim().eq_ignore_ascii_case(name);
            let found = usual
                .iter()
                .find_map(|name| header.iter().position(|column| is(column, name)));
            return Ok(found.map(LabelAt::One));
        };
        match (there(name), with_label) {
            (Some(column), _) => Ok(Some(LabelAt::One(column))),
            (None, false) => Ok(None),
            (None, true) if self.several && name.contains(',') => {
                let names = name.split(',').map(str::trim).filter(|name| !name.is_empty());
                Ok(Some(LabelAt::Each(names.map(given).collect::<Result<_>>()?)))
            }
            (None, true) => given(name).map(|column| Some(LabelAt::One(column))),
        }
    }
}

/// All columns other than texts and numbers of rows.
fn others<S: AsRef<str>>(header: &[S], texts: [Option<usize>; 2]) -> Option<LabelAt> {
    let is_id = |name: &str| IDS.iter().any(|id| name.trim().eq_ignore_ascii_case(id));
    let is_other = |column: &usize| !texts.contains(&Some(*column)) && !is_id(header[*column].as_ref());
    let others: Vec<usize> = (0..header.len()).filter(is_other).collect();
    (!others.is_empty()).then_some(LabelAt::Each(others))
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
        let label = label.map(LabelAt::One);
        Ok(Positions {
            text,
            text_pair,
            label,
            held_out_by: None,
        })
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
            ..Columns::default()
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
    fn several_labels_have_a_list_or_a_column_each() {
        let of = |label: Option<&str>, header: &[&str], with_label| {
            let columns = Columns {
                label: label.map(str::to_string),
                several: true,
                ..Columns::default()
            };
            positions(&columns, header, with_label)
        };
        let label = |found: Result<Positions>| found.unwrap().label;
        let each = |columns: &[usize]| Some(LabelAt::Each(columns.to_vec()));
        let jigsaw = ["id", "text", "toxic", "insult"];
        assert_eq!(label(of(None, &jigsaw, true)), each(&[2, 3]));
        assert_eq!(label(of(Some("insult, toxic"), &jigsaw, true)), each(&[3, 2]));
        assert_eq!(label(of(None, &jigsaw, false)), None);
        assert_eq!(label(of(Some("insult,toxic"), &["text"], false)), None);
        assert_eq!(
            label(of(None, &["text", "labels", "toxic"], true)),
            Some(LabelAt::One(1))
        );
        // A name with a comma goes before two names.
        assert_eq!(label(of(Some("a,b"), &["text", "a,b"], true)), Some(LabelAt::One(1)));
        let refused = |found: Result<Positions>| found.unwrap_err().to_string();
        assert_eq!(
            refused(of(Some("toxic,rude"), &jigsaw, true)),
            "a.csv line 1 has no column 'rude' (data.label); its columns are 'id', 'text', 'toxic', 'insult'"
        );
        assert!(refused(of(None, &["ID", "text"], true)).contains("none of them is known to be the label"));
    }

    #[test]
    fn numbers_stand_for_columns_without_header() {
        let columns = Columns {
            text: Some("2".into()),
            text_pair: Some("3".into()),
            label: Some("1".into()),
            ..Columns::default()
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
