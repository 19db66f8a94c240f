//! Labelled texts as people have them: `text<TAB>label` lines, CSV, TSV and JSON lines with named columns, folders with
//! a folder for each class. `docs/data.md` shows each of them.
//! Rows without a label are left out.
//!
//! Texts are read when they are needed and are never in memory as a whole.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::classes::{Classes, Found, score_of};
pub use crate::columns::Columns;
use crate::examples::{Dataset, Examples, TextPair};
use crate::held_out::Deal;
use crate::held_out_by::HeldOutBy;
use crate::labels::{LabelKind, Labels, Problem};
use crate::metrics::Metric;
use crate::places::{Places, files_of};
pub use crate::record::Record;
use crate::row::Row;
use crate::rows::{JsonLines, Place, Rows};
use crate::splits::{DataPlace, weights_of};
use crate::table_in_memory::TableInMemory;
use crate::unlabelled::{LeftOut, Unlabelled};

/// How labelled texts are to be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What the labels are.
    pub problem: Problem,
    /// What stands between the labels of a text where they are in one column.
    pub separator: String,
    /// Which columns of CSV, TSV and JSON lines hold texts and labels, and by which one examples are held out.
    pub columns: Columns,
    /// A file, or files with a pattern for their path, for the split `dev`; over that of the folder.
    pub dev: Option<PathBuf>,
    /// The same for the split `test`.
    pub test: Option<PathBuf>,
    /// Where there is no split `dev`, the share of the training split that is kept for it, in `(0, 1)`.
    pub held_out: f64,
    /// Which examples these are: of every class its share, or which groups.
    pub held_out_seed: u64,
    /// Whether in place of a share all examples are the split `dev`, where there is none.
    pub whole: bool,
    /// The classes of the model that the data is for, in order; `class.txt` goes before them.
    pub classes: Option<Vec<String>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            problem: Problem::SingleLabel,
            separator: ",".to_string(),
            columns: Columns::default(),
            dev: None,
            test: None,
            held_out: 0.1,
            held_out_seed: 1,
            whole: false,
            classes: None,
        }
    }
}

/// What labels are looked up in.
enum Target {
    Classes(Classes),
    /// A text can have several labels; this stands between them.
    Sets(Classes, String),
    Scores,
}

impl Target {
    /// That of the rows of a training split, with their labels; the last is what there is to say of it. Classes that
    /// are not known are those of the rows, which are added to the deal.
    fn of(
        rows: &Rows,
        options: &Options,
        known: Option<Classes>,
        (deal, unlabelled): (&mut Deal, &Rc<RefCell<Unlabelled>>),
    ) -> Result<(Target, Labels, Option<String>)> {
        let (several, separator) = (options.problem == Problem::MultiLabel, &options.separator);
        let target = match (options.problem, known) {
            (Problem::Regression, _) => Target::Scores,
            (Problem::SingleLabel, Some(classes)) => Target::Classes(classes),
            (Problem::MultiLabel, Some(classes)) => Target::Sets(classes, separator.clone()),
            (Problem::SingleLabel | Problem::MultiLabel, None) => {
                let (mut found, first) = (Found::default(), rows.files()[0]);
                rows.counting(unlabelled).try_for_each(|row| {
                    let row = row?;
                    deal.add(&row);
                    if several {
                        found.add_all(&row, separator)
                    } else {
                        found.add(&row)
                    }
                })?;
                if several {
                    let (classes, sets, remark) = found.sorted_sets(first, separator)?;
                    return Ok((Target::Sets(classes, separator.clone()), Labels::Sets(sets), remark));
                }
                let (classes, labels) = found.sorted(first)?;
                return Ok((Target::Classes(classes), Labels::Classes(labels), None));
            }
        };
        let all = rows.counting(unlabelled);
        let labels = target.labels_of(all.inspect(|row| row.iter().for_each(|row| deal.add(row))))?;
        Ok((target, labels, None))
    }

    /// The labels of rows.
    fn labels_of(&self, rows: impl Iterator<Item = Result<Row>>) -> Result<Labels> {
        Ok(match self {
            Target::Classes(classes) => Labels::Classes(rows.map(|row| classes.of(&row?)).collect::<Result<_>>()?),
            Target::Scores => Labels::Scores(rows.map(|row| score_of(&row?)).collect::<Result<_>>()?),
            Target::Sets(classes, separator) => {
                let mut sets = classes.sets();
                for row in rows {
                    sets.push(&classes.all_of(&row?, separator)?);
                }
                Labels::Sets(sets)
            }
        })
    }

    /// What there is to say of how labels were looked up.
    fn remark(&self) -> Option<String> {
        match self {
            Target::Classes(classes) | Target::Sets(classes, _) => classes.remark(),
            Target::Scores => None,
        }
    }

    fn into_kind(self) -> LabelKind {
        match self {
            Target::Classes(classes) => LabelKind::Classes(classes.into_names()),
            Target::Sets(classes, _) => LabelKind::Sets(classes.into_names()),
            Target::Scores => LabelKind::Score,
        }
    }
}

/// Reads a file, the files that a pattern stands for, or a folder. Classes are numbered as `class.txt` in the folder
/// lists them, or else as the options do, or else, of those of the training split, whole numbers by size and words by
/// their characters; columns of 0 and 1 are classes in their order. Labels are names of classes, or if none in all
/// splits is a name, the numbers of classes from 0 on.
///
/// # Errors
/// A missing, empty or damaged file; no row with a label; a label of no class, or that is no number in a
/// regression; fewer than two classes. The message names file, line, column and remedy.
pub fn read(path: &Path, options: &Options) -> Result<Dataset> {
    read_from(DataPlace::Path(path), options)
}

/// Reads what [`read`] reads, or a table in memory, whose columns are found as those of files are.
///
/// # Errors
/// As [`read`].
pub fn read_from(place: DataPlace<'_, TableInMemory>, options: &Options) -> Result<Dataset> {
    let weights = place.weights();
    let places = Places::at(place)?;
    let given = |path: &Option<PathBuf>, found| match path {
        Some(path) => files_of(path).map(|files| Some(Place::Files(files))),
        None => Ok(found),
    };
    let (dev, test) = (given(&options.dev, places.dev)?, given(&options.test, places.test)?);
    let several = options.problem == Problem::MultiLabel;
    let rows = |place| Rows {
        place,
        columns: Columns {
            several,
            held_out_by: HeldOutBy::Share,
            ..options.columns.clone()
        },
        with_label: true,
        left_out: match options.problem {
            Problem::SingleLabel => LeftOut::Empty,
            Problem::Regression => LeftOut::Missing,
            Problem::MultiLabel => LeftOut::Nothing,
        },
    };
    let (is_whole, by) = (dev.is_none() && options.whole, &options.columns.held_out_by);
    let mut deal = Deal::of(if dev.is_none() && !is_whole {
        by
    } else {
        &HeldOutBy::Share
    });
    let train = rows(places.train);
    let listed = || Classes::listed(&places.names, &places.classes, several);
    let known = match options.problem {
        Problem::Regression => None,
        Problem::SingleLabel | Problem::MultiLabel => match (listed()?, &options.classes) {
            (Some(listed), _) => Some(listed),
            (None, Some(names)) => Some(Classes::of_model(names.clone())),
            (None, None) => train.class_names()?.map(Classes::of_model),
        },
    };
    // One of each split.
    let (unlabelled, mut others_unlabelled) = (Rc::<RefCell<Unlabelled>>::default(), Vec::new());
    // The column is of no use beyond this pass.
    let with_column = Rows {
        columns: Columns {
            held_out_by: deal.by().clone(),
            ..train.columns.clone()
        },
        ..train.clone()
    };
    let (target, labels, remark) = Target::of(&with_column, options, known, (&mut deal, &unlabelled))?;
    let mut others = |place| -> Result<Examples> {
        let (rows, unlabelled) = (rows(place), Rc::default());
        let labels = target.labels_of(rows.counting(&unlabelled))?;
        others_unlabelled.push(unlabelled.take());
        Ok(Examples::from_rows(Arc::new(rows), None, labels))
    };
    let more = test
        .map(|place| Ok(("test", others(place)?)))
        .into_iter()
        .collect::<Result<_>>()?;
    let mut remarks: Vec<String> = remark.into_iter().collect();
    let dev = dev.map(&mut others).transpose()?;
    let unlabelled: Vec<Unlabelled> = [unlabelled.take()].into_iter().chain(others_unlabelled).collect();
    remarks.extend(Unlabelled::remark(&unlabelled, None));
    remarks.extend(target.remark());
    let examples = labels.len();
    let weighted = |train: Examples, held: Option<&[bool]>| -> Result<Examples> {
        let own = weights.as_deref().map(|all| weights_of(all, examples, held));
        Ok(train.with_weights(own.transpose()?))
    };
    let (train, dev) = match dev {
        None if !is_whole => {
            let held = deal.chosen(
                train.files()[0],
                &labels.strata(),
                options.held_out,
                options.held_out_seed,
            )?;
            remarks.extend(held.remarks);
            let rows = Arc::new(train);
            let part = |wanted: bool| {
                let chosen = held.rows.iter().map(|held| *held == wanted).collect();
                Examples::from_rows(rows.clone(), Some(chosen), labels.part(&held.rows, wanted))
            };
            (weighted(part(false), Some(&held.rows))?, part(true))
        }
        dev => {
            remarks.extend(dev.as_ref().and_then(|_| by.unused()));
            let train = Examples::from_rows(Arc::new(train), None, labels);
            (weighted(train.clone(), None)?, dev.unwrap_or(train))
        }
    };
    Ok(Dataset {
        train,
        dev,
        is_whole,
        more,
        target: target.into_kind(),
        metrics: match options.problem {
            Problem::SingleLabel => vec![Metric::Accuracy],
            Problem::MultiLabel => Vec::new(),
            Problem::Regression => vec![Metric::Mse, Metric::Mae, Metric::Pearson, Metric::Spearman],
        },
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
        left_out: LeftOut::Nothing,
    });
    match rows.map(|rows| rows.iter().next()) {
        Ok(Some(Ok(row))) => row.text_pair.is_some(),
        _ => options.columns.text_pair.is_some(),
    }
}

/// Reads the texts of a file with named columns (`.csv`, `.tsv`, `.jsonl`) in order, each with the whole line that it
/// stands in; it needs no labels. After an error there are none.
pub fn texts(path: &Path, columns: &Columns) -> impl Iterator<Item = Result<(TextPair, Record)>> + use<> {
    let rows = Rows {
        place: Place::Files(vec![path.to_path_buf()]),
        columns: columns.clone(),
        with_label: false,
        left_out: LeftOut::Nothing,
    };
    rows.iter().map(|row| {
        let row = row?;
        let record = row
            .record
            .ok_or_else(|| Error::internal("a line without its columns"))?;
        Ok(((row.text, row.text_pair), record))
    })
}

/// Reads an object of JSON, with the texts in fields of usual or given names. `file` and its line `line` name the place
/// in messages.
///
/// # Errors
/// No object of JSON, and one without the texts.
pub fn text_of_json(file: &Path, line: usize, text: &str, columns: &Columns) -> Result<(TextPair, Record)> {
    let row = JsonLines::new(file, columns, false).row(line, text)?;
    let record = row
        .record
        .ok_or_else(|| Error::internal("a line without its columns"))?;
    Ok(((row.text, row.text_pair), record))
}

#[cfg(test)]
mod scores_and_sets;
#[cfg(test)]
mod tests;
