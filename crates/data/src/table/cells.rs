//! The lines of a table with all of their cells, from CSV, TSV, JSON lines and Parquet.

use std::path::Path;
use std::sync::Arc;

use lessen_base::{Error, Result};

use super::header::{SAMPLE, is_header};
use super::parquet_cells::parquet_cells;
use crate::cell_row::{CellIter, CellRow};
use crate::columns::Columns;
use crate::files::{PARQUET, empty, quoted};
use crate::json_object::{self, Object};
use crate::lines::Lines;
use crate::record::Record;
use crate::row::Row;
use crate::rows::{Place, Rows};
use crate::unlabelled::LeftOut;

/// Lines whose fields are columns of JSON lines: a field that comes later alone is none.
const FIRST_LINES: usize = 64;

/// A file of a table: the names of its columns, and its lines.
pub(crate) struct CellFile {
    /// The names; numbers from 1 on where the file does not name its columns.
    pub(crate) names: Arc<[String]>,
    /// Whether the first line names the columns, or the format does.
    pub(crate) is_named: bool,
    pub(crate) rows: CellIter,
}

impl CellFile {
    /// Opens a file. `wanted` are names of columns that are looked for.
    ///
    /// # Errors
    /// A missing, empty or damaged file, and one whose name says no format of tables.
    pub(crate) fn open(path: &Path, wanted: &[&str]) -> Result<CellFile> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str().unwrap_or_default() {
            "csv" | "tsv" => of_lines(path, wanted),
            "jsonl" | "ndjson" | "json" => of_json_lines(path),
            PARQUET => {
                let (names, rows) = parquet_cells(path)?;
                Ok(CellFile {
                    names,
                    is_named: true,
                    rows,
                })
            }
            other => Err(Error::user(format!("{} {}", path.display(), no_table(other)))),
        }
    }

    /// The column of a name.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|own| own == name)
    }
}

/// Why a file whose name ends so is no table, and what to do.
fn no_table(ending: &str) -> &'static str {
    match ending {
        "xlsx" | "xls" | "ods" | "numbers" => "is a spreadsheet; save it as CSV in UTF-8, and name that file",
        "zip" | "gz" | "bz2" | "xz" | "zst" | "tar" | "tgz" | "7z" | "rar" => {
            "is packed; unpack it, and name what was in it"
        }
        "png" | "jpg" | "jpeg" => "is one image; name a folder that has a folder of images for each class",
        _ => "has a format that is not known by its name; name a table .csv, .tsv, .jsonl or .parquet",
    }
}

/// A file with cells between separators.
fn of_lines(path: &Path, wanted: &[&str]) -> Result<CellFile> {
    // Readers take a file whose columns are numbered as one without names, so that its first line is a row.
    let columns = Columns {
        text: Some("1".to_string()),
        ..Columns::default()
    };
    let rows = || {
        let rows = Rows {
            place: Place::Files(vec![path.to_path_buf()]),
            columns: columns.clone(),
            with_label: false,
            left_out: LeftOut::Nothing,
        };
        rows.iter()
    };
    let mut first_rows = Vec::new();
    for row in rows().take(SAMPLE + 1) {
        // A later mistake is one of the rows, which are read again.
        match row {
            Ok(row) => first_rows.push(cells_of(row)?.2),
            Err(error) if first_rows.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    let (first, sample) = first_rows.split_first().ok_or_else(|| empty(path))?;
    let is_named = is_header(first, sample, wanted);
    let names: Arc<[String]> = if is_named {
        first.iter().map(|name| name.trim().to_string()).collect()
    } else {
        (1..=first.len()).map(|number| number.to_string()).collect()
    };
    check_names(path, &names, wanted)?;
    let own = names.clone();
    Ok(CellFile {
        names,
        is_named,
        rows: Box::new(rows().skip(usize::from(is_named)).map(move |row| {
            let (line, _, cells) = cells_of(row?)?;
            let record = Record::of_cells(&own, line, cells.clone());
            Ok(CellRow { line, cells, record })
        })),
    })
}

/// The line, the file and the cells of a row.
fn cells_of(row: Row) -> Result<(usize, Arc<Path>, Vec<String>)> {
    let record = row
        .record
        .ok_or_else(|| Error::internal("a line without its columns"))?;
    Ok((row.line, row.file, record.cells()?))
}

/// Refuses two columns of one name that is looked for.
fn check_names(path: &Path, names: &[String], wanted: &[&str]) -> Result<()> {
    let is_twice = |name: &&&str| names.iter().filter(|own| own == *name).count() > 1;
    match wanted.iter().find(is_twice) {
        Some(name) => Err(Error::user(format!(
            "{} has two columns called {}; give each a name of its own",
            path.display(),
            quoted(name)
        ))),
        None => Ok(()),
    }
}

/// A file with an object of JSON in each line. The fields of its first lines are its columns.
fn of_json_lines(path: &Path) -> Result<CellFile> {
    let lines = || -> Result<_> {
        let is_blank = |line: &Result<(usize, String)>| matches!(line, Ok((_, text)) if text.trim().is_empty());
        Ok(Lines::open(path)?.filter(move |line| !is_blank(line)))
    };
    let mut names: Vec<String> = Vec::new();
    for line in lines()?.take(FIRST_LINES) {
        let (line, text) = line?;
        for name in object_of(path, line, &text)?.names() {
            if !names.iter().any(|own| own == name) {
                names.push(name.to_string());
            }
        }
    }
    if names.is_empty() {
        return Err(empty(path));
    }
    let names: Arc<[String]> = names.into();
    let (own, file) = (names.clone(), path.to_path_buf());
    Ok(CellFile {
        names,
        is_named: true,
        rows: Box::new(lines()?.map(move |line| {
            let (line, text) = line?;
            json_row(&file, &own, line, &text)
        })),
    })
}

/// The cells of an object of JSON for columns of these names; other fields stay in the record.
///
/// # Errors
/// A text that is no object of JSON.
pub(super) fn json_row(file: &Path, names: &Arc<[String]>, line: usize, text: &str) -> Result<CellRow> {
    let object = object_of(file, line, text)?;
    let cell = |name: &String| {
        let value = object.get(name)?;
        json_object::word(value).or_else(|| (value.get() != "null").then(|| value.get().to_string()))
    };
    Ok(CellRow {
        line,
        cells: names.iter().map(|name| cell(name).unwrap_or_default()).collect(),
        record: Record::of_json(names, line, text, object.names()),
    })
}

fn object_of<'a>(file: &Path, line: usize, text: &'a str) -> Result<Object<'a>> {
    Object::of(text).map_err(|reason| {
        if line == 1 && text.trim_start().starts_with('[') {
            return Error::user(format!(
                "{} is a list of JSON; write an object in each line, as pandas does with orient=\"records\", lines=True",
                file.display()
            ));
        }
        let what = if reason.is_data() {
            "is no JSON object; write one such as {\"age\": 31, \"label\": \"yes\"}".to_string()
        } else {
            format!(
                "column {} is not valid JSON; write one object in each line",
                reason.column()
            )
        };
        Error::user(format!("{} line {line} {what}", file.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn open(name: &str, text: &str) -> Result<(Vec<String>, bool, Vec<Vec<String>>)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        let file = CellFile::open(&path, &[])?;
        let rows: Result<Vec<CellRow>> = file.rows.collect();
        let cells = rows?.into_iter().map(|row| row.cells).collect();
        Ok((file.names.to_vec(), file.is_named, cells))
    }

    fn texts(rows: &[&[&str]]) -> Vec<Vec<String>> {
        let row = |row: &&[&str]| row.iter().map(|cell| cell.to_string()).collect();
        rows.iter().map(row).collect()
    }

    #[test]
    fn cells_of_every_format_are_the_same() {
        let expected = texts(&[&["1.5", "a, \"b\"", ""], &["2", "c", "x"]]);
        for (name, text) in [
            ("a.csv", "n, w ,z\n1.5,\"a, \"\"b\"\"\",\n2,c,x\n"),
            ("a.csv", "n;w;z\n1.5;\"a, \"\"b\"\"\";\n2;c;x\n"),
            ("a.tsv", "n\tw\tz\n1.5\ta, \"b\"\t\n2\tc\tx\n"),
            (
                "a.jsonl",
                "{\"n\":1.5,\"w\":\"a, \\\"b\\\"\",\"z\":null}\n\n{\"w\":\"c\",\"n\":2,\"z\":\"x\",\"more\":[1]}\n",
            ),
        ] {
            let (names, is_named, rows) = open(name, text).unwrap();
            assert_eq!(
                (&names[..3], is_named),
                (&["n", "w", "z"].map(str::to_string)[..], true),
                "{text}"
            );
            let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row[..3].to_vec()).collect();
            assert_eq!(rows, expected, "{text}");
        }
    }

    #[test]
    fn columns_without_names_are_numbered_and_mistakes_named() {
        let (names, is_named, rows) = open("a.csv", "1,2.5\n3,4\n").unwrap();
        assert_eq!((names, is_named), (vec!["1".to_string(), "2".to_string()], false));
        assert_eq!(rows, texts(&[&["1", "2.5"], &["3", "4"]]));
        let refused = |name: &str, text: &str| open(name, text).unwrap_err().to_string();
        assert!(refused("a.csv", "a,b\n1,2\n1,2,3\n").contains("line 3 has 3 columns instead of 2"));
        assert!(refused("a.jsonl", "{\"a\":1}\n[1]\n").contains("line 2 is no JSON object"));
        assert!(refused("a.jsonl", "{\"a\":1}\n{\"a\":}\n").contains("line 2 column 6 is not valid JSON"));
        assert!(refused("a.csv", "").contains("is empty"));
        assert!(refused("a.dat", "x").contains("name a table .csv, .tsv, .jsonl or .parquet"));
        for (name, words) in [
            ("a.xlsx", "a.xlsx is a spreadsheet; save it as CSV"),
            ("a.csv.gz", "a.csv.gz is packed; unpack it"),
            ("a.PNG", "a.PNG is one image; name a folder"),
        ] {
            let sentence = refused(name, "x");
            assert!(sentence.contains(words), "{sentence}");
        }
        for list in ["[{\"a\":1}]", "[\n {\"a\":1}\n]"] {
            let sentence = refused("a.json", list);
            assert!(
                sentence.contains("is a list of JSON; write an object in each line"),
                "{sentence}"
            );
        }
    }
}
