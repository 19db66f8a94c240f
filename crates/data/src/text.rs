//! Plain text for language models.

use std::fs;
use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use crate::files::read_text;

/// A text corpus and its splits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The training split.
    pub train: String,
    /// The validation split.
    pub valid: String,
    /// The test split, if the folder has one.
    pub test: Option<String>,
}

impl Text {
    /// Reads a file, or a folder with `train.txt` and `valid.txt` or `NAME.train.txt` and `NAME.valid.txt`, and
    /// optionally a test split named alike.
    ///
    /// The last fraction `held_out` of a file's characters is the validation split; a folder has its own splits.
    ///
    /// # Errors
    /// A missing, empty or damaged file; a folder without a required split or with several files of one; a fraction
    /// that is not between 0 and 1 or leaves a split empty.
    pub fn read(path: &Path, held_out: f64) -> Result<Text> {
        if path.is_dir() {
            return Text::from_folder(path);
        }
        let text = read_text(path)?;
        let characters = text.chars().count();
        let kept = (characters as f64 * (1.0 - held_out)) as usize;
        if !(held_out > 0.0 && held_out < 1.0) || kept == 0 || kept == characters {
            return Err(Error::user(format!(
                "a validation share of {held_out} leaves no text on one side of the {characters} \
                 characters of {}; choose a share between 0 and 1, such as 0.1",
                path.display()
            )));
        }
        let cut = text.char_indices().nth(kept).map_or(text.len(), |(at, _)| at);
        Ok(Text {
            train: text[..cut].to_string(),
            valid: text[cut..].to_string(),
            test: None,
        })
    }

    fn from_folder(dir: &Path) -> Result<Text> {
        let needed = |split| {
            find(dir, split)?.ok_or_else(|| {
                Error::user(format!(
                    "there is no {split}.txt or NAME.{split}.txt in {}; add it, or name one text file",
                    dir.display()
                ))
            })
        };
        let (train, valid) = (needed("train")?, needed("valid")?);
        Ok(Text {
            train: read_text(&train)?,
            valid: read_text(&valid)?,
            test: find(dir, "test")?.map(|test| read_text(&test)).transpose()?,
        })
    }

    /// Returns the split `train`, `valid` or `test`; `dev` is an alias of `valid`.
    ///
    /// # Errors
    /// An unknown name, or `test` without a test split; the message lists the splits.
    pub fn split(&self, name: &str) -> Result<&str> {
        match name {
            "train" => Ok(&self.train),
            "valid" | "dev" => Ok(&self.valid),
            "test" => self
                .test
                .as_deref()
                .ok_or_else(|| Error::user("this text has no split called test; choose train or valid")),
            _ => Err(Error::user(format!(
                "there is no split called {name}; choose train, valid or test"
            ))),
        }
    }
}

/// Finds the file of a split: `SPLIT.txt`, or else the only `NAME.SPLIT.txt`.
fn find(dir: &Path, split: &str) -> Result<Option<PathBuf>> {
    let plain = dir.join(format!("{split}.txt"));
    if plain.exists() {
        return Ok(Some(plain));
    }
    let ending = format!(".{split}.txt");
    let entries = fs::read_dir(dir).map_err(|error| {
        Error::user(format!(
            "the folder {} cannot be read ({error}); check its permissions",
            dir.display()
        ))
    })?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<PathBuf> = paths.filter(|path| path.to_string_lossy().ends_with(&ending)).collect();
    found.sort();
    match found.as_slice() {
        [first, second, ..] => Err(Error::user(format!(
            "{} and {} are both a {split} split; keep one of them in the folder",
            first.display(),
            second.display()
        ))),
        _ => Ok(found.pop()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_split_by_characters() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.txt");
        fs::write(&path, "零一二三四五六七八九end").unwrap();
        let text = Text::read(&path, 0.1).unwrap();
        // 13 characters, 11.7 of them before the cut.
        assert_eq!(
            (text.train.as_str(), text.valid.as_str()),
            ("零一二三四五六七八九e", "nd")
        );
        assert_eq!(Text::read(&path, 0.5).unwrap().valid, "六七八九end");
        assert_eq!(Text::read(&path, 0.01).unwrap().valid, "d");
        for share in [0.0, 1.0, -0.5, f64::NAN, 0.99] {
            let error = Text::read(&path, share).unwrap_err().to_string();
            assert!(error.contains("leaves no text"), "{share}: {error}");
        }
        fs::write(&path, b"good\n\xff").unwrap();
        assert!(
            Text::read(&path, 0.1)
                .unwrap_err()
                .to_string()
                .contains("t.txt line 2 is not valid UTF-8")
        );
    }

    #[test]
    fn a_folder_has_its_own_split() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("ptb.train.txt", "to learn");
        let missing = Text::read(dir.path(), 0.1).unwrap_err().to_string();
        assert!(missing.contains("no valid.txt or NAME.valid.txt"), "{missing}");
        write("ptb.valid.txt", "to check");
        write("other.txt", "not read");
        let text = Text::read(dir.path(), 0.1).unwrap();
        assert_eq!(
            (text.split("train").unwrap(), text.split("dev").unwrap()),
            ("to learn", "to check")
        );
        assert!(
            text.split("test")
                .unwrap_err()
                .to_string()
                .contains("no split called test")
        );
        write("test.txt", "last");
        assert_eq!(Text::read(dir.path(), 0.1).unwrap().split("test").unwrap(), "last");
        write("wiki.train.txt", "more");
        assert!(
            Text::read(dir.path(), 0.1)
                .unwrap_err()
                .to_string()
                .contains("both a train split")
        );
    }
}
