//! Rows of Parquet files, read a batch of values at a time.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use lessen_base::{Error, Result};
use parquet::basic::Compression;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;
use serde_json::{Map, Value, json};

use crate::class_names;
use crate::columns::{Columns, LabelAt};
use crate::files::quoted;
use crate::lines::open;
use crate::raw_label::RawLabel;
use crate::record::Record;
use crate::row::{Row, Table};

/// The key of a file's metadata under which `datasets` keeps the types of columns.
const HUGGING_FACE: &str = "huggingface";

/// A Parquet file that has been opened.
pub(crate) struct Opened {
    reader: SerializedFileReader<File>,
    /// The names of its columns.
    pub(crate) names: Vec<String>,
}

/// The columns of a row with their values.
type Values = Vec<(String, Field)>;

impl Opened {
    /// Opens a file.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn new(path: &Path) -> Result<Opened> {
        let file = open(path)?;
        let reader = guarded(path, || {
            SerializedFileReader::new(file).map_err(|error| damaged(path, &error.to_string()))
        })?;
        let schema = reader.metadata().file_metadata().schema();
        let names = schema.get_fields().iter().map(|field| field.name().to_string());
        Ok(Opened {
            names: names.collect(),
            reader,
        })
    }

    /// Refuses columns whose compression is not read, and columns that lie nowhere.
    fn check(&self, path: &Path, wanted: &[usize]) -> Result<()> {
        let groups = self.reader.metadata().row_groups().iter();
        for chunk in groups.flat_map(|group| group.columns()) {
            let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            if start < 0 || chunk.compressed_size() < 0 {
                return Err(damaged(path, "a column has a negative place"));
            }
            let column = chunk.column_path().parts().first();
            let is_wanted = |name: &String| wanted.iter().any(|place| self.names[*place] == *name);
            let word = match chunk.compression() {
                Compression::ZSTD(_) => "zstd",
                Compression::BROTLI(_) => "brotli",
                Compression::LZO => "lzo",
                _ => continue,
            };
            if column.is_some_and(is_wanted) {
                let path = path.display();
                return Err(Error::user(format!(
                    "{path} is compressed with {word}, which Lessen does not read; write it again with snappy, such as by \
                     pandas.read_parquet(\"{path}\").to_parquet(\"{path}\", compression=\"snappy\")"
                )));
            }
        }
        Ok(())
    }

    /// The names of the classes that a column's whole numbers stand for, as `datasets` keeps them.
    fn class_names(&self, column: &str) -> Option<Vec<String>> {
        let metadata = self.reader.metadata().file_metadata().key_value_metadata()?;
        let entry = metadata.iter().find(|entry| entry.key == HUGGING_FACE)?;
        let json: Value = serde_json::from_str(entry.value.as_deref()?).ok()?;
        let feature = &json["info"]["features"][column];
        // A list of classes has them one level deeper, in older files as a list itself.
        let nested = [feature, &feature["feature"], &feature[0]];
        let names = nested.into_iter().find_map(|feature| feature["names"].as_array())?;
        names.iter().map(|name| name.as_str().map(str::to_string)).collect()
    }

    /// The rows, with these columns. After an error there are none.
    ///
    /// # Errors
    /// A file that is damaged, or compressed in a way that is not read.
    pub(crate) fn rows(self, path: &Path, wanted: &[usize]) -> Result<impl Iterator<Item = Result<Values>> + use<>> {
        self.check(path, wanted)?;
        let schema = self.reader.metadata().file_metadata().schema();
        let fields = wanted.iter().map(|place| schema.get_fields()[*place].clone());
        let projection = Type::group_type_builder(schema.name()).with_fields(fields.collect());
        let failed = |error: parquet::errors::ParquetError| damaged(path, &error.to_string());
        let projection = projection.build().map_err(failed)?;
        let mut rows = guarded(path, || {
            RowIter::from_file_into(Box::new(self.reader))
                .project(Some(projection))
                .map_err(failed)
        })?;
        let (place, mut has_failed) = (path.to_path_buf(), false);
        Ok(std::iter::from_fn(move || {
            if has_failed {
                return None;
            }
            let next = guarded(&place, || {
                let row = rows.next().transpose();
                row.map_err(|error| damaged(&place, &error.to_string()))
            });
            has_failed = next.is_err();
            Some(next.transpose()?.map(|row| row.into_columns()))
        }))
    }
}

/// Runs a function of the crate, which asserts some of what a damaged file can break.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(damaged(path, "its parts contradict each other")))
}

fn damaged(path: &Path, reason: &str) -> Error {
    let (path, reason) = (path.display(), reason.lines().next().unwrap_or_default());
    Error::user(format!("{path} cannot be read as Parquet ({reason}); restore the file"))
}

/// The classes that the whole numbers in the label's column of a file stand for; none where the file does not say it.
///
/// # Errors
/// A file that cannot be read, and one without the columns.
pub(crate) fn names_of_classes(path: &Path, columns: &Columns) -> Result<Option<Vec<String>>> {
    let opened = Opened::new(path)?;
    Ok(match columns.named(path, 0, &opened.names, true)?.label {
        Some(LabelAt::One(column)) => opened.class_names(&opened.names[column]),
        _ => None,
    })
}

/// The rows of a file: with labels, or where labels are not asked for with all of its columns.
///
/// # Errors
/// A file that cannot be read, is compressed in a way that is not read, or lacks a column.
pub(crate) fn parquet_rows(
    path: &Path,
    columns: &Columns,
    with_label: bool,
) -> Result<Box<dyn Iterator<Item = Result<Row>>>> {
    let (file, opened): (Arc<Path>, _) = (path.into(), Opened::new(path)?);
    let at = columns.named(path, 0, &opened.names, with_label)?;
    let classes = match &at.label {
        Some(LabelAt::One(column)) => opened.class_names(&opened.names[*column]),
        _ => None,
    };
    let (names, several) = (opened.names.clone(), columns.several);
    // Columns that are read, in the order of the file.
    let wanted: Vec<usize> = (0..names.len())
        .filter(|column| {
            let labels = match &at.label {
                Some(LabelAt::One(label)) => label == column,
                Some(LabelAt::Each(labels)) => labels.contains(column),
                None => false,
            };
            let is_beside = [at.text_pair, at.held_out_by].contains(&Some(*column));
            !with_label || *column == at.text || is_beside || labels
        })
        .collect();
    let table = Table::new(file.clone(), at, &names);
    let table = if with_label {
        table
    } else {
        table.keeping(names.iter().cloned())
    };
    let rows = opened.rows(path, &wanted)?;
    Ok(Box::new(rows.zip(1..).map(move |(row, line)| {
        let values: Map<String, Value> = row?.into_iter().map(|(name, field)| (name, value_of(&field))).collect();
        row_of(&table, &names, (classes.as_deref(), several), line, &values)
    })))
}

/// The row of a line with these values. `several` says whether it can have several labels.
fn row_of(
    table: &Table,
    names: &[String],
    (classes, several): (Option<&[String]>, bool),
    line: usize,
    values: &Map<String, Value>,
) -> Result<Row> {
    let value = |column: usize| values.get(&names[column]).unwrap_or(&Value::Null);
    let text_of = |column: usize| match value(column) {
        Value::String(text) => Ok(text.clone()),
        _ => Err(table.without_label(line, String::new(), None).error(&format!(
            "has no text in {}; write one in each row",
            quoted(&names[column])
        ))),
    };
    let pair = table.at.text_pair.map(text_of).transpose()?;
    let mut row = table.without_label(line, text_of(table.at.text)?, pair);
    if let Some(names) = table.kept() {
        let text = Value::Object(values.clone()).to_string();
        row.record = Some(Record::of_json(names, line, &text, values.keys()));
        return Ok(row);
    }
    row.label = match &table.at.label {
        Some(LabelAt::One(column)) => {
            let found = match value(*column) {
                Value::Null if !several => Some(RawLabel::One(String::new())),
                Value::Array(list) => list
                    .iter()
                    .map(|value| word_of(value, classes))
                    .collect::<Option<_>>()
                    .map(RawLabel::Many),
                value => word_of(value, classes).map(RawLabel::One),
            };
            Some(found.ok_or_else(|| {
                row.error(&format!(
                    "has no label in {}; write a text, a number or a list of them",
                    quoted(&names[*column])
                ))
            })?)
        }
        Some(LabelAt::Each(columns)) => {
            let words = columns
                .iter()
                .map(|column| word_of(value(*column), None).unwrap_or_default());
            Some(table.flags(&row, words)?)
        }
        None => None,
    };
    row.held_out_by = table.at.held_out_by.map(|column| match value(column) {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    Ok(row)
}

/// A label as a word: a class by its name where the file names the classes.
fn word_of(value: &Value, classes: Option<&[String]>) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_string()),
        Value::Number(number) => {
            let place = number.as_u64().and_then(|number| usize::try_from(number).ok());
            let name = place.and_then(|place| classes?.get(place));
            Some(name.map_or_else(|| class_names::of_number(&number.to_string()), String::clone))
        }
        Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// A value as one of JSON. Bytes that are a text are taken for it; dates, times and the like are texts.
pub(crate) fn value_of(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => json!(value),
        Field::Byte(value) => json!(value),
        Field::Short(value) => json!(value),
        Field::Int(value) => json!(value),
        Field::Long(value) => json!(value),
        Field::UByte(value) => json!(value),
        Field::UShort(value) => json!(value),
        Field::UInt(value) => json!(value),
        Field::ULong(value) => json!(value),
        // The shortest text of a number of four bytes has no digits that it does not know.
        Field::Float(value) => json!(value.to_string().parse::<f64>().unwrap_or(f64::from(*value))),
        Field::Double(value) => json!(value),
        Field::Str(text) => json!(text),
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => json!(text),
            Err(_) => json!(bytes.data()),
        },
        Field::Group(row) => row
            .get_column_iter()
            .map(|(name, field)| (name.clone(), value_of(field)))
            .collect(),
        Field::ListInternal(list) => list.elements().iter().map(value_of).collect(),
        other => json!(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
