//! The texts of a file or of stdin, one after another, with a bar that shows how far the reader is.

use crate::commands::lines::Lines;
use indicatif::{ProgressBar, ProgressStyle};
use lessen_data::TextPair;
use lessen_data::labelled::{Columns, texts};
use lessen_run::saved_run::split_pair;
use lessen_run::{Error, Result, console};
use std::iter::Peekable;
use std::path::Path;

/// The endings of files with named columns.
const TABLES: [&str; 5] = ["csv", "tsv", "jsonl", "ndjson", "json"];

/// A file with texts, or pairs of texts.
pub struct Input {
    name: String,
    source: Source,
    has_pairs: bool,
    count: usize,
    bar: Option<ProgressBar>,
}

enum Source {
    /// A text on each line.
    Lines(Lines),
    /// Rows with named columns.
    Table(Box<Peekable<Box<dyn Iterator<Item = Result<TextPair>>>>>),
}

impl Input {
    /// Opens a file; `-` is stdin. Where it is not known whether texts are pairs, columns of a second text say it.
    ///
    /// # Errors
    /// A file that cannot be opened, or lacks a column.
    pub fn open(path: &Path, columns: &Columns, has_pairs: Option<bool>) -> Result<Input> {
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        if !TABLES.iter().any(|table| ending == *table) {
            let lines = Lines::open(path, "--input")?;
            return Ok(Input {
                name: lines.name().to_string(),
                bar: console::shows_bars().then(|| bar(lines.bytes())),
                source: Source::Lines(lines),
                has_pairs: has_pairs == Some(true),
                count: 0,
            });
        }
        let rows: Box<dyn Iterator<Item = Result<TextPair>>> = Box::new(texts(path, columns));
        let mut rows = rows.peekable();
        let is_pair = match rows.peek() {
            Some(Err(error)) => return Err(error.clone()),
            first => first.is_some_and(|row| row.as_ref().is_ok_and(|(_, second)| second.is_some())),
        };
        let name = path.display().to_string();
        if has_pairs == Some(true) && !is_pair {
            return Err(Error::user(format!(
                "{name} has no column for the second text of a pair; name it with --set data.text_pair=COLUMN"
            )));
        }
        Ok(Input {
            name,
            source: Source::Table(Box::new(rows)),
            has_pairs: has_pairs.unwrap_or(is_pair),
            count: 0,
            bar: console::shows_bars().then(|| bar(None)),
        })
    }

    /// What is read, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether texts are pairs.
    pub fn has_pairs(&self) -> bool {
        self.has_pairs
    }

    /// The number of texts that have been read.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The next texts, at most `most`; an empty list at the end.
    ///
    /// # Errors
    /// A file that cannot be read, has no text, or is no UTF-8; a pair without a tab; a damaged row.
    pub fn next(&mut self, most: usize) -> Result<Vec<TextPair>> {
        let mut found = Vec::new();
        while found.len() < most
            && let Some(text) = self.one()?
        {
            found.push(text);
        }
        self.count += found.len();
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} texts", self.count));
            if let Source::Lines(lines) = &self.source {
                bar.set_position(lines.read());
            }
        }
        Ok(found)
    }

    fn one(&mut self) -> Result<Option<TextPair>> {
        match &mut self.source {
            Source::Lines(lines) => {
                let Some(line) = lines.next()? else { return Ok(None) };
                if self.has_pairs && !line.contains('\t') {
                    let (name, number) = (&self.name, lines.line());
                    return Err(Error::user(format!(
                        "{name} line {number} has no tab; write both texts with a tab between"
                    )));
                }
                Ok(Some(split_pair(&line, self.has_pairs)))
            }
            Source::Table(rows) => {
                let row = rows.next().transpose()?;
                Ok(row.map(|(text, second)| (text, second.filter(|_| self.has_pairs))))
            }
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A bar over the bytes of a file, or a sign of life where their number is unknown.
fn bar(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (
            ProgressBar::new(bytes),
            "{wide_bar:.cyan/dim} {percent} %  {msg}  {eta}",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {msg}  {elapsed}"),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style)
}
