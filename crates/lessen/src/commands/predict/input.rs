//! The texts of a file or of stdin, one after another, with a bar that shows how far the reader is.

use crate::commands::lines::Lines;
use crate::terminal::shows_bars;
use indicatif::{ProgressBar, ProgressStyle};
use lessen_base::{Error, Result};
use lessen_data::TextPair;
use lessen_data::labelled::{Columns, Record, texts};
use lessen_saved::saved_run::split_pair;
use std::iter::Peekable;
use std::path::Path;
use std::sync::Arc;

/// The endings of files with named columns.
const TABLES: [&str; 6] = ["csv", "tsv", "jsonl", "ndjson", "json", "parquet"];

/// Texts, or pairs of texts, with the lines that they stand in.
#[derive(Default)]
pub struct Texts {
    /// The texts.
    pub texts: Vec<TextPair>,
    /// The lines, as many.
    pub records: Vec<Record>,
}

/// A file with texts, or pairs of texts.
pub struct Input {
    name: String,
    source: Source,
    has_pairs: bool,
    count: usize,
    bar: Option<ProgressBar>,
}

enum Source {
    /// A text on each line, and the names of the columns that it has in an answer.
    Lines(Lines, LineColumns),
    /// Rows with named columns.
    Table(Box<Peekable<Rows>>),
}

type Rows = Box<dyn Iterator<Item = Result<(TextPair, Record)>>>;

/// What the columns of plain lines are called: of a text, and of the second one of a pair where that is answered with.
#[derive(Clone)]
pub struct LineColumns {
    names: Arc<[String]>,
    has_pairs: bool,
}

impl LineColumns {
    /// The columns of lines with texts, or with pairs of texts.
    pub fn of_texts(has_pairs: bool) -> LineColumns {
        let names = ["text", "text_pair"].into_iter().take(if has_pairs { 2 } else { 1 });
        LineColumns {
            names: names.map(str::to_string).collect(),
            has_pairs,
        }
    }

    /// The columns of lines with a question and its context, which is left out of the answer.
    pub fn of_questions() -> LineColumns {
        LineColumns {
            names: Arc::new(["question".to_string()]),
            has_pairs: true,
        }
    }

    /// The text or pair of a line.
    ///
    /// # Errors
    /// A pair without a tab; `name` is the file.
    pub fn read(&self, name: &str, number: usize, line: &str) -> Result<(TextPair, Record)> {
        if self.has_pairs && !line.contains('\t') {
            return Err(Error::user(format!(
                "{name} line {number} has no tab; write both texts with a tab between"
            )));
        }
        let (text, second) = split_pair(line, self.has_pairs);
        let cells = [Some(text.clone()), second.clone()].into_iter().flatten();
        let cells = cells.take(self.names.len()).collect();
        Ok(((text, second), Record::of_cells(&self.names, number, cells)))
    }
}

/// How a file is read.
pub struct InputOptions {
    /// The columns of texts in a table.
    pub columns: Columns,
    /// Whether texts are pairs, where that is known.
    pub has_pairs: Option<bool>,
    /// The columns of plain lines.
    pub lines: LineColumns,
}

impl Input {
    /// Opens a file; `-` is stdin. Where it is not known whether texts are pairs, columns of a second text say it.
    ///
    /// # Errors
    /// A file that cannot be opened, or lacks a column.
    pub fn open(path: &Path, options: InputOptions) -> Result<Input> {
        let InputOptions {
            columns,
            has_pairs,
            lines: line_columns,
        } = options;
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        if !TABLES.iter().any(|table| ending == *table) {
            let lines = Lines::open(path, "--input")?;
            return Ok(Input {
                name: lines.name().to_string(),
                bar: shows_bars().then(|| bar(lines.bytes())),
                source: Source::Lines(lines, line_columns),
                has_pairs: has_pairs == Some(true),
                count: 0,
            });
        }
        let rows: Rows = Box::new(texts(path, &columns));
        let mut rows = rows.peekable();
        let is_pair = match rows.peek() {
            Some(Err(error)) => return Err(error.clone()),
            Some(Ok(((_, second), _))) => second.is_some(),
            None => false,
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
            bar: shows_bars().then(|| bar(None)),
        })
    }

    /// What is read, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The place of a line, for messages.
    pub fn place(&self, record: &Record) -> String {
        match record.line() {
            Some(line) => format!("{} line {line}", self.name),
            None => self.name.clone(),
        }
    }

    /// Whether it has named columns.
    pub fn is_table(&self) -> bool {
        matches!(self.source, Source::Table(_))
    }

    /// The next texts, at most `most`; none at the end.
    ///
    /// # Errors
    /// A file that cannot be read, has no text, or is no UTF-8; a pair without a tab; a damaged row.
    pub fn next(&mut self, most: usize) -> Result<Texts> {
        let mut found = Texts::default();
        while found.texts.len() < most
            && let Some((text, record)) = self.one()?
        {
            found.texts.push(text);
            found.records.push(record);
        }
        self.count += found.texts.len();
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} texts", self.count));
            if let Source::Lines(lines, _) = &self.source {
                bar.set_position(lines.read());
            }
        }
        Ok(found)
    }

    fn one(&mut self) -> Result<Option<(TextPair, Record)>> {
        match &mut self.source {
            Source::Lines(lines, columns) => match lines.next()? {
                Some(line) => columns.read(&self.name, lines.line(), &line).map(Some),
                None => Ok(None),
            },
            Source::Table(rows) => {
                let row = rows.next().transpose()?;
                Ok(row.map(|((text, second), record)| ((text, second.filter(|_| self.has_pairs)), record)))
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
