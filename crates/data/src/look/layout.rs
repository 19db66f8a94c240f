//! What lies at a path: rows of files, folders of classes, images, sentences with labels, questions, or plain text.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use lessen_base::Result;
use serde::Serialize;

use crate::files::unreadable;
use crate::folders::{for_each_file, listed};
use crate::lines::Lines;
use crate::places::{Places, files_of};
use crate::rows::Place;

/// Lines of a text file by which its format is told.
const LINES: usize = 500;

/// Bytes of a JSON file by which its format is told.
const HEAD: u64 = 4096;

/// How data is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileLayout {
    /// Files with a row in each line, or in each row of Parquet.
    Rows,
    /// Folders of texts, one folder for each class.
    ClassFolders,
    /// Images of any format.
    Images,
    /// Plain text.
    Text,
    /// Sentences whose words have labels.
    Tagged,
    /// Questions in JSON as SQuAD has them.
    Questions,
}

impl FileLayout {
    /// The layout in words.
    pub fn words(self) -> &'static str {
        match self {
            FileLayout::Rows => "rows",
            FileLayout::ClassFolders => "a folder of texts for each class",
            FileLayout::Images => "images",
            FileLayout::Text => "plain text",
            FileLayout::Tagged => "sentences with labelled words",
            FileLayout::Questions => "questions about texts",
        }
    }
}

/// The layout at a path.
///
/// # Errors
/// Nothing at the path, and what cannot be read.
pub(super) fn layout_of(path: &Path) -> Result<FileLayout> {
    if !path.is_dir() {
        let files = files_of(path)?;
        return if is_array(&files[0]) {
            Ok(FileLayout::Images)
        } else {
            of_file(&files[0])
        };
    }
    let own = listed(path)?;
    if own.iter().any(|file| file.is_file() && is_array(file)) {
        return Ok(FileLayout::Images);
    }
    let train = own.iter().find(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        file.is_file() && name.starts_with("train") && has_ending(file, &["conll", "json", "txt", "jsonl"])
    });
    if let Some(train) = train {
        let layout = of_file(train)?;
        if layout != FileLayout::Rows {
            return Ok(layout);
        }
    }
    match Places::of(path) {
        Ok(places) if matches!(places.train, Place::Texts(_)) => Ok(FileLayout::ClassFolders),
        Ok(_) => Ok(FileLayout::Rows),
        Err(_) if first_with(path, &["png", "jpg", "jpeg"])? => Ok(FileLayout::Images),
        Err(_) if own.iter().any(|file| file.is_file() && has_ending(file, &["txt"])) => Ok(FileLayout::Text),
        Err(error) => Err(error),
    }
}

/// The layout of a file that is no array.
fn of_file(path: &Path) -> Result<FileLayout> {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    match &ending[..] {
        "conll" => Ok(FileLayout::Tagged),
        "json" | "jsonl" | "ndjson" => of_json(path),
        "txt" | "md" => of_text(path),
        _ => Ok(FileLayout::Rows),
    }
}

/// Whether a file is one of arrays of images by its name.
fn is_array(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_idx = name.contains("idx") && (name.contains("ubyte") || name.ends_with(".gz"));
    is_idx || has_ending(path, &["npz", "npy", "bin"])
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    endings.contains(&&ending[..])
}

/// Whether a folder, or one in it, has a file with one of these endings.
fn first_with(path: &Path, endings: &[&str]) -> Result<bool> {
    let mut found = false;
    for_each_file(path, &mut |file: PathBuf| {
        found |= has_ending(&file, endings);
        Ok(())
    })?;
    Ok(found)
}

/// Questions, sentences or rows, by the fields at the start of a file.
fn of_json(path: &Path) -> Result<FileLayout> {
    let mut head = Vec::new();
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    file.take(HEAD)
        .read_to_end(&mut head)
        .map_err(|error| unreadable(path, &error))?;
    let head = String::from_utf8_lossy(&head);
    let has = |field: &str| head.contains(&format!("\"{field}\""));
    let has_list = |field: &str| {
        let rest = head
            .split_once(&format!("\"{field}\""))
            .map(|(_, rest)| rest.trim_start());
        rest.and_then(|rest| rest.strip_prefix(':'))
            .is_some_and(|rest| rest.trim_start().starts_with('['))
    };
    Ok(match () {
        () if has("paragraphs") || (has("data") && has("version")) => FileLayout::Questions,
        () if has_list("tokens") && has_list("labels") => FileLayout::Tagged,
        () => FileLayout::Rows,
    })
}

/// Lines of a text and a label, words with labels, or plain text, by the first lines of a file.
fn of_text(path: &Path) -> Result<FileLayout> {
    let (mut lines, mut tabbed, mut blank, mut words, mut tagged) = (0usize, 0usize, 0usize, 0usize, 0usize);
    for line in Lines::open(path)?.take(LINES) {
        let (_, line) = line?;
        if line.trim().is_empty() {
            blank += 1;
            continue;
        }
        lines += 1;
        tabbed += usize::from(line.contains('\t'));
        let columns: Vec<&str> = line.split_whitespace().collect();
        words += usize::from((2..=4).contains(&columns.len()) || line.starts_with("-DOCSTART-"));
        tagged += usize::from(columns.len() > 1 && columns.last().is_some_and(|label| is_tag(label)));
    }
    let most = |count: usize| count > 0 && count * 20 >= lines * 19;
    Ok(if most(words) && (most(tagged) || (blank > 0 && most(tabbed))) {
        FileLayout::Tagged
    } else if most(tabbed) {
        FileLayout::Rows
    } else {
        FileLayout::Text
    })
}

/// Whether a word is a label of a word as names in texts have it.
fn is_tag(label: &str) -> bool {
    let begins = |mark: &char| "BIESLU".contains(*mark);
    label == "O" || (label.len() > 2 && label[1..].starts_with('-') && label.chars().next().is_some_and(|c| begins(&c)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn layout(files: &[(&str, &str)], name: &str) -> FileLayout {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        layout_of(&dir.path().join(name)).unwrap()
    }

    #[test]
    fn files_are_told_by_name_and_first_lines() {
        for (name, text, expected) in [
            ("a.csv", "text,label\na,b\n", FileLayout::Rows),
            ("a.txt", "good film\tpos\nbad\tneg\n", FileLayout::Rows),
            ("a.txt", "To be, or not to be\nthat is the question\n", FileLayout::Text),
            ("a.txt", "Ann\tB-PER\nruns\tO\n\nBob\tB-PER\n", FileLayout::Tagged),
            ("a.txt", "Ann NNP B-PER\nruns VBZ O\n\n", FileLayout::Tagged),
            (
                "a.jsonl",
                "{\"tokens\": [\"a\"], \"labels\": [\"O\"]}\n",
                FileLayout::Tagged,
            ),
            (
                "a.jsonl",
                "{\"text\": \"tokens\", \"labels\": [\"O\"]}\n",
                FileLayout::Rows,
            ),
            ("a.json", "{\"version\": \"2.0\", \"data\": []}", FileLayout::Questions),
            ("x-idx3-ubyte.gz", "", FileLayout::Images),
            ("a.npz", "", FileLayout::Images),
        ] {
            assert_eq!(layout(&[(name, text)], name), expected, "{name} {text}");
        }
    }

    #[test]
    fn folders_are_told_by_what_they_hold() {
        assert_eq!(layout(&[("train.csv", "a"), ("dev.csv", "a")], ""), FileLayout::Rows);
        assert_eq!(
            layout(&[("train.txt", "To be or not"), ("valid.txt", "a")], ""),
            FileLayout::Text
        );
        assert_eq!(
            layout(&[("train.txt", "a b\tx\n"), ("dev.txt", "c\ty\n")], ""),
            FileLayout::Rows
        );
        assert_eq!(
            layout(&[("pos/1.txt", "a"), ("neg/1.txt", "b")], ""),
            FileLayout::ClassFolders
        );
        assert_eq!(layout(&[("cat/1.png", ""), ("dog/1.JPG", "")], ""), FileLayout::Images);
        assert_eq!(
            layout(&[("train-v2.0.json", "{\"data\": [{\"paragraphs\"")], ""),
            FileLayout::Questions
        );
        assert_eq!(
            layout(&[("train.conll", "a O\n"), ("dev.conll", "a O\n")], ""),
            FileLayout::Tagged
        );
        assert_eq!(
            layout(&[("hamlet.txt", "To be"), ("lear.txt", "Nothing")], ""),
            FileLayout::Text
        );
    }
}
