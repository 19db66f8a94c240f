//! The cells of Parquet files.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use lessen_base::{Error, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;
use serde_json::{Map, Value};

use super::cell_row::{CellIter, CellRow};
use crate::lines::open;
use crate::record::Record;

/// The names of the columns of a file, and its rows. Lists and groups are texts.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn parquet_cells(path: &Path) -> Result<(Arc<[String]>, CellIter)> {
    let file = open(path)?;
    let opened = guarded(path, || SerializedFileReader::new(file))?;
    let schema = opened.metadata().file_metadata().schema();
    let names: Arc<[String]> = schema
        .get_fields()
        .iter()
        .map(|field| field.name().to_string())
        .collect();
    let mut rows = guarded(path, || Ok(RowIter::from_file_into(Box::new(opened))))?;
    let (place, own) = (path.to_path_buf(), names.clone());
    let mut has_failed = false;
    let rows = std::iter::from_fn(move || {
        if has_failed {
            return None;
        }
        let row = guarded(&place, || rows.next().transpose()).transpose();
        has_failed = matches!(row, Some(Err(_)));
        row
    });
    let rows = rows.zip(1..).map(move |(row, line)| {
        let columns: Vec<(String, Field)> = row?.into_columns();
        let cells: Vec<Option<String>> = columns.iter().map(|(_, field)| cell_of(field)).collect();
        let values = columns
            .iter()
            .zip(&cells)
            .map(|((name, field), cell)| (name.clone(), value_of(field, cell)));
        let object = Value::Object(values.collect::<Map<String, Value>>()).to_string();
        Ok(CellRow {
            line,
            cells: cells.into_iter().map(Option::unwrap_or_default).collect(),
            record: Record::of_json(&own, line, &object, own.iter()),
        })
    });
    Ok((names, Box::new(rows)))
}

/// Runs a function of the crate, which asserts some of what a damaged file can break.
fn guarded<T>(path: &Path, read: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T> {
    let reason = match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(found)) => return Ok(found),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "its parts contradict each other".to_string(),
    };
    Err(Error::user(format!(
        "{} cannot be read as Parquet ({}); restore the file, or write it again with snappy",
        path.display(),
        reason.lines().next().unwrap_or_default()
    )))
}

/// The text of a value; none for null.
fn cell_of(field: &Field) -> Option<String> {
    match field {
        Field::Null => None,
        Field::Str(text) => Some(text.clone()),
        Field::Bytes(bytes) => Some(String::from_utf8_lossy(bytes.data()).into_owned()),
        Field::Float(value) => Some(value.to_string()),
        Field::Double(value) => Some(value.to_string()),
        other => Some(other.to_string()),
    }
}

/// A value as one of JSON, with this text.
fn value_of(field: &Field, cell: &Option<String>) -> Value {
    match (field, cell) {
        (_, None) => Value::Null,
        (Field::Str(_) | Field::Bytes(_), Some(text)) => Value::String(text.clone()),
        // Numbers and truth values are written as JSON writes them, and other values become texts.
        (_, Some(text)) => match serde_json::from_str(text) {
            Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
            _ => Value::String(text.clone()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::data_type::{DoubleType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::fs::{self, File};

    #[test]
    fn numbers_alone_are_read_and_null_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let schema = parse_message_type("message schema { optional double x; required int64 y; }").unwrap();
        let properties = Arc::new(WriterProperties::builder().build());
        let mut file = SerializedFileWriter::new(File::create(&path).unwrap(), Arc::new(schema), properties).unwrap();
        let mut group = file.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column
            .typed::<DoubleType>()
            .write_batch(&[0.5, -1e30], Some(&[1, 0, 1]), None)
            .unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[1, 0, 7], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        file.close().unwrap();

        let (names, rows) = parquet_cells(&path).unwrap();
        assert_eq!(*names, ["x", "y"].map(str::to_string));
        let rows: Vec<CellRow> = rows.map(Result::unwrap).collect();
        let cells: Vec<Vec<String>> = rows.iter().map(|row| row.cells.clone()).collect();
        let large = format!("{}", -1e30f64);
        assert_eq!(cells, [["0.5", "1"], ["", "0"], [&large, "7"]]);
        assert_eq!(rows[1].record.to_json(&[]).unwrap(), r#"{"x":null,"y":0}"#);
        assert_eq!(rows[2].line, 3);

        fs::write(&path, "PAR1 no").unwrap();
        let error = parquet_cells(&path).err().unwrap().to_string();
        assert!(error.contains("a.parquet cannot be read as Parquet ("), "{error}");
    }
}
