//! Reading text files with errors that name file and line.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use lessen_base::lfs::refuse_pointer;
use lessen_base::{Error, Result};

use crate::splits;

/// Reads a text file without its byte-order mark. A missing, unreadable, empty or non-UTF-8 file is an error.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let shown = path.display();
    refuse_pointer(path)?;
    let bytes = fs::read(path).map_err(|error| unreadable(path, &error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
        Error::user(format!(
            "{shown} line {line} is not valid UTF-8; save the file as UTF-8"
        ))
    })?;
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_string(),
        None => text,
    };
    if text.trim().is_empty() {
        return Err(empty(path));
    }
    Ok(text)
}

/// The error of a file that cannot be read.
pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    let shown = path.display();
    match error.kind() {
        ErrorKind::NotFound => Error::user(format!("there is no file {shown}; check the path")),
        ErrorKind::IsADirectory => Error::user(format!("{shown} is a folder, not a file; name a file in it")),
        _ => Error::user(format!(
            "{shown} cannot be read ({error}); check the file and its permissions"
        )),
    }
}

/// The error of a file without data.
pub(crate) fn empty(path: &Path) -> Error {
    Error::user(format!(
        "{} is empty; it must hold at least one line of data",
        path.display()
    ))
}

/// Iterates over the lines of a text and their numbers from 1, without line ends (LF or CRLF) and without trailing
/// empty lines.
pub(crate) fn numbered_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.trim_end_matches(['\n', '\r']).len();
    text[..end].lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Maximum number of quoted characters in a message.
const LONGEST_QUOTATION: usize = 60;

/// The extension of Parquet files.
pub(crate) const PARQUET: &str = "parquet";

/// Whether a file is one of Parquet by its name.
pub(crate) fn is_parquet(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case(PARQUET))
}

/// The word for what is numbered in a file, or in data in memory: a line, or a row.
pub(crate) fn line_word(path: &Path) -> &'static str {
    if is_parquet(path) || splits::is_name(path) {
        "row"
    } else {
        "line"
    }
}

/// Quotes a piece of a file for an error message: truncated, with control characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    let visible = |character: char| {
        if character.is_control() {
            character.escape_default().to_string()
        } else {
            character.to_string()
        }
    };
    let shown: String = text.chars().take(LONGEST_QUOTATION).map(visible).collect();
    match text.chars().nth(LONGEST_QUOTATION) {
        Some(_) => format!("'{shown}...'"),
        None => format!("'{shown}'"),
    }
}

/// Creates a folder and its parents.
pub(crate) fn make_folder(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| {
        Error::user(format!(
            "the folder {} cannot be made ({error}); choose a writable place",
            dir.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_file_is_named_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        let message = |path: &Path| read_text(path).unwrap_err().to_string();
        assert!(message(&path).starts_with("there is no file "));
        assert!(message(dir.path()).contains("is a folder"));
        fs::write(&path, "\n\n").unwrap();
        assert!(message(&path).contains("a.txt is empty"));
        fs::write(&path, b"one\ntwo\n\xe6\x97\nfour\n").unwrap();
        assert!(message(&path).contains("a.txt line 3 is not valid UTF-8"));
    }

    #[test]
    fn marks_line_ends_and_blank_last_lines_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        fs::write(&path, "\u{feff}one\r\n\ntwo\u{2028}x\n\n\r\n").unwrap();
        let text = read_text(&path).unwrap();
        let lines: Vec<_> = numbered_lines(&text).collect();
        assert_eq!(lines, [(1, "one"), (2, ""), (3, "two\u{2028}x")]);
    }

    #[test]
    fn a_quotation_is_short_and_visible() {
        assert_eq!(quoted("牛 \"a'"), "'牛 \"a''");
        assert_eq!(quoted("a\u{1b}[2J\0\r"), "'a\\u{1b}[2J\\u{0}\\r'");
        assert_eq!(quoted(&"牛".repeat(60)), format!("'{}'", "牛".repeat(60)));
        assert_eq!(quoted(&"牛".repeat(61)), format!("'{}...'", "牛".repeat(60)));
    }
}
