//! The texts of flags, of the lines of a file, or of a column.

use crate::commands::lines::Lines;
use lessen_base::{Error, Result};
use lessen_data::TextPair;
use lessen_data::labelled::{Columns, texts};
use std::path::Path;

/// The endings of files with named columns.
const TABLES: [&str; 5] = ["csv", "tsv", "jsonl", "ndjson", "json"];

/// Texts, read some at a time.
pub struct Input {
    /// The file, for messages.
    name: Option<String>,
    texts: Box<dyn Iterator<Item = Result<String>>>,
}

impl Input {
    /// The texts of flags.
    pub fn given(texts: Vec<String>) -> Input {
        Input {
            name: None,
            texts: Box::new(texts.into_iter().map(Ok)),
        }
    }

    /// Opens a file; `-` is stdin. `column` names the column of its texts.
    ///
    /// # Errors
    /// A file that cannot be opened or lacks the column, and pairs of texts.
    pub fn open(path: &Path, column: Option<&str>) -> Result<Input> {
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        let name = path.display().to_string();
        if !TABLES.iter().any(|table| ending == *table) {
            if column.is_some() {
                return Err(Error::user(format!(
                    "--column is for files with named columns, and {name} has a text on each line; leave it out"
                )));
            }
            let mut lines = Lines::open(path, "--input")?;
            return Ok(Input {
                name: Some(lines.name().to_string()),
                texts: Box::new(std::iter::from_fn(move || lines.next().transpose())),
            });
        }
        let columns = Columns {
            text: column.map(str::to_string),
            ..Columns::default()
        };
        let is_given = column.is_some();
        let mut rows = texts(path, &columns).map(|row| row.map(|(texts, _)| texts)).peekable();
        if let Some(Err(error)) = rows.peek() {
            return Err(error.clone());
        }
        let one = move |row: Result<TextPair>| match row? {
            (_, Some(_)) if !is_given => Err(Error::user(
                "the file has pairs of texts, and each text has a vector; name one column with --column",
            )),
            (text, _) => Ok(text),
        };
        Ok(Input {
            name: Some(name),
            texts: Box::new(rows.map(one)),
        })
    }

    /// The file, for messages; none for the texts of flags.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The next texts, at most `most`; an empty list at the end.
    ///
    /// # Errors
    /// A file that cannot be read, and a damaged row.
    pub fn next(&mut self, most: usize) -> Result<Vec<String>> {
        self.texts.by_ref().take(most).collect()
    }
}
