//! A text file in chunks that are valid UTF-8.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::Result;

use crate::exactly::changed;
use crate::files::unreadable;
use crate::lines::{not_utf8, open};

/// Bytes of a chunk, except for the last one.
const CHUNK: usize = 1 << 20;

/// A text file, or a text in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextFile {
    Path(PathBuf),
    /// The text, and its name in messages.
    InMemory(Arc<str>, &'static Path),
}

impl TextFile {
    /// The path, or the name in messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            TextFile::Path(path) => path,
            TextFile::InMemory(_, name) => name,
        }
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> Result<u64> {
        match self {
            TextFile::Path(path) => Ok(open(path)?.metadata().map_or(0, |about| about.len())),
            TextFile::InMemory(text, _) => Ok(text.len() as u64),
        }
    }
}

/// What bytes are read from: a file, or a text in memory from a place on.
enum Bytes {
    File(File),
    InMemory(Arc<str>, usize),
}

impl Bytes {
    /// Reads the next bytes, as many as there are up to `count`; how many there were.
    fn read(&mut self, count: u64, bytes: &mut Vec<u8>) -> io::Result<u64> {
        match self {
            Bytes::File(file) => file.take(count).read_to_end(bytes).map(|read| read as u64),
            Bytes::InMemory(text, at) => {
                let rest = &text.as_bytes()[*at..];
                let read = rest.len().min(count as usize);
                bytes.extend_from_slice(&rest[..read]);
                *at += read;
                Ok(read as u64)
            }
        }
    }
}

/// Chunks of a range of a text file, in order, none of them empty. After an error there are none.
pub(crate) struct TextChunks {
    path: PathBuf,
    file: Bytes,
    left: u64,
    /// The beginning of a character whose end is in the next chunk.
    rest: Vec<u8>,
    /// Line ends before the next chunk.
    lines: usize,
}

impl TextChunks {
    /// Opens a file at this range of bytes.
    pub(crate) fn open(file: &TextFile, range: Range<u64>) -> Result<TextChunks> {
        let bytes = match file {
            TextFile::Path(path) => {
                let mut file = open(path)?;
                file.seek(SeekFrom::Start(range.start))
                    .map_err(|error| unreadable(path, &error))?;
                Bytes::File(file)
            }
            TextFile::InMemory(text, _) => Bytes::InMemory(text.clone(), range.start as usize),
        };
        Ok(TextChunks {
            path: file.path().to_path_buf(),
            file: bytes,
            left: range.end - range.start,
            rest: Vec::new(),
            lines: 0,
        })
    }

    fn read(&mut self) -> Result<String> {
        let mut bytes = std::mem::take(&mut self.rest);
        let count = self.left.min(CHUNK as u64);
        let read = self.file.read(count, &mut bytes);
        if read.map_err(|error| unreadable(&self.path, &error))? != count {
            return Err(changed(&self.path));
        }
        self.left -= count;
        let good = match std::str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            Err(error) if error.error_len().is_none() && self.left > 0 => error.valid_up_to(),
            Err(error) => {
                let before = bytes[..error.valid_up_to()]
                    .iter()
                    .filter(|byte| **byte == b'\n')
                    .count();
                return Err(not_utf8(&self.path, self.lines + before + 1));
            }
        };
        self.rest = bytes.split_off(good);
        self.lines += bytes.iter().filter(|byte| **byte == b'\n').count();
        String::from_utf8(bytes).map_err(|_| not_utf8(&self.path, self.lines + 1))
    }
}

impl Iterator for TextChunks {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        if self.left == 0 {
            return None;
        }
        let chunk = self.read();
        if chunk.is_err() {
            self.left = 0;
        }
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn blocks_end_between_characters() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        let text = "牛\n".repeat(CHUNK / 2);
        fs::write(&path, format!("x{text}")).unwrap();
        let end = text.len() as u64 + 1;
        let file = TextFile::Path(path);
        let chunks: Vec<String> = TextChunks::open(&file, 1..end).unwrap().map(Result::unwrap).collect();
        assert!(chunks.len() > 1 && chunks.concat() == text);
        let part: Vec<String> = TextChunks::open(&file, 1..5).unwrap().map(Result::unwrap).collect();
        assert_eq!(part, ["牛\n"]);
        assert_eq!(TextChunks::open(&file, 5..5).unwrap().count(), 0);
        let longer = TextChunks::open(&file, 1..end + 9)
            .unwrap()
            .last()
            .unwrap()
            .unwrap_err()
            .to_string();
        assert!(longer.contains("has changed while it was read"), "{longer}");
    }

    #[test]
    fn a_damaged_line_is_named_in_any_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        for before in [3, CHUNK] {
            for bad in [&b"\xff after"[..], b"\xe6\x97"] {
                let mut bytes = "a\n".repeat(before).into_bytes();
                bytes.extend(bad);
                fs::write(&path, &bytes).unwrap();
                let file = TextFile::Path(path.clone());
                let last = TextChunks::open(&file, 0..bytes.len() as u64).unwrap().last().unwrap();
                let error = last.unwrap_err().to_string();
                assert!(
                    error.ends_with(&format!(
                        "a.txt line {} is not valid UTF-8; save the file as UTF-8",
                        before + 1
                    )),
                    "{error}"
                );
            }
        }
    }
}
