//! From a path to the splits of a table.

use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use super::label::label_of;
use super::labelled_files::{LabelledFiles, TableFile};
use super::learn::{encoded, learnt, scale};
use super::options::TableOptions;
use super::part::TablePart;
use super::profile::Profile;
use super::schema::TableSchema;
use super::target::Target;
use crate::classes::Classes;
use crate::columns::Columns;
use crate::files::quoted;
use crate::held_out::Deal;
use crate::held_out_by::HeldOutBy;
use crate::labels::{LabelKind, Labels};
use crate::metrics::Metric;
use crate::places::{Places, files_of};
use crate::rows::{Place, Rows};
use crate::splits::{DataPlace, split_of, weights_of};
use crate::table_in_memory::TableInMemory;
use crate::unlabelled::{LeftOut, Unlabelled};

/// Rows by which the column to be learnt is chosen.
const LOOKED_AT: usize = 10_000;

/// A table: its columns, its splits and what is to be learnt.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What a model sees of a row.
    pub schema: TableSchema,
    /// What labels are: one of some classes, or a score.
    pub target: LabelKind,
    /// The training split.
    pub train: TablePart,
    /// The split of evaluations.
    pub dev: TablePart,
    /// Whether that is all of the training split, as the data has none of its own for it.
    pub is_whole: bool,
    /// The test split, if there is one.
    pub test: Option<TablePart>,
    /// The metrics, the one that selects the best checkpoint first.
    pub metrics: Vec<Metric>,
    /// Columns that are not learnt from, and why.
    pub left_out: Vec<(String, String)>,
    /// Rows of all splits without a value in the column to be learnt.
    pub skipped: usize,
    /// What there is to say of how it was read, a sentence each.
    pub remarks: Vec<String>,
}

impl Table {
    /// Reads a file (CSV, TSV, JSON lines or Parquet), the files that a pattern stands for, or a folder with `train`,
    /// `dev` and `test` in such files. The columns are learnt from the training rows alone.
    ///
    /// # Errors
    /// A missing, empty or damaged file; a missing column, and columns that say nothing; a label of no class, or that
    /// is no number in a regression; fewer than two classes or rows. The message names file and remedy.
    pub fn read(path: &Path, options: &TableOptions) -> Result<Table> {
        Table::read_from(DataPlace::Path(path), options)
    }

    /// Reads what [`Table::read`] reads, or a table in memory.
    ///
    /// # Errors
    /// As [`Table::read`].
    pub fn read_from(place: DataPlace<'_, TableInMemory>, options: &TableOptions) -> Result<Table> {
        let folder = match place {
            DataPlace::Path(path) => path,
            DataPlace::InMemory(_) => Path::new(""),
        };
        let weights = place.weights();
        let places = Places::at(place)?;
        let of_paths = |paths: Vec<PathBuf>| paths.into_iter().map(TableFile::Path).collect::<Vec<_>>();
        let files = |place: Place| match place {
            Place::Files(paths) => Ok(of_paths(paths)),
            Place::InMemory(table, name) => Ok(vec![TableFile::InMemory(table, name)]),
            Place::Texts(_) | Place::Glue(..) => Err(Error::user(format!(
                "{} has texts in folders of classes, and no table; name a .csv, .tsv, .jsonl or .parquet file",
                folder.display()
            ))),
        };
        let given = |path: &Option<PathBuf>, found: Option<Place>| match path {
            Some(path) => files_of(path).map(|paths| Some(of_paths(paths))),
            None => found.map(files).transpose(),
        };
        let (dev, test) = (given(&options.dev, places.dev)?, given(&options.test, places.test)?);
        let mut remarks = Vec::new();
        let by = match (&dev, options.whole) {
            (Some(_), _) => {
                remarks.extend(options.held_out_by.unused());
                &HeldOutBy::Share
            }
            (None, true) => &HeldOutBy::Share,
            (None, false) => &options.held_out_by,
        };
        let train = training_files(files(places.train)?, options, by, &mut remarks)?;
        let others = |files: Option<Vec<TableFile>>| files.map(|files| LabelledFiles { files, ..train.clone() });
        let (dev, test) = (others(dev), others(test));

        let mut skipped = Vec::new();
        let known = match (
            Classes::listed(&places.names, &places.classes, false)?,
            &options.classes,
        ) {
            (Some(listed), _) => Some(listed),
            (None, Some(names)) => Some(Classes::of_model(names.clone())),
            (None, None) => class_names(&train)?.map(Classes::of_model),
        };
        let mut deal = Deal::of(by);
        let with_column = LabelledFiles {
            held_out_by: by.clone(),
            ..train.clone()
        };
        let (target, labels) = Target::of(&with_column, options, known, (&mut skipped, &mut deal))?;
        let held = match &dev {
            None if !options.whole => {
                let (share, seed) = (options.held_out, options.held_out_seed);
                let held = deal.chosen(train.first(), &labels.strata(), share, seed)?;
                remarks.extend(held.remarks);
                Some(held.rows)
            }
            _ => None,
        };
        let of_rows = weights.map(|all| weights_of(&all, labels.len(), held.as_deref()));
        let weights = of_rows.transpose()?;
        let is_training = |row: usize| held.as_ref().is_none_or(|held| !held[row]);
        let (mut schema, left_out) = match &options.schema {
            Some(schema) => (schema.clone(), Vec::new()),
            None => learnt(&train, options, is_training, &mut remarks)?,
        };
        if let (Labels::Scores(scores), None) = (&labels, &options.schema) {
            schema.target = Some(scale(scores, is_training));
        }
        // Columns that are left out are needed no more.
        let inputs: Vec<String> = schema.columns.iter().map(|column| column.name.clone()).collect();
        let seen = |files: &LabelledFiles| LabelledFiles {
            inputs: inputs.clone(),
            ..files.clone()
        };
        let mut part = |files: &LabelledFiles| -> Result<TablePart> {
            let (labels, without) = target.labels_of(files, &mut Deal::of(&HeldOutBy::Share))?;
            skipped.push(without);
            encoded(&seen(files), &schema, labels, |_| true)
        };
        let (dev, test) = (
            dev.as_ref().map(&mut part).transpose()?,
            test.as_ref().map(&mut part).transpose()?,
        );
        let is_whole = held.is_none() && dev.is_none();
        let (train, dev) = match (held, dev) {
            (Some(held), _) => {
                let part = |wanted: bool| {
                    encoded(&seen(&train), &schema, labels.part(&held, wanted), |row| {
                        held[row] == wanted
                    })
                };
                (part(false)?, part(true)?)
            }
            (None, dev) => {
                let train = encoded(&seen(&train), &schema, labels, |_| true)?;
                (train.clone(), dev.unwrap_or(train))
            }
        };
        let train = train.with_weights(weights);
        remarks.extend(Unlabelled::remark(&skipped, Some(&schema.label)));
        remarks.extend(target.remark());
        Ok(Table {
            metrics: match target {
                Target::Classes(_) => vec![Metric::Accuracy],
                Target::Scores => vec![Metric::Mse, Metric::Mae, Metric::Pearson, Metric::Spearman],
            },
            target: target.into_kind(),
            schema,
            train,
            dev,
            is_whole,
            test,
            left_out,
            skipped: skipped.iter().map(|skipped| skipped.count).sum(),
            remarks,
        })
    }

    /// Returns the split `train`, `dev` or `test`.
    ///
    /// # Errors
    /// An unknown name, or `test` without a test split.
    pub fn split(&self, name: &str) -> Result<&TablePart> {
        split_of(name, [&self.train, &self.dev], self.test.as_ref())
    }
}

/// The files of the training split with the names of their columns. A group by which rows are held out is no input, as
/// held-out rows have other groups than those that are learnt from.
fn training_files(
    files: Vec<TableFile>,
    options: &TableOptions,
    by: &HeldOutBy,
    remarks: &mut Vec<String>,
) -> Result<LabelledFiles> {
    let of_schema = options.schema.as_ref();
    let given: Option<Vec<String>> = match (of_schema, &options.inputs) {
        (Some(schema), _) => Some(schema.columns.iter().map(|column| column.name.clone()).collect()),
        (None, inputs) => inputs.clone(),
    };
    let label = options
        .target
        .clone()
        .or_else(|| of_schema.map(|schema| schema.label.clone()));
    let path = files[0].path();
    let others: Vec<&str> = label
        .iter()
        .map(String::as_str)
        .chain(by.column().map(|(name, _)| name))
        .collect();
    let opened = files[0].open(given.as_deref().unwrap_or_default(), &others)?;
    let names = opened.names.clone();
    let label = match label {
        Some(label) => label,
        None => {
            let mut profiles = vec![Profile::new(); names.len()];
            for row in opened.rows.take(LOOKED_AT) {
                row?.cells
                    .iter()
                    .zip(&mut profiles)
                    .for_each(|(cell, profile)| profile.add(cell));
            }
            let (at, reason) = label_of(&names, &profiles).ok_or_else(|| {
                Error::user(format!(
                    "{} has no column to be learnt; name it with data.label",
                    path.display()
                ))
            })?;
            remarks.push(format!(
                "the column {} is learnt: {reason} (data.label)",
                quoted(&names[at])
            ));
            names[at].clone()
        }
    };
    by.check_label(&path.display().to_string(), &label)?;
    let is_group = |name: &String| matches!(by, HeldOutBy::Group(group) if group == name);
    let inputs = given.unwrap_or_else(|| {
        let inputs = names.iter().filter(|name| **name != label && !is_group(name));
        inputs.cloned().collect()
    });
    if inputs.contains(&label) {
        return Err(Error::user(format!(
            "data.inputs has {}, the column to be learnt; leave it out",
            quoted(&label)
        )));
    }
    Ok(LabelledFiles {
        files,
        label,
        inputs,
        held_out_by: HeldOutBy::Share,
    })
}

/// The names of the classes that whole numbers in the column to be learnt stand for, where a Parquet file says them.
fn class_names(train: &LabelledFiles) -> Result<Option<Vec<String>>> {
    let (Some(input), Some(TableFile::Path(first))) = (train.inputs.first(), train.files.first()) else {
        return Ok(None);
    };
    let rows = Rows {
        place: Place::Files(vec![first.clone()]),
        columns: Columns {
            text: Some(input.clone()),
            label: Some(train.label.clone()),
            ..Columns::default()
        },
        with_label: true,
        left_out: LeftOut::Nothing,
    };
    rows.class_names()
}
