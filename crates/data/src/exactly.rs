//! Reading again what was counted before.

use std::path::Path;

use lessen_base::{Error, Result};

/// As many items as there are said to be, or an error, after which there is nothing more.
pub(crate) struct Exactly<'a, I> {
    items: I,
    /// None after an error.
    left: Option<usize>,
    file: &'a Path,
}

impl<'a, I> Exactly<'a, I> {
    /// `count` items that were in a file, or in several files; this is the first one.
    pub(crate) fn new(items: I, count: usize, file: &'a Path) -> Exactly<'a, I> {
        Exactly {
            items,
            left: Some(count),
            file,
        }
    }
}

impl<T, I: Iterator<Item = Result<T>>> Iterator for Exactly<'_, I> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let left = self.left?;
        let error = match (left, self.items.next()) {
            (0, None) => return None,
            (1.., Some(Ok(item))) => {
                self.left = Some(left - 1);
                return Some(Ok(item));
            }
            (_, Some(Err(error))) => error,
            _ => changed(self.file),
        };
        self.left = None;
        Some(Err(error))
    }
}

/// The error of a file that is not as it was.
pub(crate) fn changed(file: &Path) -> Error {
    Error::user(format!(
        "{} has changed while it was read; leave the data as it is, and start again",
        file.display()
    ))
}
