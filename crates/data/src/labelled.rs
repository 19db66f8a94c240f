//! Labelled texts as people have them: `text<TAB>label` lines, CSV, TSV and JSON lines with named columns, folders with
//! a folder for each class. `docs/data.md` shows each of them.
//!
//! Texts are read when they are needed and are never in memory as a whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::classes::{Classes, Found};
pub use crate::columns::Columns;
use crate::examples::{Dataset, Examples, LabelKind, Labels};
use crate::held_out;
use crate::metrics::Metric;
use crate::places::{Places, files_of};
use crate::rows::{Place, Rows};

/// How labelled texts are to be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Which columns of CSV, TSV and JSON lines hold texts and labels.
    pub columns: Columns,
    /// A file, or files with a pattern for their path, for the split `dev`; over that of the folder.
    pub dev: Option<PathBuf>,
    /// The same for the split `test`.
    pub test: Option<PathBuf>,
    /// Where there is no split `dev`, the share of the training split that is kept for it, in `(0, 1)`.
    pub held_out: f64,
    /// Which examples these are, of every class its share.
    pub held_out_seed: u64,
    /// The classes of the model that the data is for, in order; `class.txt` goes before them.
    pub classes: Option<Vec<String>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            columns: Columns::default(),
            dev: None,
            test: None,
            held_out: 0.1,
            held_out_seed: 1,
            classes: None,
        }
    }
}

/// Reads a file, the files that a pattern stands for, or a folder. Classes are numbered as `class.txt` in the folder
/// lists them, or else as the options do, or else, of those of the training split, whole numbers by size and words by
/// their characters.
///
/// # Errors
/// A missing, empty or damaged file; a line without text or label; a label of no class; fewer than two classes. The
/// message names file, line, column and remedy.
pub fn read(path: &Path, options: &Options) -> Result<Dataset> {
    let places = Places::of(path)?;
    let given = |path: &Option<PathBuf>, found| match path {
        Some(path) => files_of(path).map(|files| Some(Place::Files(files))),
        None => Ok(found),
    };
    let (dev, test) = (given(&options.dev, places.dev)?, given(&options.test, places.test)?);
    let rows = |place| Rows {
        place,
        columns: options.columns.clone(),
        with_label: true,
    };
    let train = rows(places.train);
    let known = match (&places.names, &options.classes) {
        (Some(names), _) => Some(Classes::read(names)?),
        (None, Some(names)) => Some(Classes::of_model(names.clone())),
        (None, None) => None,
    };
    let (classes, labels) = match known {
        Some(classes) => {
            let labels = labels_of(&train, &classes)?;
            (classes, labels)
        }
        None => {
            let mut found = Found::default();
            train.iter().try_for_each(|row| found.add(&row?))?;
            found.sorted(train.files()[0])?
        }
    };
    let others = |place| -> Result<Examples> {
        let rows = rows(place);
        let labels = Labels::Classes(labels_of(&rows, &classes)?);
        Ok(Examples::from_rows(Arc::new(rows), None, labels))
    };
    let more = test
        .map(|place| Ok(("test", others(place)?)))
        .into_iter()
        .collect::<Result<_>>()?;
    let mut remarks = Vec::new();
    let (train, dev) = match dev {
        Some(place) => (
            Examples::from_rows(Arc::new(train), None, Labels::Classes(labels)),
            others(place)?,
        ),
        None => {
            let (train, dev) = split(train, labels, options)?;
            remarks.push(format!(
                "there is no dev file: {} of {} examples are kept for validation",
                dev.len(),
                dev.len() + train.len()
            ));
            (train, dev)
        }
    };
    Ok(Dataset {
        train,
        dev,
        more,
        target: LabelKind::Classes(classes.into_names()),
        metrics: vec![Metric::Accuracy],
        remarks,
    })
}

/// Whether the examples are pairs of texts, as far as their first one can be read; otherwise whether a column for the
/// second text is named.
pub fn has_pairs(path: &Path, options: &Options) -> bool {
    let rows = Places::of(path).map(|places| Rows {
        place: places.train,
        columns: options.columns.clone(),
        with_label: false,
    });
    match rows.map(|rows| rows.iter().next()) {
        Ok(Some(Ok(row))) => row.text_pair.is_some(),
        _ => options.columns.text_pair.is_some(),
    }
}

fn labels_of(rows: &Rows, classes: &Classes) -> Result<Vec<i32>> {
    rows.iter().map(|row| classes.of(&row?)).collect()
}

/// Keeps a share of the examples for validation.
fn split(rows: Rows, labels: Vec<i32>, options: &Options) -> Result<(Examples, Examples)> {
    let file = rows.files()[0].display().to_string();
    if labels.len() < 2 {
        return Err(Error::user(format!(
            "{file} has one example only, of which nothing can be kept for validation; add examples, or name a file for it \
             with data.dev"
        )));
    }
    let (rows, held) = (
        Arc::new(rows),
        held_out::chosen(&labels, options.held_out, options.held_out_seed),
    );
    let part = |wanted: bool| {
        let own = labels.iter().zip(&held).filter(|(_, held)| **held == wanted);
        let labels = Labels::Classes(own.map(|(label, _)| *label).collect());
        let chosen = held.iter().map(|held| *held == wanted).collect();
        Examples::from_rows(rows.clone(), Some(chosen), labels)
    };
    Ok((part(false), part(true)))
}

#[cfg(test)]
mod tests;
