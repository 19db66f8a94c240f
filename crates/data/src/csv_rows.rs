//! Tables whose cells stand between commas, or between semicolons, tabs or bars.

use std::path::Path;
use std::sync::Arc;

use csv::{ByteRecord, ReaderBuilder};
use lessen_base::{Error, Result};

use crate::columns::Columns;
use crate::files::empty;
use crate::lines::{not_utf8, open};
use crate::row::{RowIter, Table, other_count};

/// What may stand between cells, and its name; the first one that fits is taken.
const SEPARATORS: [(u8, &str); 4] = [(b',', "commas"), (b';', "semicolons"), (b'\t', "tabs"), (b'|', "bars")];

/// Rows by which a separator is found where columns have no names.
const FIRST_ROWS: usize = 64;

/// Lines and their cells.
type Records = Box<dyn Iterator<Item = Result<(usize, ByteRecord)>>>;

/// How the cells of a file are separated.
struct Format {
    separator: u8,
    name: &'static str,
    /// Whether the first line is one that names the separator, such as `sep=;`, which Excel reads.
    is_named: bool,
}

/// Cells between separators, quoted where they contain these, quotes or line ends (RFC 4180).
pub(crate) fn csv_rows(path: &Path, columns: &Columns, with_label: bool) -> Result<RowIter> {
    let file: Arc<Path> = path.into();
    let format = format_of(path, columns, with_label)?;
    let mut records = records(path, format.separator)?.skip(usize::from(format.is_named));
    let (line, first) = records.next().unwrap_or_else(|| Err(empty(path)))?;
    let text = |record: &ByteRecord, column: usize| String::from_utf8_lossy(&record[column]).into_owned();
    let (names, wanted) = (cells(&first), first.len());
    let (table, head) = if columns.are_numbers() {
        let at = columns.numbered(path, wanted, with_label)?;
        (Table::new(file.clone(), at, &[]), Some(Ok((line, first))))
    } else {
        let at = columns.named(path, line, &names, with_label)?;
        (Table::new(file.clone(), at, &names), None)
    };
    let table = if with_label {
        table
    } else {
        table.keeping(columns.names_of(names))
    };
    Ok(Box::new(head.into_iter().chain(records).map(move |record| {
        let (line, record) = record?;
        if record.len() != wanted {
            let remedy = format!("put texts with {} or line ends between double quotes", format.name);
            return Err(other_count(&file, line, (record.len(), wanted), &remedy));
        }
        table.row(line, |column| text(&record, column))
    })))
}

/// The separator that a file names, or else the first with which its first line has the columns that are looked for,
/// or, where these are numbers, its first lines have the same number of cells; else the one with most cells.
fn format_of(path: &Path, columns: &Columns, with_label: bool) -> Result<Format> {
    let mut most: Option<(usize, Format)> = None;
    for (separator, name) in SEPARATORS {
        let is_there = |cells: &[String]| match columns.are_numbers() {
            true => cells.len() > 1 && columns.numbered(path, cells.len(), with_label).is_ok(),
            false => columns.named(path, 1, cells, with_label).is_ok(),
        };
        let mut first = records(path, separator)?.take(if columns.are_numbers() { FIRST_ROWS } else { 1 });
        let head = first.next().unwrap_or_else(|| Err(empty(path)))?.1;
        let (cells, is_named) = (cells(&head), names_separator(&head, separator));
        let format = Format {
            separator,
            name,
            is_named,
        };
        let mut same = first.map(|row| row.is_ok_and(|(_, row)| row.len() == head.len()));
        if is_named || (is_there(&cells) && same.all(|same| same)) {
            return Ok(format);
        }
        if most
            .as_ref()
            .is_none_or(|(count, _)| !columns.are_numbers() && cells.len() > *count)
        {
            most = Some((cells.len(), format));
        }
    }
    most.map(|(_, format)| format).ok_or_else(|| empty(path))
}

/// Whether a first line names this separator.
fn names_separator(line: &ByteRecord, separator: u8) -> bool {
    let named = [&b"sep="[..], &[separator]].concat();
    match line.len() {
        1 => line[0] == named[..],
        2 => &line[0] == b"sep=" && line[1].is_empty(),
        _ => false,
    }
}

fn cells(record: &ByteRecord) -> Vec<String> {
    record
        .iter()
        .map(|cell| String::from_utf8_lossy(cell).into_owned())
        .collect()
}

/// The lines of a file with their cells.
fn records(path: &Path, separator: u8) -> Result<Records> {
    let place = path.to_path_buf();
    let reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(separator)
        .from_reader(open(path)?);
    Ok(Box::new(reader.into_byte_records().map(move |record| {
        let record = record.map_err(|error| {
            Error::user(format!(
                "{} cannot be read ({error}); restore the file",
                place.display()
            ))
        })?;
        let line = record.position().map_or(0, |position| position.line() as usize);
        if record.iter().all(|cell| std::str::from_utf8(cell).is_ok()) {
            Ok((line, record))
        } else {
            Err(not_utf8(&place, line))
        }
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_label::RawLabel;
    use std::fs;

    /// Texts and labels, or the error.
    fn rows(content: &str, columns: &Columns, with_label: bool) -> std::result::Result<Vec<(String, String)>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        fs::write(&path, content).unwrap();
        let label = |label: Option<RawLabel>| match label {
            Some(RawLabel::One(label)) => label,
            _ => String::new(),
        };
        let read = || csv_rows(&path, columns, with_label)?.collect::<Result<Vec<_>>>();
        let rows = read().map_err(|error| error.to_string().replace(&dir.path().display().to_string(), "DIR"))?;
        Ok(rows.into_iter().map(|row| (row.text, label(row.label))).collect())
    }

    #[test]
    fn cells_stand_between_commas_semicolons_tabs_or_bars() {
        let usual = Columns::default();
        let expected = [("a; b, c | d\te \"f\"", "x"), ("g", "y")].map(|(text, label)| (text.into(), label.into()));
        for separator in [",", ";", "\t", "|"] {
            let table = format!("text{separator}label\n\"a; b, c | d\te \"\"f\"\"\"{separator}x\ng{separator}y\n");
            let named = format!("sep={separator}\r\n{table}");
            let quoted = table.replace(
                &format!("text{separator}label"),
                &format!("\"text\"{separator}\"label\""),
            );
            let in_quotes = format!("\"sep={separator}\"\n{table}");
            let marked = format!("\u{feff}{table}");
            for content in [&table, &named, &quoted, &in_quotes, &marked] {
                assert_eq!(rows(content, &usual, true).unwrap(), expected, "{content:?}");
            }
            // Without a header line.
            let numbers = Columns {
                text: Some("1".into()),
                label: Some("2".into()),
                ..Columns::default()
            };
            let body = table.split_once('\n').unwrap().1;
            assert_eq!(rows(body, &numbers, true).unwrap(), expected, "{body:?}");
        }
    }

    #[test]
    fn names_decide_before_the_number_of_cells() {
        let usual = Columns::default();
        let one = |text: &str, label: &str| vec![(text.to_string(), label.to_string())];
        // One column; a header with more of another separator; a comma in a name.
        assert_eq!(rows("text\na; b\n", &usual, false).unwrap(), one("a; b", ""));
        assert_eq!(rows("label,text,x;y;z\nu,a,b\n", &usual, true).unwrap(), one("a", "u"));
        assert_eq!(
            rows("text;label;x, y, z\na;u;b\n", &usual, true).unwrap(),
            one("a", "u")
        );
        assert_eq!(rows("text;label\n", &usual, true).unwrap(), []);
        assert_eq!(
            rows("a;b\n1;2\n", &usual, true).unwrap_err(),
            "DIR/a.csv line 1 has the columns 'a', 'b', and none of them is known to be the text; name it with data.text"
        );
        assert_eq!(
            rows("text;label\na;b;c\n", &usual, true).unwrap_err(),
            "DIR/a.csv line 2 has 3 columns instead of 2; put texts with semicolons or line ends between double quotes"
        );
        assert_eq!(
            rows("", &usual, true).unwrap_err(),
            "DIR/a.csv is empty; it must hold at least one line of data"
        );
    }
}
