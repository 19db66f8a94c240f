//! Plain text for language models.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::cache::key_of_files;
use crate::chunks::{TextChunks, TextFile};
use crate::files::empty;
use crate::folders::for_each_file;
use crate::places::files_of;
use crate::splits::DataPlace;

/// A text corpus and its splits, which are read when they are needed and never in memory as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The training split.
    pub train: TextSplit,
    /// The validation split.
    pub valid: TextSplit,
    /// Whether the validation split is all of the text, which has none of its own.
    pub is_whole: bool,
    /// The test split, if the folder has one.
    pub test: Option<TextSplit>,
}

/// A part of a corpus: ranges of files, or of texts in memory, that follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextSplit {
    parts: Vec<(TextFile, Range<u64>)>,
}

impl TextSplit {
    /// Iterates over the text in chunks. After an error there are none.
    pub fn blocks(&self) -> impl Iterator<Item = Result<String>> + '_ {
        let mut failed = false;
        let chunks = self
            .parts
            .iter()
            .flat_map(|(file, range)| -> Box<dyn Iterator<Item = Result<String>>> {
                match TextChunks::open(file, range.clone()) {
                    Ok(chunks) => Box::new(chunks),
                    Err(error) => Box::new(std::iter::once(Err(error))),
                }
            });
        chunks.take_while(move |chunk| !std::mem::replace(&mut failed, chunk.is_err()))
    }

    /// The parts, each in chunks.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Result<TextChunks>> + '_ {
        self.parts
            .iter()
            .map(|(file, range)| TextChunks::open(file, range.clone()))
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|(_, range)| range.end - range.start).sum()
    }

    /// The size in bytes of text in files; none in memory.
    pub(crate) fn file_bytes(&self) -> Option<u64> {
        let is_in_memory = |(file, _): &(TextFile, _)| matches!(file, TextFile::InMemory(..));
        (!self.parts.iter().any(is_in_memory)).then(|| self.bytes())
    }

    /// What tells text in files from other text.
    pub(crate) fn key(&self) -> String {
        let ranges: Vec<&Range<u64>> = self.parts.iter().map(|(_, range)| range).collect();
        format!(
            "{ranges:?}\n{}",
            key_of_files(self.parts.iter().map(|(file, _)| file.path()))
        )
    }
}

/// Places of the splits of a text, beside its path.
#[derive(Clone, Debug, PartialEq)]
pub struct TextOptions {
    /// Where there is no validation split, the last share of the characters that is kept for it, in `(0, 1)`.
    pub held_out: f64,
    /// A file, or files with a pattern for their path, for the validation split; over that of the folder.
    pub valid: Option<PathBuf>,
    /// The same for the test split.
    pub test: Option<PathBuf>,
    /// Whether in place of a share all of the text is the validation split, where there is none.
    pub whole: bool,
}

impl Default for TextOptions {
    fn default() -> TextOptions {
        TextOptions {
            held_out: 0.1,
            valid: None,
            test: None,
            whole: false,
        }
    }
}

impl Text {
    /// Reads a file, the files that a pattern stands for, or a folder: `train.txt` or `NAME.train.txt`, with optional
    /// splits `valid` and `test` named alike, or else all `.txt` files in it and its folders, one after another by
    /// name.
    ///
    /// # Errors
    /// A missing, empty or damaged file; a folder without texts, or with several files of a split; a fraction that is
    /// not between 0 and 1 or leaves a split empty.
    pub fn read(path: &Path, options: &TextOptions) -> Result<Text> {
        Text::read_from(DataPlace::Path(path), options)
    }

    /// Reads what [`Text::read`] reads, or texts in memory, each in place of a file.
    ///
    /// # Errors
    /// As [`Text::read`].
    pub fn read_from(place: DataPlace<'_, Vec<Arc<str>>>, options: &TextOptions) -> Result<Text> {
        let (train, mut valid, mut test) = match place {
            DataPlace::Path(path) => files_in(path)?,
            DataPlace::InMemory(splits) => splits.named(|texts, name| {
                let texts = texts.iter().cloned();
                texts.map(|text| TextFile::InMemory(text, name)).collect()
            }),
        };
        for (split, given) in [(&mut valid, &options.valid), (&mut test, &options.test)] {
            if let Some(path) = given {
                *split = Some(of_paths(files_of(path)?));
            }
        }
        let whole = |files: Vec<TextFile>| scan(&files).map(|(split, _)| split);
        let test = test.map(whole).transpose()?;
        let is_whole = valid.is_none() && options.whole;
        let (train, valid) = match valid {
            Some(valid) => (whole(train)?, whole(valid)?),
            None if is_whole => {
                let all = whole(train)?;
                (all.clone(), all)
            }
            None => halves(&train, options.held_out)?,
        };
        Ok(Text {
            train,
            valid,
            is_whole,
            test,
        })
    }

    /// Returns the split `train`, `valid` or `test`; `dev` is an alias of `valid`.
    ///
    /// # Errors
    /// An unknown name, or `test` without a test split; the message lists the splits.
    pub fn split(&self, name: &str) -> Result<&TextSplit> {
        match name {
            "train" => Ok(&self.train),
            "valid" | "dev" => Ok(&self.valid),
            "test" => self
                .test
                .as_ref()
                .ok_or_else(|| Error::user("this text has no split called test; choose train or valid")),
            _ => Err(Error::user(format!(
                "there is no split called {name}; choose train, valid or test"
            ))),
        }
    }
}

/// The files of a split.
type Files = Vec<TextFile>;

fn of_paths(paths: Vec<PathBuf>) -> Files {
    paths.into_iter().map(TextFile::Path).collect()
}

/// The files of the splits `train`, `valid` and `test` that a path names.
fn files_in(path: &Path) -> Result<(Files, Option<Files>, Option<Files>)> {
    if !path.is_dir() {
        return Ok((of_paths(files_of(path)?), None, None));
    }
    let split = |name| find(path, name).map(|found| found.map(|file| of_paths(vec![file])));
    let (valid, test) = (split("valid")?, split("test")?);
    let train = match split("train")? {
        Some(train) => train,
        None if valid.is_none() && test.is_none() => of_paths(texts_in(path)?),
        None => return Err(no_text(path)),
    };
    Ok((train, valid, test))
}

/// The characters in a chunk of a file: its number among the files, its first byte, its characters.
type Counted = (usize, u64, usize);

/// Reads all of some files: the text that they are, and the characters of its chunks.
fn scan(files: &[TextFile]) -> Result<(TextSplit, Vec<Counted>)> {
    let (mut split, mut counted) = (TextSplit::default(), Vec::new());
    for (number, file) in files.iter().enumerate() {
        let size = file.size()?;
        let (mut start, mut at, mut has_text) = (0, 0, false);
        for chunk in TextChunks::open(file, 0..size)? {
            let chunk = chunk?;
            let text = match chunk.strip_prefix('\u{feff}') {
                Some(text) if at == 0 => text,
                _ => &chunk,
            };
            if at == 0 {
                start = (chunk.len() - text.len()) as u64;
                at = start;
            }
            counted.push((number, at, text.chars().count()));
            at += text.len() as u64;
            has_text |= !text.trim().is_empty();
        }
        if !has_text {
            return Err(empty(file.path()));
        }
        split.parts.push((file.clone(), start..at));
    }
    Ok((split, counted))
}

/// The beginning and the end of some files, which is the share `held_out` of their characters.
fn halves(files: &[TextFile], held_out: f64) -> Result<(TextSplit, TextSplit)> {
    let (whole, counted) = scan(files)?;
    let characters: usize = counted.iter().map(|(_, _, count)| count).sum();
    let kept = (characters as f64 * (1.0 - held_out)) as usize;
    if !(held_out > 0.0 && held_out < 1.0) || kept == 0 || kept == characters {
        return Err(Error::user(format!(
            "a validation share of {held_out} leaves no text on one side of the {characters} characters of {}; choose a share \
             between 0 and 1, such as 0.1",
            files[0].path().display()
        )));
    }
    let mut before = 0;
    let chunk = counted.iter().find(|(_, _, count)| {
        before += count;
        before > kept
    });
    let &(number, start, count) =
        chunk.ok_or_else(|| Error::internal("a text has more characters than were counted"))?;
    let (file, range) = &whole.parts[number];
    let text = TextChunks::open(file, start..range.end)?
        .next()
        .unwrap_or_else(|| Err(empty(file.path())))?;
    let skipped = kept - (before - count);
    let cut = start + text.char_indices().nth(skipped).map_or(text.len(), |(at, _)| at) as u64;
    let not_empty = |part: &(TextFile, Range<u64>)| !part.1.is_empty();
    let (mut first, mut last) = (whole.parts[..=number].to_vec(), whole.parts[number..].to_vec());
    (first[number].1.end, last[0].1.start) = (cut, cut);
    first.retain(not_empty);
    last.retain(not_empty);
    Ok((TextSplit { parts: first }, TextSplit { parts: last }))
}

/// All `.txt` files in a folder and its folders, by name; one at least.
fn texts_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for_each_file(dir, &mut |path| {
        if path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("txt"))
        {
            files.push(path);
        }
        Ok(())
    })?;
    if files.is_empty() { Err(no_text(dir)) } else { Ok(files) }
}

fn no_text(dir: &Path) -> Error {
    Error::user(format!(
        "there is no train.txt or NAME.train.txt in {}, nor only texts to take all of; add it, or name one text file",
        dir.display()
    ))
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

    fn text(split: &TextSplit) -> String {
        split.blocks().map(Result::unwrap).collect()
    }

    fn with_share(held_out: f64) -> TextOptions {
        TextOptions {
            held_out,
            ..TextOptions::default()
        }
    }

    #[test]
    fn one_file_is_split_by_characters() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.txt");
        fs::write(&path, "\u{feff}零一二三四五六七八九end").unwrap();
        let halves = |share| {
            let read = Text::read(&path, &with_share(share)).unwrap();
            (text(&read.train), text(&read.valid))
        };
        let expected = |train: &str, valid: &str| (train.to_string(), valid.to_string());
        // 13 characters, 11.7 of them before the cut.
        assert_eq!(halves(0.1), expected("零一二三四五六七八九e", "nd"));
        assert_eq!(halves(0.5), expected("零一二三四五", "六七八九end"));
        assert_eq!(halves(0.01).1, "d");
        for share in [0.0, 1.0, -0.5, f64::NAN, 0.99] {
            let error = Text::read(&path, &with_share(share)).unwrap_err().to_string();
            assert!(error.contains("leaves no text"), "{share}: {error}");
        }
        fs::write(&path, b"good\n\xff").unwrap();
        assert!(
            Text::read(&path, &with_share(0.1))
                .unwrap_err()
                .to_string()
                .contains("t.txt line 2 is not valid UTF-8")
        );
    }

    #[test]
    fn a_text_of_many_chunks_is_split_by_characters() {
        let dir = tempfile::tempdir().unwrap();
        let whole: String = (0..400_000).map(|i| format!("{i} 牛\n")).collect();
        fs::write(dir.path().join("t.txt"), &whole).unwrap();
        let characters = whole.chars().count();
        for share in [0.9, 0.5, 0.1] {
            let read = Text::read(&dir.path().join("t.txt"), &with_share(share)).unwrap();
            let kept = (characters as f64 * (1.0 - share)) as usize;
            assert_eq!(text(&read.train).chars().count(), kept);
            assert!(text(&read.train) + &text(&read.valid) == whole);
            assert_eq!(read.train.bytes() + read.valid.bytes(), whole.len() as u64);
        }
    }

    #[test]
    fn a_folder_has_its_own_split_or_is_one_text() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let read = || Text::read(dir.path(), &TextOptions::default());
        assert!(
            read()
                .unwrap_err()
                .to_string()
                .starts_with("there is no train.txt or NAME.train.txt in ")
        );
        write("b.txt", "0123456789");
        write("a/x.txt", "abcdefghij");
        write("a/.hidden.txt", "z");
        let all = read().unwrap();
        assert_eq!(
            (text(&all.train).as_str(), text(&all.valid).as_str()),
            ("abcdefghij01234567", "89")
        );
        let half = Text::read(dir.path(), &with_share(0.5)).unwrap();
        assert_eq!(
            (text(&half.train).as_str(), text(&half.valid).as_str()),
            ("abcdefghij", "0123456789")
        );

        write("ptb.train.txt", "to learn so");
        assert_eq!(
            text(&read().unwrap().valid),
            "so",
            "a share where there is no valid.txt"
        );
        write("ptb.valid.txt", "to check");
        let own = read().unwrap();
        assert_eq!(
            (
                text(own.split("train").unwrap()).as_str(),
                text(own.split("dev").unwrap()).as_str()
            ),
            ("to learn so", "to check")
        );
        assert!(
            own.split("test")
                .unwrap_err()
                .to_string()
                .contains("no split called test")
        );
        write("test.txt", "last");
        assert_eq!(text(read().unwrap().split("test").unwrap()), "last");
        let options = TextOptions {
            valid: Some(dir.path().join("?.txt")),
            ..TextOptions::default()
        };
        assert_eq!(text(&Text::read(dir.path(), &options).unwrap().valid), "0123456789");
        write("wiki.train.txt", "more");
        assert!(read().unwrap_err().to_string().contains("both a train split"));
    }
}
