//! The cells of Parquet files.

use std::path::Path;
use std::sync::Arc;

use lessen_base::Result;
use parquet::record::Field;
use serde_json::{Map, Value};

use crate::cell_row::{CellIter, CellRow};
use crate::parquet_rows::{Opened, value_of};
use crate::record::Record;

/// The names of the columns of a file, and its rows. Lists and groups are texts.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn parquet_cells(path: &Path) -> Result<(Arc<[String]>, CellIter)> {
    let opened = Opened::new(path)?;
    let names: Arc<[String]> = opened.names.clone().into();
    let all: Vec<usize> = (0..names.len()).collect();
    let own = names.clone();
    let rows = opened.rows(path, &all)?.zip(1..).map(move |(row, line)| {
        let columns = row?;
        let cells = columns.iter().map(|(_, field)| cell_of(field)).collect();
        let values = columns.iter().map(|(name, field)| (name.clone(), value_of(field)));
        let object = Value::Object(values.collect::<Map<String, Value>>()).to_string();
        Ok(CellRow {
            line,
            cells,
            record: Record::of_json(&own, line, &object, own.iter()),
        })
    });
    Ok((names, Box::new(rows)))
}

/// The text of a value; an empty one for null.
fn cell_of(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => String::from_utf8_lossy(bytes.data()).into_owned(),
        Field::Float(value) => value.to_string(),
        Field::Double(value) => value.to_string(),
        other => other.to_string(),
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
