//! The texts of a file or of stdin, line by line, with a bar that shows how far the reader is.

use crate::commands::lines::Lines;
use indicatif::{ProgressBar, ProgressStyle};
use lessen_run::saved_run::{Text, split_pair};
use lessen_run::{Error, Result, console};
use std::path::Path;

/// A file with a text, or a pair of texts, on each line.
pub struct Input {
    lines: Lines,
    has_pairs: bool,
    bar: Option<ProgressBar>,
}

impl Input {
    /// Opens a file; `-` is stdin.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn open(path: &Path, has_pairs: bool) -> Result<Input> {
        let lines = Lines::open(path, "--input")?;
        let bar = console::shows_bars().then(|| bar(lines.bytes()));
        Ok(Input { lines, has_pairs, bar })
    }

    /// What is read, for messages.
    pub fn name(&self) -> &str {
        self.lines.name()
    }

    /// The number of lines that have been read.
    pub fn line(&self) -> usize {
        self.lines.line()
    }

    /// The next texts, at most so many; none at the end.
    ///
    /// # Errors
    /// A file that cannot be read, has no line, or is no UTF-8; a pair without a tab.
    pub fn next(&mut self, most: usize) -> Result<Vec<Text>> {
        let mut texts = Vec::new();
        while texts.len() < most
            && let Some(line) = self.lines.next()?
        {
            if self.has_pairs && !line.contains('\t') {
                let (name, number) = (self.name(), self.line());
                return Err(Error::user(format!(
                    "{name} line {number} has no tab; write both texts with a tab between"
                )));
            }
            texts.push(split_pair(&line, self.has_pairs));
        }
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} texts", self.line()));
            bar.set_position(self.lines.read());
        }
        Ok(texts)
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
