//! The look at files with rows, and at folders of texts for each class.

use std::path::Path;

use lessen_base::{Error, Result};

use super::counts::ClassCounts;
use super::histogram::NumberLook;
use super::repeats::SeenRows;
use super::role::Role;
use super::roles::{LabelIn, Roles, Seen};
use super::several::labels_of;
use super::task::Task;
use super::texts::{MARK, TextCounts};
use super::{Look, LookOptions};
use crate::cell_row::CellRow;
use crate::cell_values::{is_missing, number};
use crate::columns::Columns;
use crate::files::quoted;
use crate::labels::Problem;
use crate::places::{Places, files_of};
use crate::raw_label::RawLabel;
use crate::rows::{Place, Rows};
use crate::table::cells::CellFile;
use crate::table::profile::Profile;
use crate::unlabelled::LeftOut;

/// Lines that are kept as examples.
const SHOWN: usize = 5;

/// An example of a split.
struct Example {
    line: usize,
    /// The text, both of a pair, or the cells of a row of a table.
    text: String,
    is_empty: bool,
    /// None where there is no column of labels; empty where a label is missing.
    label: Option<String>,
}

/// How examples are made of rows.
struct Reading<'a> {
    names: &'a [String],
    roles: &'a Roles,
    /// The columns of a table whose values are compared.
    inputs: Vec<usize>,
}

/// Looks at the rows of all splits.
pub(super) fn look(path: &Path, options: &LookOptions, look: &mut Look) -> Result<()> {
    let places = Places::of(path)?;
    let given = |path: &Option<std::path::PathBuf>, found| match path {
        Some(path) => files_of(path).map(|files| Some(Place::Files(files))),
        None => Ok(found),
    };
    let (dev, test) = (given(&options.dev, places.dev)?, given(&options.test, places.test)?);
    let (names, roles) = roles_of(&places.train, options)?;
    let compared = |at: &usize| !matches!(roles.columns[*at].role, Role::Label | Role::Id | Role::Ignored);
    let reading = Reading {
        inputs: (0..roles.columns.len()).filter(compared).collect(),
        names: &names,
        roles: &roles,
    };
    (look.task, look.has_pairs) = (roles.task, roles.text_pair.is_some());
    let (mut seen, mut texts, mut classes) = (SeenRows::default(), TextCounts::default(), ClassCounts::default());
    let (mut numbers, mut no_number) = (Vec::new(), None);
    let separator = roles.separator.as_deref().unwrap_or(",");
    let is_table = matches!(roles.task, Task::Table(_));
    let is_number = matches!(roles.task, Task::Number | Task::Table(Problem::Regression));
    let is_without = |label: &str| match is_table || is_number {
        true => is_missing(label),
        false => label.is_empty(),
    };
    reading.for_each(&places.train, &mut |example| {
        look.rows.train += 1;
        if example.is_empty {
            look.empty += 1;
            if look.empty_lines.len() < SHOWN {
                look.empty_lines.push(example.line);
            }
        } else {
            let label = example.label.as_deref();
            seen.add(example.line, &example.text, label.filter(|label| !is_without(label)));
        }
        if !is_table {
            texts.add(&example.text);
        }
        let Some(label) = &example.label else { return Ok(()) };
        match () {
            () if roles.task == Task::SeveralLabels => classes.add(labels_of(label, separator)),
            () if is_without(label) => {
                look.unlabelled += 1;
                if look.unlabelled_lines.len() < SHOWN {
                    look.unlabelled_lines.push(example.line);
                }
            }
            () if is_number => match number(label) {
                Some(number) => numbers.push(number as f32),
                None => no_number = no_number.take().or_else(|| Some((example.line, label.clone()))),
            },
            () => classes.add([&label[..]].into_iter()),
        }
        Ok(())
    })?;
    let leaks = |place: &Place| -> Result<(usize, usize)> {
        let (mut rows, mut in_train) = (0, 0);
        reading.for_each(place, &mut |example| {
            rows += 1;
            in_train += usize::from(!example.is_empty && seen.has(&example.text));
            Ok(())
        })?;
        Ok((rows, in_train))
    };
    if let Some(dev) = &dev {
        let (rows, in_train) = leaks(dev)?;
        (look.rows.dev, look.dev_in_train) = (Some(rows), Some(in_train));
    }
    if let Some(test) = &test {
        let (rows, in_train) = leaks(test)?;
        (look.rows.test, look.test_in_train) = (Some(rows), Some(in_train));
    }
    look.repeats = seen.repeats();
    look.texts = (!is_table).then(|| texts.look());
    if roles.label != LabelIn::Nowhere {
        look.classes = (!is_number).then(|| classes.look());
        look.numbers = NumberLook::of(numbers);
    }
    look.columns = roles.columns;
    look.reason = roles.reason;
    look.settings = roles.settings;
    look.separator = roles.separator;
    look.problems = roles.problems;
    look.blocking = no_number.map(|(line, label)| {
        format!(
            "{} line {line} has {} where a number is to be learnt; correct it, or learn classes with data.problem = \
             \"single_label_classification\"",
            look.path,
            quoted(&label)
        )
    });
    Ok(())
}

/// The names of the columns of a split and their roles.
fn roles_of(place: &Place, options: &LookOptions) -> Result<(Vec<String>, Roles)> {
    let files = match place {
        Place::Files(files) if !is_plain(&files[0]) => files,
        _ => return Ok((Vec::new(), of_texts(place, options)?)),
    };
    let asked: Vec<&str> = [&options.text, &options.text_pair, &options.label]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let first = CellFile::open(&files[0], &asked)?;
    let (names, is_named) = (first.names.to_vec(), first.is_named);
    let mut profiles = vec![Profile::new(); names.len()];
    for row in first.rows.take(options.sample) {
        row?.cells
            .iter()
            .zip(&mut profiles)
            .for_each(|(cell, profile)| profile.add(cell));
    }
    let seen = Seen {
        path: &files[0],
        names: &names,
        is_named,
        profiles: &profiles,
        options,
    };
    let roles = seen.roles()?;
    Ok((names, roles))
}

/// Whether a file has a text, a tab and a label in each line.
fn is_plain(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("txt"))
}

/// The task of texts without columns, by the first labels.
fn of_texts(place: &Place, options: &LookOptions) -> Result<Roles> {
    let mut profile = Profile::new();
    let rows = rows_of(place);
    for row in rows.iter().take(options.sample) {
        if let Some(RawLabel::One(label)) = row?.label {
            profile.add(&label);
        }
    }
    let names = ["label".to_string()];
    let seen = Seen {
        path: rows.files()[0],
        names: &names,
        is_named: true,
        profiles: std::slice::from_ref(&profile),
        options,
    };
    let mut roles = Roles {
        label: LabelIn::One(0),
        ..Roles::default()
    };
    seen.task_of_texts(&mut roles, matches!(place, Place::Texts(_)));
    Ok(roles)
}

fn rows_of(place: &Place) -> Rows {
    Rows {
        place: place.clone(),
        columns: Columns::default(),
        with_label: true,
        left_out: LeftOut::Nothing,
    }
}

impl Reading<'_> {
    /// Calls `each` for every row of a split.
    fn for_each(&self, place: &Place, each: &mut dyn FnMut(Example) -> Result<()>) -> Result<()> {
        let files = match place {
            Place::Files(files) if !is_plain(&files[0]) => files,
            _ => {
                return rows_of(place).iter().try_for_each(|row| {
                    let row = row?;
                    let label = match row.label {
                        Some(RawLabel::One(label)) => label,
                        _ => String::new(),
                    };
                    each(Example {
                        line: row.line,
                        is_empty: row.text.trim().is_empty(),
                        text: row.text,
                        label: Some(label),
                    })
                });
            }
        };
        let wanted = self.wanted();
        for path in files {
            let names: Vec<&str> = wanted.iter().map(|at| &self.names[*at][..]).collect();
            let file = CellFile::open(path, &names)?;
            // The columns of this file by those of the first one.
            let mut places = vec![None; self.names.len()];
            for at in &wanted {
                places[*at] = Some(file.column(&self.names[*at]).ok_or_else(|| {
                    let name = quoted(&self.names[*at]);
                    Error::user(format!(
                        "{} has no column {name}, which the training file has; add it, or name another file",
                        path.display()
                    ))
                })?);
            }
            for row in file.rows {
                each(self.example(&row?, &places))?;
            }
        }
        Ok(())
    }

    /// The columns that examples are made of.
    fn wanted(&self) -> Vec<usize> {
        let roles = self.roles;
        let labels = match &roles.label {
            LabelIn::Nowhere => Vec::new(),
            LabelIn::One(at) => vec![*at],
            LabelIn::Each(columns) => columns.clone(),
        };
        match roles.text {
            Some(text) => [text].into_iter().chain(roles.text_pair).chain(labels).collect(),
            None => self.inputs.iter().copied().chain(labels).collect(),
        }
    }

    fn example(&self, row: &CellRow, places: &[Option<usize>]) -> Example {
        let cell = |at: usize| places[at].map_or("", |place| &row.cells[place][..]);
        let (text, is_empty) = match (self.roles.text, self.roles.text_pair) {
            (Some(text), None) => (cell(text).to_string(), cell(text).trim().is_empty()),
            (Some(text), Some(pair)) => {
                let is_empty = [text, pair].iter().any(|at| cell(*at).trim().is_empty());
                (format!("{}{MARK}{}", cell(text), cell(pair)), is_empty)
            }
            (None, _) => {
                let cells: Vec<&str> = self.inputs.iter().map(|at| cell(*at).trim()).collect();
                (cells.join("\u{1f}"), cells.iter().all(|cell| is_missing(cell)))
            }
        };
        let label = match &self.roles.label {
            LabelIn::Nowhere => None,
            LabelIn::One(at) => Some(cell(*at).trim().to_string()),
            LabelIn::Each(columns) => {
                let is_one = |at: &&usize| matches!(cell(**at).trim(), "1" | "1.0");
                let names: Vec<&str> = columns.iter().filter(is_one).map(|at| &self.names[*at][..]).collect();
                Some(names.join(","))
            }
        };
        Example {
            line: row.line,
            text,
            is_empty,
            label,
        }
    }
}
