//! Files that may be packed by gzip.

use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use lessen_base::{Error, Result};

use crate::files::unreadable;

/// The content of a file; unpacked, if it is packed by gzip.
pub(super) fn content(path: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(path).map_err(|error| unreadable(path, &error))?;
    if !bytes.starts_with(&[0x1F, 0x8B]) {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    match MultiGzDecoder::new(&bytes[..]).read_to_end(&mut unpacked) {
        Ok(_) => Ok(unpacked),
        Err(error) => Err(Error::user(format!(
            "{} cannot be unpacked ({error}); it is cut off or damaged, so copy or download it again",
            path.display()
        ))),
    }
}
