//! The names of classes, and the class that a label means.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use crate::class_names;
use crate::files::{numbered_lines, quoted, read_text};
use crate::label_sets::LabelSets;
use crate::raw_label::RawLabel;
use crate::row::Row;

/// Most classes that are listed in a message.
const LISTED: usize = 8;

/// The number of examples from which on a class for each of them is a mistake.
const MANY: usize = 20;

/// Classes that labels are looked up in: by their names, or where no label is a name, by their numbers.
pub(crate) struct Classes {
    names: Vec<String>,
    by_name: HashMap<String, i32>,
    /// The file that they come from, for messages.
    source: String,
    /// How the labels that were looked up so far say their classes.
    labels: RefCell<LabelsAre>,
}

/// How labels say their classes.
#[derive(Default)]
enum LabelsAre {
    /// There were none yet.
    #[default]
    Unknown,
    /// By their names.
    Names,
    /// By their numbers from 0 on; the place of the first such label, and the label.
    Numbers(String, String),
}

impl Classes {
    /// Classes with these names, which a model has.
    pub(crate) fn of_model(names: Vec<String>) -> Classes {
        let by_name = names.iter().cloned().zip(0..).collect();
        Classes {
            names,
            by_name,
            source: "the model".to_string(),
            labels: RefCell::default(),
        }
    }

    /// Classes with these names, which a file has: two at least, or where texts can have several of them, one.
    pub(crate) fn of_file(names: Vec<String>, path: &Path, several: bool) -> Result<Classes> {
        if names.len() < 2 && !several {
            return Err(Error::user(format!(
                "{} has only one class, and there is nothing to tell apart; give at least two classes",
                path.display()
            )));
        }
        if names.is_empty() {
            return Err(Error::user(format!(
                "{} has no text with a label; give at least one a label",
                path.display()
            )));
        }
        let source = path.file_name().unwrap_or_default().display().to_string();
        let classes = Classes::of_model(names);
        Ok(Classes { source, ..classes })
    }

    /// Reads a file with a name in each line, in the order of numbers.
    pub(crate) fn read(path: &Path, several: bool) -> Result<Classes> {
        Classes::of_lines(numbered_lines(&read_text(path)?), path, several)
    }

    /// The classes whose names a file lists, or that are given; none where there are neither.
    pub(crate) fn listed(
        file: &Option<PathBuf>,
        given: &Option<Vec<String>>,
        several: bool,
    ) -> Result<Option<Classes>> {
        match (file, given) {
            (Some(file), _) => Classes::read(file, several).map(Some),
            (None, Some(names)) => {
                let lines = (1..).zip(names.iter().map(String::as_str));
                Classes::of_lines(lines, Path::new("the given list"), several).map(Some)
            }
            (None, None) => Ok(None),
        }
    }

    /// Classes whose names stand in the lines of a file, or of a list.
    fn of_lines<'a>(lines: impl Iterator<Item = (usize, &'a str)>, path: &Path, several: bool) -> Result<Classes> {
        let mut names: Vec<String> = Vec::new();
        for (number, line) in lines {
            let name = line.trim();
            let fault = match names.iter().position(|other| other == name) {
                _ if name.is_empty() => "is blank; name one class a line".to_string(),
                Some(index) => format!(
                    "names {}, as line {} does; give each class its own name",
                    quoted(name),
                    index + 1
                ),
                None => {
                    names.push(name.to_string());
                    continue;
                }
            };
            return Err(Error::user(format!("{} line {number} {fault}", path.display())));
        }
        Classes::of_file(names, path, several)
    }

    /// The names in order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The same, without the classes.
    pub(crate) fn into_names(self) -> Vec<String> {
        self.names
    }

    /// The same, for labels that are names whatever else they could be.
    pub(crate) fn of_names(self) -> Classes {
        self.labels.replace(LabelsAre::Names);
        self
    }

    /// The number of a row's class.
    pub(crate) fn of(&self, row: &Row) -> Result<i32> {
        self.number(single(row)?, &|| row.place())
    }

    /// The numbers of a row's classes; in one word they are separated.
    pub(crate) fn all_of(&self, row: &Row, separator: &str) -> Result<Vec<i32>> {
        let labels = several(row, separator)?;
        if let Some(RawLabel::Columns(names, _)) = &row.label {
            // Columns are classes also where they are 0.
            names
                .iter()
                .try_for_each(|name| self.number(name, &|| row.place()).map(|_| ()))?;
        }
        labels.iter().map(|label| self.number(label, &|| row.place())).collect()
    }

    /// No sets of these classes yet.
    pub(crate) fn sets(&self) -> LabelSets {
        LabelSets::new(self.names.len())
    }

    /// The number of the class that a label at a place says. All labels say it in the same way: by the names of
    /// classes, or if none of them is a name, by their numbers from 0 on.
    ///
    /// # Errors
    /// A label that is no class, and a number among names.
    pub(crate) fn number(&self, label: &str, place: &dyn Fn() -> String) -> Result<i32> {
        let refused = |place: &str, label: &str| {
            Error::user(format!(
                "{place} has the label {}, but the {} classes of {} are {}; use one of these",
                quoted(label),
                self.names.len(),
                self.source,
                listed(&self.names)
            ))
        };
        let is = &mut *self.labels.borrow_mut();
        match (self.by_name.get(label), is) {
            (Some(_), LabelsAre::Numbers(first, number)) => Err(refused(first, number)),
            (Some(number), is) => {
                *is = LabelsAre::Names;
                Ok(*number)
            }
            (None, is) => {
                let number = label.parse().ok().filter(|number: &usize| *number < self.names.len());
                match (number.filter(|number| number.to_string() == label), &is) {
                    (Some(number), LabelsAre::Unknown) => {
                        *is = LabelsAre::Numbers(place(), label.to_string());
                        Ok(number as i32)
                    }
                    (Some(number), LabelsAre::Numbers(..)) => Ok(number as i32),
                    _ => Err(refused(&place(), label)),
                }
            }
        }
    }

    /// What there is to say of how the labels that were looked up say their classes; nothing where they are names.
    pub(crate) fn remark(&self) -> Option<String> {
        let LabelsAre::Numbers(..) = &*self.labels.borrow() else {
            return None;
        };
        let all = self.names.iter().enumerate().take(LISTED);
        let shown: Vec<String> = all.map(|(number, name)| format!("{number} is {name}")).collect();
        let more = if self.names.len() > LISTED { ", ..." } else { "" };
        Some(format!(
            "no label is the name of a class of {}, so labels are the numbers of classes from 0 on: {}{more}",
            self.source,
            shown.join(", ")
        ))
    }

    /// The number of each label: of each name, or where labels are numbers, of each number.
    pub(crate) fn into_numbers(self) -> HashMap<String, i32> {
        match self.labels.into_inner() {
            LabelsAre::Numbers(..) => (0..self.names.len())
                .map(|number| number.to_string())
                .zip(0..)
                .collect(),
            LabelsAre::Names | LabelsAre::Unknown => self.by_name,
        }
    }
}

/// The classes that occur in rows.
#[derive(Default)]
pub(crate) struct Found {
    /// Numbers in the order of first appearance.
    numbers: HashMap<String, i32>,
    /// The labels of the rows one after another, and the end of each row's labels.
    labels: Vec<i32>,
    ends: Vec<usize>,
    /// Whether the classes are columns, whose order counts.
    in_columns: bool,
}

impl Found {
    /// Adds a row with one class.
    pub(crate) fn add(&mut self, row: &Row) -> Result<()> {
        self.add_label(single(row)?);
        self.ends.push(self.labels.len());
        Ok(())
    }

    /// Adds a row that can have several classes; in one word they are separated.
    pub(crate) fn add_all(&mut self, row: &Row, separator: &str) -> Result<()> {
        if let Some(RawLabel::Columns(names, _)) = &row.label {
            self.in_columns = true;
            for name in names.iter() {
                self.number(name);
            }
        }
        several(row, separator)?.iter().for_each(|label| self.add_label(label));
        self.ends.push(self.labels.len());
        Ok(())
    }

    fn add_label(&mut self, label: &str) {
        let number = self.number(label);
        self.labels.push(number);
    }

    fn number(&mut self, label: &str) -> i32 {
        if let Some(number) = self.numbers.get(label) {
            return *number;
        }
        let next = self.numbers.len() as i32;
        self.numbers.insert(label.to_string(), next);
        next
    }

    /// The classes, whole numbers by size and words by their characters, and the labels of the rows. `source` is the
    /// file of the rows.
    pub(crate) fn sorted(self, source: &Path) -> Result<(Classes, Vec<i32>)> {
        let (names, places) = self.order();
        if names.len() > MANY && names.len() == self.ends.len() {
            return Err(Error::user(format!(
                "{} has {} examples and as many different labels, which cannot be classes; name the column of the class with \
                 data.label, or learn numbers with data.problem = \"regression\"",
                source.display(),
                names.len()
            )));
        }
        let labels = self.labels.into_iter().map(|number| places[number as usize]).collect();
        Ok((Classes::of_file(names, source, false)?.of_names(), labels))
    }

    /// The classes, columns in their order and others as [`Found::sorted`] does, and the sets of classes of the rows;
    /// what there is to say of them.
    pub(crate) fn sorted_sets(self, source: &Path, separator: &str) -> Result<(Classes, LabelSets, Option<String>)> {
        let (names, places) = self.order();
        if names.len() > MANY && names.len() >= self.ends.len() {
            return Err(Error::user(format!(
                "{} has {} examples and {} different labels, which cannot be right; name the column of the labels with \
                 data.label, and what stands between labels with data.separator",
                source.display(),
                self.ends.len(),
                names.len()
            )));
        }
        let mut sets = LabelSets::new(names.len());
        let (mut start, mut most) = (0, 0);
        for end in self.ends {
            let set: Vec<i32> = self.labels[start..end]
                .iter()
                .map(|label| places[*label as usize])
                .collect();
            most = most.max(set.len());
            sets.push(&set);
            start = end;
        }
        let remark = match most {
            _ if self.in_columns => Some(format!("the labels are the columns {}", listed(&names))),
            0 | 1 => Some(format!(
                "warning: no text of {} has several labels; what stands between labels is {} (data.separator)",
                source.display(),
                quoted(separator)
            )),
            _ => None,
        };
        Ok((Classes::of_file(names, source, true)?.of_names(), sets, remark))
    }

    /// The names of the classes in order, and the place there of each number.
    fn order(&self) -> (Vec<String>, Vec<i32>) {
        let mut names: Vec<String> = self.numbers.keys().cloned().collect();
        if self.in_columns {
            names.sort_by_key(|name| self.numbers[name]);
        } else {
            class_names::sort(&mut names);
        }
        let mut places = vec![0; names.len()];
        for (place, name) in names.iter().enumerate() {
            places[self.numbers[name] as usize] = place as i32;
        }
        (names, places)
    }
}

/// Names for a message; not too many of them.
fn listed(names: &[String]) -> String {
    let more = if names.len() > LISTED { ", ..." } else { "" };
    format!("{}{more}", names[..names.len().min(LISTED)].join(", "))
}

/// The only label of a row.
fn single(row: &Row) -> Result<&str> {
    match &row.label {
        Some(RawLabel::One(label)) if !label.is_empty() => Ok(label),
        Some(RawLabel::Many(_)) => Err(row.error(
            "has several labels; give it one, or say that texts have several with data.problem = \
             \"multi_label_classification\"",
        )),
        _ => Err(row.error("has no label; give it one, or remove it")),
    }
}

/// The labels of a row that can have several: a list, names of columns, or one word with separators. A word in brackets
/// is a list as Python and JSON write it.
fn several<'a>(row: &'a Row, separator: &str) -> Result<Vec<&'a str>> {
    let separated = |text: &'a str, separator: &str| -> Vec<&'a str> {
        let labels = text.split(separator).map(str::trim);
        labels.filter(|label| !label.is_empty()).collect()
    };
    match &row.label {
        Some(RawLabel::One(text)) => match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            Some(list) => Ok(separated(list, ",").into_iter().map(unquoted).collect()),
            None => Ok(separated(text, separator)),
        },
        Some(RawLabel::Many(labels)) => Ok(labels.iter().map(String::as_str).collect()),
        Some(RawLabel::Columns(names, flags)) => {
            let set = names.iter().zip(flags).filter(|(_, flag)| **flag);
            Ok(set.map(|(name, _)| name.as_str()).collect())
        }
        None => Err(row.error("has no labels; leave their place empty where a text has none")),
    }
}

/// A word without the quotes around it.
fn unquoted(word: &str) -> &str {
    let inside = |quote: char| word.strip_prefix(quote)?.strip_suffix(quote);
    inside('\'').or_else(|| inside('"')).unwrap_or(word)
}

/// The number that a row is labelled with.
pub(crate) fn score_of(row: &Row) -> Result<f32> {
    let text = match &row.label {
        Some(RawLabel::One(text)) if !text.is_empty() => text,
        Some(RawLabel::Many(_) | RawLabel::Columns(..)) => {
            return Err(row.error(&format!("has several labels{}; give it one number", row.in_column())));
        }
        _ => return Err(row.error(&format!("has no number{}; give it one, or remove it", row.in_column()))),
    };
    let number = text.parse().ok().filter(|number: &f32| number.is_finite());
    number.ok_or_else(|| {
        row.error(&format!(
            "has {}{}, which is no number; write one such as 3.5",
            quoted(text),
            row.in_column()
        ))
    })
}
