//! The lines of a text file, read one after another.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use crate::files::unreadable;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;

/// The lines of a text file and their numbers from 1, without byte-order mark, line ends (LF or CRLF) and trailing
/// empty lines. A file that cannot be read and a line that is not valid UTF-8 are errors, after which there is nothing
/// more.
pub(crate) struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    bytes: Vec<u8>,
    /// The number of the last line that was returned.
    number: usize,
    /// Empty lines after it that have been read.
    empty: usize,
    /// The line after them.
    next: Option<String>,
    ended: bool,
}

impl Lines {
    /// Opens a file.
    pub(crate) fn open(path: &Path) -> Result<Lines> {
        Ok(Lines {
            path: path.to_path_buf(),
            reader: BufReader::with_capacity(BUFFER, open(path)?),
            bytes: Vec::new(),
            number: 0,
            empty: 0,
            next: None,
            ended: false,
        })
    }

    /// Reads up to the next line that is not empty, and counts the empty ones before it.
    fn fill(&mut self) -> Result<()> {
        while !self.ended && self.next.is_none() {
            self.bytes.clear();
            let read = self.reader.read_until(b'\n', &mut self.bytes);
            let count = read.map_err(|error| unreadable(&self.path, &error))?;
            let line = self.number + self.empty + 1;
            let text = std::str::from_utf8(&self.bytes).map_err(|_| not_utf8(&self.path, line))?;
            let text = if line == 1 {
                text.strip_prefix('\u{feff}').unwrap_or(text)
            } else {
                text
            };
            match text.trim_end_matches(['\n', '\r']) {
                _ if count == 0 => self.ended = true,
                "" => self.empty += 1,
                text => self.next = Some(text.to_string()),
            }
        }
        Ok(())
    }
}

impl Iterator for Lines {
    type Item = Result<(usize, String)>;

    fn next(&mut self) -> Option<Result<(usize, String)>> {
        if let Err(error) = self.fill() {
            (self.ended, self.empty) = (true, 0);
            return Some(Err(error));
        }
        let line = match (self.empty, &self.next) {
            (1.., Some(_)) => {
                self.empty -= 1;
                String::new()
            }
            _ => self.next.take()?,
        };
        self.number += 1;
        Some(Ok((self.number, line)))
    }
}

/// Opens a file to read; a missing one, a folder and a pipe, which cannot be read again, are errors.
pub(crate) fn open(path: &Path) -> Result<File> {
    let about = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if about.is_dir() {
        return Err(unreadable(path, &std::io::ErrorKind::IsADirectory.into()));
    }
    if !about.is_file() {
        return Err(Error::user(format!(
            "{} is no ordinary file, and data is read more than once; save it to a file",
            path.display()
        )));
    }
    File::open(path).map_err(|error| unreadable(path, &error))
}

/// The error of a line that is not valid UTF-8.
pub(crate) fn not_utf8(path: &Path, line: usize) -> Error {
    Error::user(format!(
        "{} line {line} is not valid UTF-8; save the file as UTF-8",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<Result<(usize, String)>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        fs::write(&path, bytes).unwrap();
        Lines::open(&path).unwrap().collect()
    }

    #[test]
    fn marks_line_ends_and_empty_last_lines_are_dropped() {
        let found = lines("\u{feff}one\r\n\n\r\ntwo\u{2028}x\n\n\r\n".as_bytes());
        let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
        let expected = [(1, "one"), (2, ""), (3, ""), (4, "two\u{2028}x")];
        assert_eq!(found, expected.map(|(number, line)| (number, line.to_string())));
        assert_eq!(lines(b"\n\n"), []);
        assert_eq!(lines(b"no end"), [Ok((1, "no end".to_string()))]);
    }

    #[test]
    fn a_bad_line_is_named_and_ends_the_file() {
        let found = lines(b"one\n\n\xe6\x97\nfour\n");
        assert_eq!(found.len(), 2);
        let error = found[1].clone().unwrap_err().to_string();
        assert!(
            error.ends_with("a.txt line 3 is not valid UTF-8; save the file as UTF-8"),
            "{error}"
        );
        let dir = tempfile::tempdir().unwrap();
        let error = Lines::open(dir.path()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("is a folder, not a file"), "{error}");
    }
}
