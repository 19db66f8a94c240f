//! Pointers that Git LFS leaves in place of large files where their contents were not fetched.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::{Error, Result};

/// How every pointer begins.
const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Refuses a file that is a pointer of Git LFS in place of its contents.
///
/// # Errors
/// Such a file. One that cannot be read is left to who reads it.
pub fn refuse_pointer(path: &Path) -> Result<()> {
    let mut start = [0; POINTER.len()];
    // What is no file, such as a pipe, gives its bytes only once.
    if !path.is_file() {
        return Ok(());
    }
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    if read.is_err() || start != POINTER {
        return Ok(());
    }
    Err(Error::user(format!(
        "{} is a pointer of Git LFS in place of the file itself; fetch the file with `git lfs pull` in its repository, or \
         download it",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn pointers_alone_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        assert_eq!(refuse_pointer(&path), Ok(()), "a missing file is no pointer");
        for text in [
            "",
            "version 3 of the model, which is no pointer of Git LFS at all",
            "version https://git-lfs",
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(refuse_pointer(&path), Ok(()));
        }
        fs::write(
            &path,
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 132735\n",
        )
        .unwrap();
        let sentence = refuse_pointer(&path).unwrap_err().to_string();
        assert!(sentence.contains("model.safetensors is a pointer of Git LFS") && sentence.contains("git lfs pull"));
    }
}
