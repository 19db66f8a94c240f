//! Texts with labels in files of several formats, read one after another and as often as needed.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::columns::{Columns, LabelAt};
use crate::csv_rows::csv_rows;
use crate::files::{PARQUET, empty, is_parquet, quoted, read_text};
use crate::glue_task::GlueTask;
use crate::json_object::{self, Object};
use crate::lines::Lines;
use crate::parquet_rows::{names_of_classes, parquet_rows};
use crate::raw_label::RawLabel;
use crate::record::Record;
use crate::row::{Row, RowIter, Table, other_count};
use crate::table_in_memory::TableInMemory;
use crate::unlabelled::{LeftOut, Unlabelled};

/// Files with rows and their format, or rows in memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// Tables: `.txt` with a text, a tab and a label in each line; `.csv`, `.tsv` and `.jsonl` with named columns.
    Files(Vec<PathBuf>),
    /// Files that hold a text each, with their class.
    Texts(Vec<(PathBuf, String)>),
    /// A file of a GLUE task.
    Glue(GlueTask, PathBuf),
    /// Rows in memory, and their name in messages.
    InMemory(TableInMemory, &'static Path),
}

/// Rows of some files, or in memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rows {
    pub(crate) place: Place,
    pub(crate) columns: Columns,
    /// Whether rows have labels.
    pub(crate) with_label: bool,
    /// The rows without a label that are left out.
    pub(crate) left_out: LeftOut,
}

impl Rows {
    /// Reads the rows in order. After an error there are none.
    pub(crate) fn iter(&self) -> RowIter {
        self.counting(&Rc::default())
    }

    /// Reads the rows in order, and counts those that are left out. After an error there are none.
    pub(crate) fn counting(&self, unlabelled: &Rc<RefCell<Unlabelled>>) -> RowIter {
        if self.left_out == LeftOut::Nothing {
            return self.all();
        }
        let (mut rows, left_out, unlabelled) = (self.all(), self.left_out, unlabelled.clone());
        let (file, mut has_some) = (self.files()[0].to_path_buf(), false);
        Box::new(UntilError::of(std::iter::from_fn(move || {
            loop {
                match rows.next() {
                    Some(Ok(row)) if left_out.has(&row) => unlabelled.borrow_mut().add(&row),
                    None if !has_some && unlabelled.borrow().count > 0 => {
                        has_some = true;
                        return Some(Err(Error::user(format!(
                            "{} has no row with a label; give labels to some, or name their column with data.label",
                            file.display()
                        ))));
                    }
                    next => {
                        has_some = true;
                        return next;
                    }
                }
            }
        })))
    }

    /// Reads the rows in order, those that are left out among them.
    fn all(&self) -> RowIter {
        let (columns, with_label) = (self.columns.clone(), self.with_label);
        match self.place.clone() {
            Place::Files(files) => Box::new(UntilError::of(files.into_iter().flat_map(move |path| {
                rows_of(&path, &columns, with_label).unwrap_or_else(|error| Box::new(std::iter::once(Err(error))))
            }))),
            Place::Glue(task, path) => match task.rows(&path) {
                Ok(rows) => Box::new(UntilError::of(rows)),
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
            Place::Texts(texts) => Box::new(UntilError::of(texts.into_iter().map(move |(path, class)| {
                has_columns(&path, &columns, with_label)?;
                let text = read_text(&path)?;
                Ok(Row {
                    text: text.trim_end().to_string(),
                    label: Some(RawLabel::One(class)),
                    ..Row::at(path.into(), 0)
                })
            }))),
            Place::InMemory(table, name) => match rows_in_memory(table, name, &columns, with_label) {
                Ok(rows) => Box::new(UntilError::of(rows)),
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
        }
    }

    /// The names of the classes in their order, where a Parquet file says them.
    ///
    /// # Errors
    /// A file that cannot be read, and one without the columns.
    pub(crate) fn class_names(&self) -> Result<Option<Vec<String>>> {
        match &self.place {
            Place::Files(files) if is_parquet(&files[0]) => names_of_classes(&files[0], &self.columns),
            _ => Ok(None),
        }
    }

    /// The files, or the name of rows in memory.
    pub(crate) fn files(&self) -> Vec<&Path> {
        match &self.place {
            Place::Files(files) => files.iter().map(PathBuf::as_path).collect(),
            Place::Texts(texts) => texts.iter().map(|(path, _)| path.as_path()).collect(),
            Place::Glue(_, path) => vec![path],
            Place::InMemory(_, name) => vec![name],
        }
    }

    /// Text that differs where files are read in another way.
    pub(crate) fn format_key(&self) -> String {
        match &self.place {
            Place::Files(_) | Place::Texts(_) if self.left_out == LeftOut::Missing => {
                format!("{:?} {:?}", self.columns, self.left_out)
            }
            Place::Files(_) | Place::Texts(_) => format!("{:?}", self.columns),
            Place::Glue(task, _) => format!("{task:?}"),
            Place::InMemory(..) => String::new(),
        }
    }

    /// The size of all files in bytes; none of rows in memory.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let size = |path| fs::metadata(path).map_or(0, |about| about.len());
        let is_in_memory = matches!(self.place, Place::InMemory(..));
        (!is_in_memory).then(|| self.files().into_iter().map(size).sum())
    }
}

/// Ends after the first error.
struct UntilError<I> {
    rows: Option<I>,
}

impl<I> UntilError<I> {
    fn of(rows: I) -> UntilError<I> {
        UntilError { rows: Some(rows) }
    }
}

impl<I: Iterator<Item = Result<Row>>> Iterator for UntilError<I> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        let row = self.rows.as_mut()?.next();
        if !matches!(row, Some(Ok(_))) {
            self.rows = None;
        }
        row
    }
}

/// The extensions of files with rows.
pub(crate) const EXTENSIONS: [&str; 7] = ["txt", "csv", "tsv", "jsonl", "ndjson", "json", PARQUET];

/// The rows of a file in the format that its extension says; one at least.
fn rows_of(path: &Path, columns: &Columns, with_label: bool) -> Result<RowIter> {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    let mut rows: RowIter = match extension.to_str().unwrap_or_default() {
        "txt" => {
            has_columns(path, columns, with_label)?;
            Box::new(titles(path, with_label)?)
        }
        "csv" => csv_rows(path, columns, with_label)?,
        "tsv" => tsv_rows(path, columns, with_label)?,
        "jsonl" | "ndjson" | "json" => json_rows(path, columns, with_label)?,
        PARQUET => parquet_rows(path, columns, with_label)?,
        _ => {
            return Err(Error::user(format!(
                "the format of {} is not known by its name; name it .txt (text, tab, label), .csv, .tsv, .jsonl or .parquet",
                path.display()
            )));
        }
    };
    let first = rows.next().unwrap_or_else(|| Err(empty(path)))?;
    Ok(Box::new(std::iter::once(Ok(first)).chain(rows)))
}

/// Refuses a column by which examples of a file without columns are held out.
fn has_columns(path: &Path, columns: &Columns, with_label: bool) -> Result<()> {
    match columns.held_out_by.column().filter(|_| with_label) {
        Some((name, key)) => Err(Error::user(format!(
            "{} has texts and labels alone and no column {} ({key}); write .csv, .tsv, .jsonl or .parquet with it, or leave \
             the key out",
            path.display(),
            quoted(name)
        ))),
        None => Ok(()),
    }
}

/// The rows of a table in memory.
fn rows_in_memory(own: TableInMemory, name: &'static Path, columns: &Columns, with_label: bool) -> Result<RowIter> {
    let table = Table::new(
        name.into(),
        columns.named(name, 0, own.names(), with_label)?,
        own.names(),
    );
    Ok(Box::new((0..own.rows()).map(move |number| {
        let mut row = table.row(number + 1, |column| own.cell(number, column))?;
        if let Some(LabelAt::One(column)) = &table.at.label
            && let Some(labels) = own.list(number, *column)
        {
            row.label = Some(RawLabel::Many(labels.to_vec()));
        }
        Ok(row)
    })))
}

/// Lines of a text, a tab and a label; the text may have tabs of its own.
fn titles(path: &Path, with_label: bool) -> Result<impl Iterator<Item = Result<Row>> + use<>> {
    let file: Arc<Path> = path.into();
    Ok(Lines::open(path)?.map(move |line| {
        let (line, text) = line?;
        let row = |text: &str, label: Option<&str>| Row {
            text: text.to_string(),
            label: label.map(|label| RawLabel::One(label.trim().to_string())),
            ..Row::at(file.clone(), line)
        };
        match text.rsplit_once('\t') {
            Some((text, label)) => Ok(row(text, Some(label))),
            None if with_label => Err(row("", None).error("has no tab; write the text, a tab and the label")),
            None => Ok(row(&text, None)),
        }
    }))
}

/// Cells between tabs, without quotes.
fn tsv_rows(path: &Path, columns: &Columns, with_label: bool) -> Result<RowIter> {
    let (file, mut lines): (Arc<Path>, _) = (path.into(), Lines::open(path)?.peekable());
    let cells = |line: &str| -> Vec<String> { line.split('\t').map(str::to_string).collect() };
    let first = match lines.peek() {
        None => return Err(empty(path)),
        Some(Err(error)) => return Err(error.clone()),
        Some(Ok((_, line))) => cells(line),
    };
    let wanted = first.len();
    let table = if columns.are_numbers() {
        Table::new(file.clone(), columns.numbered(path, wanted, with_label)?, &[])
    } else {
        lines.next();
        Table::new(file.clone(), columns.named(path, 1, &first, with_label)?, &first)
    };
    let table = if with_label {
        table
    } else {
        table.keeping(columns.names_of(first))
    };
    Ok(Box::new(lines.map(move |line| {
        let (line, text) = line?;
        let cells = cells(&text);
        if cells.len() != wanted {
            let remedy = "write one tab between columns and none in a text, or use .csv with quotes";
            return Err(other_count(&file, line, (cells.len(), wanted), remedy));
        }
        table.row(line, |column| cells[column].clone())
    })))
}

/// An object of JSON in each line.
fn json_rows(path: &Path, columns: &Columns, with_label: bool) -> Result<RowIter> {
    let mut rows = JsonLines::new(path, columns, with_label);
    let lines = Lines::open(path)?.filter(|line| !matches!(line, Ok((_, text)) if text.trim().is_empty()));
    Ok(Box::new(lines.map(move |line| {
        let (line, text) = line?;
        rows.row(line, &text)
    })))
}

/// Reads lines with an object of JSON each. The columns are those of the first one.
pub(crate) struct JsonLines {
    file: Arc<Path>,
    columns: Columns,
    with_label: bool,
    names: Option<(Vec<String>, Table)>,
}

impl JsonLines {
    /// Lines of a file, which messages name.
    pub(crate) fn new(path: &Path, columns: &Columns, with_label: bool) -> JsonLines {
        JsonLines {
            file: path.into(),
            columns: columns.clone(),
            with_label,
            names: None,
        }
    }

    /// The row of a line.
    pub(crate) fn row(&mut self, line: usize, text: &str) -> Result<Row> {
        let JsonLines {
            file,
            columns,
            with_label,
            names,
        } = self;
        let error = |what: String| Error::user(format!("{} line {line} {what}", file.display()));
        let object = match Object::of(text) {
            Ok(object) => object,
            Err(reason) if reason.is_data() => {
                return Err(error(
                    "is no JSON object; write one such as {\"text\": \"...\", \"label\": \"...\"}".into(),
                ));
            }
            Err(reason) => {
                let column = reason.column();
                return Err(error(format!(
                    "column {column} is not valid JSON; write one object in each line"
                )));
            }
        };
        let (names, table) = match names {
            Some(names) => names,
            names => {
                let keys: Vec<String> = object.names().map(str::to_string).collect();
                let at = columns.named(file, line, &keys, *with_label)?;
                let table = Table::new(file.clone(), at, &keys);
                let table = if *with_label {
                    table
                } else {
                    table.keeping(keys.iter().cloned())
                };
                names.insert((keys, table))
            }
        };
        let field = |column: usize| {
            let name = &names[column];
            let lacks = || error(format!("has no field {}; give it to every line", quoted(name)));
            object.get(name).ok_or_else(lacks)
        };
        let text_of = |column: usize| {
            json_object::text(field(column)?).ok_or_else(|| {
                error(format!(
                    "has something else than a text in {}; write a text",
                    quoted(&names[column])
                ))
            })
        };
        let label_of = |column: usize| {
            let value = field(column)?;
            if value.get() == "null" && !columns.several {
                return Ok(RawLabel::One(String::new()));
            }
            json_object::label(value).ok_or_else(|| {
                error(format!(
                    "has no label in {}; write a text, a number or a list of them",
                    quoted(&names[column])
                ))
            })
        };
        let pair = table.at.text_pair.map(text_of).transpose()?;
        let mut row = table.without_label(line, text_of(table.at.text)?, pair);
        if let Some(names) = table.kept() {
            row.record = Some(Record::of_json(names, line, text, object.names()));
            return Ok(row);
        }
        row.label = match &table.at.label {
            Some(LabelAt::One(column)) => Some(label_of(*column)?),
            Some(LabelAt::Each(columns)) => {
                let words = columns
                    .iter()
                    .map(|column| field(*column).map(|value| json_object::word(value).unwrap_or_default()));
                let words: Vec<String> = words.collect::<Result<_>>()?;
                Some(table.flags(&row, words.into_iter())?)
            }
            _ => None,
        };
        let held_out_by = table.at.held_out_by.map(|column| object.get(&names[column]));
        row.held_out_by = held_out_by.map(|value| value.and_then(json_object::cell).unwrap_or_default());
        Ok(row)
    }
}
