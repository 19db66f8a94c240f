//! Tokens of large data, kept in files so that they take no memory and are made once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use lessen_base::atomic::{unwritable, write_file, write_folder};
use lessen_base::{Result, SplitMix64};

use crate::files::make_folder;

/// The file of an entry that names its sources.
const KEY: &str = "key.txt";

/// A folder for the tokens of large data. Entries are found by what they are made of: size and time of the files,
/// tokenizer and settings. Nothing in it is needed for longer than a run takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenCache {
    folder: PathBuf,
    from: u64,
}

impl TokenCache {
    /// A cache in this folder for data of at least `from` bytes; smaller data is tokenized in memory.
    pub fn new(folder: PathBuf, from: u64) -> TokenCache {
        TokenCache { folder, from }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The entry for data of so many bytes in files; none of data in memory, and where it is too small. `key` says what
    /// its tokens are made of.
    pub(crate) fn entry(&self, bytes: impl Into<Option<u64>>, key: String) -> Option<Entry> {
        (bytes.into()? >= self.from).then(|| Entry {
            dir: self
                .folder
                .join(format!("{:016x}", SplitMix64::named(0, &key).next_u64())),
            key,
        })
    }
}

/// What tells files from others: path, size and time of the last change, a line each.
pub(crate) fn key_of_files<'a>(files: impl IntoIterator<Item = &'a Path>) -> String {
    let line = |path: &Path| {
        let about = fs::metadata(path).ok();
        let changed = about
            .as_ref()
            .and_then(|about| about.modified().ok()?.duration_since(UNIX_EPOCH).ok());
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let size = about.map_or(0, |about| about.len());
        format!(
            "{}\t{size}\t{}\n",
            path.display(),
            changed.unwrap_or_default().as_nanos()
        )
    };
    files.into_iter().map(line).collect()
}

/// An entry of a cache, which may not exist yet.
pub(crate) struct Entry {
    dir: PathBuf,
    key: String,
}

impl Entry {
    /// The folder with the entry's files, which `fill` makes where there is none.
    pub(crate) fn folder(&self, fill: impl FnOnce(&Path) -> Result<()>) -> Result<&Path> {
        if self.is_whole() {
            return Ok(&self.dir);
        }
        make_folder(self.cache())?;
        // Of its own, since another process may be making the same entry.
        let own = self.dir.with_extension(std::process::id().to_string());
        write_folder(&own, |aside| {
            fill(aside)?;
            write_file(&aside.join(KEY), self.key.as_bytes())
        })?;
        if self.is_whole() {
            let _ = fs::remove_dir_all(&own);
            return Ok(&self.dir);
        }
        // An entry of another key, or a damaged one.
        let _ = fs::remove_dir_all(&self.dir);
        fs::rename(&own, &self.dir).map_err(|error| unwritable(&self.dir, &error))?;
        Ok(&self.dir)
    }

    /// The folder of the cache.
    pub(crate) fn cache(&self) -> &Path {
        self.dir.parent().unwrap_or(Path::new("."))
    }

    fn is_whole(&self) -> bool {
        fs::read_to_string(self.dir.join(KEY)).is_ok_and(|key| key == self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_base::Error;

    #[test]
    fn an_entry_is_made_once_and_only_for_large_data() {
        let dir = tempfile::tempdir().unwrap();
        let cache = TokenCache::new(dir.path().join("a/b"), 10);
        assert!(cache.entry(9, "k".into()).is_none());
        let entry = cache.entry(10, "k".into()).unwrap();
        let failed = entry.folder(|_| Err(Error::user("no"))).map(Path::to_path_buf);
        assert_eq!(failed, Err(Error::user("no")));
        let path = entry.folder(|aside| write_file(&aside.join("x"), b"1")).unwrap();
        assert_eq!(fs::read(path.join("x")).unwrap(), b"1");
        let same = cache.entry(99, "k".into()).unwrap();
        assert_eq!(same.folder(|_| panic!("it is there")), Ok(path));
        assert_ne!(cache.entry(99, "l".into()).unwrap().dir, path);
        assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 1);
        fs::write(path.join(KEY), "another key").unwrap();
        same.folder(|aside| write_file(&aside.join("y"), b"2")).unwrap();
        assert!(path.join("y").exists() && !path.join("x").exists());
    }

    #[test]
    fn a_file_that_changes_has_another_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        fs::write(&path, "one").unwrap();
        let before = key_of_files([path.as_path()]);
        assert_eq!(before, key_of_files([path.as_path()]));
        fs::write(&path, "three").unwrap();
        assert_ne!(before, key_of_files([path.as_path()]));
    }
}
