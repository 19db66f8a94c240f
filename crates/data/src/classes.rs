//! The names of classes, and the class that a label means.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use lessen_base::{Error, Result};

use crate::files::{numbered_lines, quoted, read_text};
use crate::rows::{RawLabel, Row};

/// Most classes that are listed in a message.
const LISTED: usize = 8;

/// Examples of which each has a class of its own by mistake only.
const MANY: usize = 20;

/// Classes that labels are looked up in.
pub(crate) struct Classes {
    names: Vec<String>,
    numbers: HashMap<String, i32>,
    /// The file that they come from, for messages.
    source: String,
}

impl Classes {
    /// Classes with these names, which a model has.
    pub(crate) fn of_model(names: Vec<String>) -> Classes {
        let numbers = names.iter().cloned().zip(0..).collect();
        let source = "the model".to_string();
        Classes { names, numbers, source }
    }

    /// Classes with these names, which a file has.
    fn of_file(names: Vec<String>, path: &Path) -> Result<Classes> {
        if names.len() < 2 {
            return Err(Error::user(format!(
                "{} has only one class, and there is nothing to tell apart; give at least two classes",
                path.display()
            )));
        }
        let source = path.file_name().unwrap_or_default().display().to_string();
        let classes = Classes::of_model(names);
        Ok(Classes { source, ..classes })
    }

    /// Reads a file with a name in each line, in the order of numbers.
    pub(crate) fn read(path: &Path) -> Result<Classes> {
        let text = read_text(path)?;
        let mut names: Vec<String> = Vec::new();
        for (number, line) in numbered_lines(&text) {
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
        Classes::of_file(names, path)
    }

    /// The names in order.
    pub(crate) fn into_names(self) -> Vec<String> {
        self.names
    }

    /// The number of a row's class: that of its name, or else the number that it is labelled with.
    pub(crate) fn of(&self, row: &Row) -> Result<i32> {
        let label = single(row)?;
        let by_number = || {
            let number: usize = label.parse().ok()?;
            (number < self.names.len()).then_some(number as i32)
        };
        self.numbers.get(label).copied().or_else(by_number).ok_or_else(|| {
            let more = if self.names.len() > LISTED { ", ..." } else { "" };
            row.error(&format!(
                "has the label {}, but the {} classes of {} are {}{more}; use one of these",
                quoted(label),
                self.names.len(),
                self.source,
                self.names[..self.names.len().min(LISTED)].join(", ")
            ))
        })
    }
}

/// The classes that occur in rows.
#[derive(Default)]
pub(crate) struct Found {
    /// Numbers in the order of first appearance.
    numbers: HashMap<String, i32>,
    labels: Vec<i32>,
}

impl Found {
    /// Adds a row.
    pub(crate) fn add(&mut self, row: &Row) -> Result<()> {
        let label = single(row)?;
        let number = match self.numbers.get(label) {
            Some(number) => *number,
            None => {
                let next = self.numbers.len() as i32;
                self.numbers.insert(label.to_string(), next);
                next
            }
        };
        self.labels.push(number);
        Ok(())
    }

    /// The classes, whole numbers by size and words by their characters, and the labels of the rows. `source` is the
    /// file of the rows.
    pub(crate) fn sorted(self, source: &Path) -> Result<(Classes, Vec<i32>)> {
        let by_size: Option<BTreeMap<i64, &String>> = self
            .numbers
            .keys()
            .map(|name| Some((name.parse().ok()?, name)))
            .collect();
        let names: Vec<String> = match by_size.filter(|sorted| sorted.len() == self.numbers.len()) {
            Some(sorted) => sorted.into_values().cloned().collect(),
            None => {
                let mut names: Vec<String> = self.numbers.keys().cloned().collect();
                names.sort();
                names
            }
        };
        let mut places = vec![0; names.len()];
        for (place, name) in names.iter().enumerate() {
            places[self.numbers[name] as usize] = place as i32;
        }
        if names.len() > MANY && names.len() == self.labels.len() {
            return Err(Error::user(format!(
                "{} has {} examples and as many different labels, which cannot be classes; name the column of the class with \
                 data.label",
                source.display(),
                names.len()
            )));
        }
        let labels = self.labels.into_iter().map(|number| places[number as usize]).collect();
        Ok((Classes::of_file(names, source)?, labels))
    }
}

/// The only label of a row.
fn single(row: &Row) -> Result<&str> {
    match &row.label {
        Some(RawLabel::One(label)) if !label.is_empty() => Ok(label),
        Some(RawLabel::Many(_)) => Err(row.error("has several labels; give it one")),
        _ => Err(row.error("has no label; give it one, or remove it")),
    }
}
