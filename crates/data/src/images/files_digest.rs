//! Digests of the contents of files.

use std::fs;
use std::path::{Path, PathBuf};

use crc32c::crc32c_append;
use lessen_base::Result;
use serde::{Deserialize, Serialize};

use crate::files::unreadable;

/// The digest of the contents of a file, or of several in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesDigest {
    /// The name of the first file.
    pub name: String,
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// CRC-32C of these.
    pub crc32c: u32,
}

impl FilesDigest {
    /// The digest of one file.
    pub fn of_one(name: String, bytes: u64, crc32c: u32) -> FilesDigest {
        FilesDigest {
            name,
            files: 1,
            bytes,
            crc32c,
        }
    }

    /// The digest of files, of which there is one at least.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(super) fn of(files: &[&PathBuf]) -> Result<FilesDigest> {
        let name = files.first().map_or(String::new(), |file| file.display().to_string());
        let mut digest = FilesDigest::of_one(name, 0, 0);
        digest.files = files.len() as u64;
        for file in files {
            let bytes = fs::read(file).map_err(|error| unreadable(file, &error))?;
            digest.bytes += bytes.len() as u64;
            digest.crc32c = crc32c_append(digest.crc32c, &bytes);
        }
        Ok(digest)
    }

    /// Names the first file as it is called within a folder that it lies in.
    pub fn name_within(&mut self, folder: &Path) {
        if let Ok(inner) = Path::new(&self.name).strip_prefix(folder) {
            self.name = inner.display().to_string();
        }
    }

    /// The file or files, in a folder, for messages.
    pub fn shown(&self, folder: &Path) -> String {
        let first = folder.join(&self.name);
        match self.files {
            0 | 1 => first.display().to_string(),
            files => format!("one of the {files} files from {} on", first.display()),
        }
    }
}
