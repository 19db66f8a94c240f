//! Protobuf messages in a file, read field by field, so that large fields stay where they are.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::lfs::refuse_pointer;
use lessen_base::{Error, Result};

/// A range of bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Position of the first byte.
    pub start: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Span {
    /// The position after the last byte.
    pub fn end(self) -> u64 {
        self.start + self.len
    }
}

/// The content of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// A number: a varint, or the bits of a fixed one.
    Number(u64),
    /// Bytes: a text, a message, packed numbers.
    Bytes(Span),
}

/// A field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// The field's number in the schema.
    pub number: u32,
    /// The field's content.
    pub payload: Payload,
    /// All of it: tag, length and payload.
    pub whole: Span,
}

impl Field {
    /// The bytes that it holds; none of a number.
    pub fn bytes(&self) -> Option<Span> {
        match self.payload {
            Payload::Bytes(span) => Some(span),
            Payload::Number(_) => None,
        }
    }
}

/// A file that messages are read from.
#[derive(Debug)]
pub struct Source {
    content: Content,
    len: u64,
    path: PathBuf,
}

/// Where the bytes are.
#[derive(Debug)]
enum Content {
    File(File),
    Memory(Arc<[u8]>),
}

/// Bytes that are read ahead while fields are listed.
const AHEAD: usize = 4096;

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// A sentence that names the file, if it is not there or is no file.
    pub fn open(path: &Path) -> Result<Source> {
        refuse_pointer(path)?;
        let opened = File::open(path).and_then(|file| {
            let metadata = file.metadata()?;
            if metadata.is_file() {
                Ok((file, metadata.len()))
            } else {
                Err(io::Error::other("it is no file"))
            }
        });
        let (file, len) = opened.map_err(|error| {
            let path = path.display();
            Error::user(format!("{path} cannot be read ({error}); check the path"))
        })?;
        Ok(Source {
            content: Content::File(file),
            len,
            path: path.to_path_buf(),
        })
    }

    /// Bytes in memory, which errors call by a path.
    pub(crate) fn held(bytes: Arc<[u8]>, path: &Path) -> Source {
        Source {
            len: bytes.len() as u64,
            content: Content::Memory(bytes),
            path: path.to_path_buf(),
        }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The whole file.
    pub fn all(&self) -> Span {
        Span {
            start: 0,
            len: self.len,
        }
    }

    /// Reads the bytes of a span into `buffer`, which has the length of the span.
    ///
    /// # Errors
    /// A span beyond the file's end, a disk that cannot be read.
    pub fn read_into(&self, start: u64, buffer: &mut [u8]) -> Result<()> {
        let result = match &self.content {
            Content::File(file) => {
                let mut file = file;
                file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(buffer))
            }
            Content::Memory(bytes) => {
                let from = usize::try_from(start).ok().and_then(|start| bytes.get(start..));
                from.unwrap_or_default().read_exact(buffer)
            }
        };
        result.map_err(|error| {
            let path = self.path.display();
            Error::user(format!(
                "{path} cannot be read at byte {start} ({error}); is it complete?"
            ))
        })
    }

    /// The bytes of a span.
    ///
    /// # Errors
    /// As for [`Source::read_into`]; no memory is taken for a span beyond the file's end.
    pub fn read(&self, span: Span) -> Result<Vec<u8>> {
        if span.start.checked_add(span.len).is_none_or(|end| end > self.len) {
            return Err(self.damaged(span.start, "a field ends after the end of the file"));
        }
        let mut bytes = vec![0; span.len as usize];
        self.read_into(span.start, &mut bytes)?;
        Ok(bytes)
    }

    /// The error of a file that is no valid model.
    pub fn damaged(&self, at: u64, what: &str) -> Error {
        let path = self.path.display();
        Error::user(format!(
            "{path} is no valid ONNX file: {what}, at byte {at}; export it again"
        ))
    }

    /// The fields of the message in a span, in order.
    ///
    /// # Errors
    /// A tag or a length that is not valid, with its position.
    pub fn fields(&self, span: Span) -> Result<Vec<Field>> {
        let mut reader = Reader {
            source: self,
            at: span.start,
            end: span.end(),
            ahead: Vec::new(),
            ahead_at: span.start,
        };
        let mut fields = Vec::new();
        while reader.at < reader.end {
            fields.push(reader.field()?);
        }
        Ok(fields)
    }
}

/// Reads fields one after another.
struct Reader<'a> {
    source: &'a Source,
    at: u64,
    end: u64,
    ahead: Vec<u8>,
    ahead_at: u64,
}

impl Reader<'_> {
    fn field(&mut self) -> Result<Field> {
        let start = self.at;
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
        let Some(number) = number else {
            return Err(self.source.damaged(start, "a field has no number"));
        };
        let payload = match tag & 7 {
            0 => Payload::Number(self.varint()?),
            1 => Payload::Number(self.fixed(8)?),
            5 => Payload::Number(self.fixed(4)?),
            2 => {
                let len = self.varint()?;
                let start = self.at;
                self.skip(len)?;
                Payload::Bytes(Span { start, len })
            }
            _ => return Err(self.source.damaged(start, "a field is of an unknown kind")),
        };
        let whole = Span {
            start,
            len: self.at - start,
        };
        Ok(Field { number, payload, whole })
    }

    fn skip(&mut self, len: u64) -> Result<()> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.end);
        self.at = end.ok_or_else(|| {
            self.source
                .damaged(self.at, "a field is longer than what it is part of")
        })?;
        Ok(())
    }

    fn fixed(&mut self, bytes: u64) -> Result<u64> {
        (0..bytes).try_fold(0, |number, i| Ok(number | u64::from(self.byte()?) << (8 * i)))
    }

    fn varint(&mut self) -> Result<u64> {
        let start = self.at;
        let mut number = 0;
        for i in 0..10 {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(7 * i).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.source.damaged(start, "a number has no end"))
    }

    fn byte(&mut self) -> Result<u8> {
        if self.at >= self.end {
            return Err(self.source.damaged(self.at, "a field is cut off"));
        }
        let within = self
            .at
            .checked_sub(self.ahead_at)
            .filter(|i| *i < self.ahead.len() as u64);
        let index = match within {
            Some(index) => index as usize,
            None => {
                let len = (self.end - self.at).min(AHEAD as u64);
                self.ahead = self.source.read(Span { start: self.at, len })?;
                self.ahead_at = self.at;
                0
            }
        };
        self.at += 1;
        Ok(self.ahead[index])
    }
}

/// Writes the tag and the length of a field of bytes.
pub(crate) fn head(number: u32, len: u64, out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | 2, out);
    varint(len, out);
}

/// Writes a number.
pub(crate) fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_of_git_lfs_is_named_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.onnx");
        std::fs::write(
            &path,
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 132735\n",
        )
        .unwrap();
        let Err(error) = Source::open(&path) else {
            panic!("a pointer is no file of ONNX")
        };
        let sentence = error.to_string();
        assert!(
            sentence.contains("is a pointer of Git LFS") && sentence.contains("git lfs pull"),
            "{sentence}"
        );
    }
}
