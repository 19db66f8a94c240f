//! The lines of a file or of stdin.

use lessen_base::{Error, Result};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

/// A reader of lines.
pub struct Lines {
    name: String,
    reader: Box<dyn BufRead>,
    line: usize,
    bytes: Option<u64>,
    read: u64,
}

impl Lines {
    /// Opens a file; `-` is stdin. `flag` is the flag that names it, for messages.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn open(path: &Path, flag: &str) -> Result<Lines> {
        let (name, reader, bytes): (_, Box<dyn Read>, _) = if path == Path::new("-") {
            ("stdin".to_string(), Box::new(std::io::stdin()), None)
        } else {
            let shown = path.display();
            let file = File::open(path).map_err(|error| match error.kind() {
                ErrorKind::NotFound => Error::user(format!("{flag}: there is no file {shown}; check the path")),
                _ => Error::user(format!(
                    "{flag}: {shown} cannot be read ({error}); check its permissions"
                )),
            })?;
            let known = file.metadata().ok();
            if known.as_ref().is_some_and(|known| known.is_dir()) {
                return Err(Error::user(format!("{flag}: {shown} is a folder; name a file in it")));
            }
            let bytes = known.filter(|known| known.is_file()).map(|known| known.len());
            (shown.to_string(), Box::new(file), bytes)
        };
        Ok(Lines {
            name,
            reader: Box::new(BufReader::with_capacity(1 << 16, reader)),
            line: 0,
            bytes,
            read: 0,
        })
    }

    /// The name of the file, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of lines that have been read.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The bytes of the file, if it has an end.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// The bytes that have been read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// The next line, without its end and without a byte-order mark; none at the end.
    ///
    /// # Errors
    /// A file that cannot be read, has no line, or is no UTF-8.
    pub fn next(&mut self) -> Result<Option<String>> {
        let (name, mut bytes) = (&self.name, Vec::new());
        let count = self.reader.read_until(b'\n', &mut bytes);
        let count = count.map_err(|error| Error::user(format!("{name} cannot be read ({error})")))?;
        if count == 0 {
            return match self.line {
                0 => Err(Error::user(format!("{name} is empty; write a text on each line"))),
                _ => Ok(None),
            };
        }
        (self.read, self.line) = (self.read + count as u64, self.line + 1);
        let mut text = String::from_utf8(bytes).map_err(|_| {
            let line = self.line;
            Error::user(format!("{name} line {line} is not valid UTF-8; save the file as UTF-8"))
        })?;
        let end = text.strip_suffix('\n').unwrap_or(&text);
        let end = end.strip_suffix('\r').unwrap_or(end).len();
        text.truncate(end);
        if self.line == 1 && text.starts_with('\u{feff}') {
            text.remove(0);
        }
        Ok(Some(text))
    }
}
