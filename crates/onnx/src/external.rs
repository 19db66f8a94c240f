//! Tensors whose elements are in a file beside the model.

use std::path::{Component, Path, PathBuf};

use lessen_base::{Error, Result};

use crate::proto::StringStringEntryProto;
use crate::wire::{Source, Span};

/// Where a tensor's elements are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct External {
    /// The file, relative to the model's folder.
    pub file: PathBuf,
    /// The bytes.
    pub span: Span,
}

impl External {
    /// Reads where the elements of the tensor `name` are, which take `bytes` bytes.
    ///
    /// # Errors
    /// A sentence that names the tensor: no file, a path that leaves the model's folder, an offset or a length that is
    /// no number or not the length of the tensor.
    pub fn of(name: &str, entries: &[StringStringEntryProto], bytes: u64) -> Result<External> {
        let get = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value);
        let number = |key: &str, default: u64| {
            match get(key) {
            None => Ok(default),
            Some(text) => text.parse::<u64>().map_err(|_| {
                Error::user(format!(
                    "the tensor `{name}` lies in another file with a {key} of `{text}`, which is no number of bytes; export \
                     the model again"
                ))
            }),
        }
        };
        let location = get("location").filter(|location| !location.is_empty());
        let Some(location) = location else {
            return Err(Error::user(format!(
                "the tensor `{name}` lies in another file, which the model does not name; export it again"
            )));
        };
        let (start, len) = (number("offset", 0)?, number("length", bytes)?);
        if len != bytes || start.checked_add(len).is_none() {
            return Err(Error::user(format!(
                "the tensor `{name}` takes {bytes} bytes, but the model says {len} of {location}; export it again"
            )));
        }
        Ok(External {
            file: relative(name, location)?,
            span: Span { start, len },
        })
    }

    /// Opens the file, beside the model at `model`.
    ///
    /// # Errors
    /// A sentence that names the file, if it cannot be read or is too short.
    pub fn open(&self, model: &Path) -> Result<Source> {
        let path = model.parent().unwrap_or(Path::new("")).join(&self.file);
        let source = Source::open(&path)?;
        if self.span.end() <= source.all().len {
            Ok(source)
        } else {
            Err(Error::user(format!(
                "{} has {} bytes, but the model reads it up to byte {}; copy the file again",
                path.display(),
                source.all().len,
                self.span.end()
            )))
        }
    }
}

/// The path of a location, which stays in the model's folder.
fn relative(name: &str, location: &str) -> Result<PathBuf> {
    let path = Path::new(location);
    let stays = |component: Component<'_>| matches!(component, Component::Normal(_) | Component::CurDir);
    if path.components().all(stays) && !location.contains('\\') {
        Ok(path.to_path_buf())
    } else {
        Err(Error::user(format!(
            "the tensor `{name}` lies in `{location}`, outside of the model's folder, which is not read; move the file beside \
             the model"
        )))
    }
}
