//! From the path of labelled texts to the files of their splits.

use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use crate::folders::{for_each_file, in_folder, listed};
use crate::rows::{EXTENSIONS, Place};
use crate::splits::DataPlace;
use crate::table_in_memory::TableInMemory;

/// Names of the split of evaluations in a folder.
pub(crate) const DEV: [&str; 4] = ["dev", "valid", "validation", "val"];

/// The folder of the files of a dataset.
const DATA: &str = "data";

/// Places of the splits of labelled texts, or of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Places {
    pub(crate) train: Place,
    pub(crate) dev: Option<Place>,
    pub(crate) test: Option<Place>,
    /// The file with the names of classes.
    pub(crate) names: Option<PathBuf>,
    /// The names of classes that are given beside data in memory.
    pub(crate) classes: Option<Vec<String>>,
}

impl Places {
    /// The places in a file, in files whose paths match a pattern, or in a folder.
    ///
    /// # Errors
    /// Nothing there; a folder without a training split, or with several files of a split.
    pub(crate) fn of(path: &Path) -> Result<Places> {
        if !path.is_dir() {
            return Ok(Places {
                train: Place::Files(files_of(path)?),
                dev: None,
                test: None,
                names: None,
                classes: None,
            });
        }
        let names = Some(path.join("class.txt")).filter(|names| names.exists());
        let (train, dev) = (split(path, "train")?, first_split(path, &DEV)?);
        let test = split(path, "test")?;
        // As datasets lie on the Hub.
        let inner = path.join(DATA);
        if train.is_none() && matches!(split(&inner, "train"), Ok(Some(Place::Files(_)))) {
            return Places::of(&inner);
        }
        Ok(Places {
            train: match train {
                Some(train) => train,
                None => classes(path)?.ok_or_else(|| nothing_in(path))?,
            },
            dev,
            test,
            names,
            classes: None,
        })
    }

    /// The places in files or in memory.
    ///
    /// # Errors
    /// As [`Places::of`].
    pub(crate) fn at(place: DataPlace<'_, TableInMemory>) -> Result<Places> {
        let splits = match place {
            DataPlace::Path(path) => return Places::of(path),
            DataPlace::InMemory(splits) => splits,
        };
        let (train, dev, test) = splits.named(|table, name| Place::InMemory(table.clone(), name));
        Ok(Places {
            train,
            dev,
            test,
            names: None,
            classes: splits.classes.clone(),
        })
    }
}

/// The files that a path or pattern stands for, by name; one at least.
///
/// # Errors
/// None; a pattern that is not valid.
pub fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    let shown = path.display();
    if path.exists() {
        return Ok(vec![path.to_path_buf()]);
    }
    if !is_pattern(path) {
        return Err(Error::user(format!(
            "there is no file or folder {shown}; check the path"
        )));
    }
    let invalid = |reason: &str| Error::user(format!("{shown} is no valid pattern for files ({reason}); correct it"));
    let found = glob::glob(&path.to_string_lossy()).map_err(|error| invalid(error.msg))?;
    let mut files: Vec<PathBuf> = found
        .filter_map(std::result::Result::ok)
        .filter(|file| file.is_file())
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(Error::user(format!("no file matches {shown}; check the pattern")));
    }
    Ok(files)
}

/// Whether a path is a pattern with `*`, `?` or `[...]` that several files can match.
pub fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '[']) && !path.exists()
}

/// The first of several names for a split that a folder has.
fn first_split(dir: &Path, names: &[&str]) -> Result<Option<Place>> {
    names.iter().find_map(|name| split(dir, name).transpose()).transpose()
}

/// Whether a folder has the name of a split and is one: it holds folders. A folder of that name with files alone is a
/// class like others, such as the trains among vehicles.
pub(crate) fn is_split(dir: &Path) -> Result<bool> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let mut names = DEV.iter().chain(&["train", "test"]);
    Ok(names.any(|split| *split == name) && listed(dir)?.iter().any(|path| path.is_dir()))
}

/// The folders of classes in a folder; folders of splits are none.
///
/// # Errors
/// A folder that cannot be read, and a link to a folder that it lies in.
pub(crate) fn class_folders(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut classes = Vec::new();
    for folder in in_folder(dir)? {
        if !is_split(&folder)? {
            classes.push(folder);
        }
    }
    Ok(classes)
}

/// The name of a class, that of its folder.
///
/// # Errors
/// A name that is no text, or that takes several lines: names of classes are listed one to a line.
pub(crate) fn class_name(folder: &Path) -> Result<String> {
    let name = folder.file_name().unwrap_or_default();
    let refused = |what: &str| {
        Error::user(format!(
            "the name of the folder {} {what}, so that it cannot name a class; give it another one",
            folder.display().to_string().escape_debug()
        ))
    };
    match name.to_str() {
        None => Err(refused("is not valid UTF-8")),
        Some(name) if name.contains(['\n', '\r']) => Err(refused("has a line end")),
        Some(name) if name.trim() != name => Err(refused("begins or ends with white space")),
        Some(name) => Ok(name.to_string()),
    }
}

/// The files of a split: `SPLIT.EXTENSION`, or else the parts `SPLIT-*.EXTENSION`, or else what is in the folder
/// `SPLIT`.
fn split(dir: &Path, name: &str) -> Result<Option<Place>> {
    let plain = EXTENSIONS.map(|extension| dir.join(format!("{name}.{extension}")));
    let mut found: Vec<Vec<PathBuf>> = plain
        .into_iter()
        .filter(|file| file.is_file())
        .map(|file| vec![file])
        .collect();
    if found.is_empty() {
        for extension in EXTENSIONS {
            let (start, end) = (format!("{name}-"), format!(".{extension}"));
            let parts = listed(dir)?.into_iter().filter(|file| {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(&start) && name.ends_with(&end) && file.is_file()
            });
            found.extend(Some(parts.collect::<Vec<_>>()).filter(|parts| !parts.is_empty()));
        }
    }
    if let [first, second, ..] = &found[..] {
        return Err(Error::user(format!(
            "{} and {} are both a {name} split; keep one of them in the folder",
            first[0].display(),
            second[0].display()
        )));
    }
    let inner = dir.join(name);
    match found.pop() {
        Some(files) => Ok(Some(Place::Files(files))),
        None if inner.is_dir() && is_split(&inner)? => Ok(Some(classes(&inner)?.ok_or_else(|| nothing_in(&inner))?)),
        None => Ok(None),
    }
}

/// The texts in the folders of a folder, one for each class, and in folders within them; none where there are no texts.
///
/// # Errors
/// A folder without texts beside folders with texts, and what cannot be read.
fn classes(dir: &Path) -> Result<Option<Place>> {
    let (mut texts, mut empty) = (Vec::new(), None);
    for class in class_folders(dir)? {
        let name = class_name(&class)?;
        let before = texts.len();
        for_each_file(&class, &mut |file| {
            if file
                .extension()
                .is_some_and(|extension| extension.eq_ignore_ascii_case("txt"))
            {
                texts.push((file, name.clone()));
            }
            Ok(())
        })?;
        if texts.len() == before {
            empty.get_or_insert(class);
        }
    }
    match empty {
        _ if texts.is_empty() => Ok(None),
        Some(class) => Err(Error::user(format!(
            "{} has no .txt file; add some, or take the folder away",
            class.display()
        ))),
        None => Ok(Some(Place::Texts(texts))),
    }
}

fn nothing_in(dir: &Path) -> Error {
    Error::user(format!(
        "there is no train.txt, train.csv, train.tsv, train.jsonl or train.parquet in {}, nor a folder of .txt files for each class; add one \
         (`lessen recipes --data` shows the formats), or name one file",
        dir.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x\ty\n").unwrap();
        }
        dir
    }

    fn names(dir: &Path, place: &Place) -> Vec<String> {
        let shown = |path: &PathBuf| path.strip_prefix(dir).unwrap().display().to_string();
        match place {
            Place::Files(files) => files.iter().map(shown).collect(),
            Place::Texts(texts) => texts
                .iter()
                .map(|(path, class)| format!("{} {class}", shown(path)))
                .collect(),
            Place::Glue(..) | Place::InMemory(..) => panic!("{place:?}"),
        }
    }

    #[test]
    fn a_folder_has_splits_in_files_in_parts_or_in_folders_of_classes() {
        let dir = folder(&["train.csv", "validation.jsonl", "test.tsv", "class.txt", "other.txt"]);
        let places = Places::of(dir.path()).unwrap();
        assert_eq!(names(dir.path(), &places.train), ["train.csv"]);
        assert_eq!(names(dir.path(), &places.dev.unwrap()), ["validation.jsonl"]);
        assert_eq!(names(dir.path(), &places.test.unwrap()), ["test.tsv"]);
        assert_eq!(places.names, Some(dir.path().join("class.txt")));

        let dir = folder(&["train-1.csv", "train-0.csv", ".train-9.csv", "trainer.csv"]);
        let places = Places::of(dir.path()).unwrap();
        assert_eq!(names(dir.path(), &places.train), ["train-0.csv", "train-1.csv"]);
        assert_eq!((places.dev, places.test, places.names), (None, None, None));

        let dir = folder(&[
            "train/pos/b.txt",
            "train/neg/a.txt",
            "train/pos/notes.md",
            "test/neg/c.txt",
        ]);
        let places = Places::of(dir.path()).unwrap();
        assert_eq!(
            names(dir.path(), &places.train),
            ["train/neg/a.txt neg", "train/pos/b.txt pos"]
        );
        assert_eq!(names(dir.path(), &places.test.unwrap()), ["test/neg/c.txt neg"]);

        let dir = folder(&["sports/1.txt", "games/1.txt"]);
        let places = Places::of(dir.path()).unwrap();
        assert_eq!(
            names(dir.path(), &places.train),
            ["games/1.txt games", "sports/1.txt sports"]
        );
    }

    #[test]
    fn a_folder_with_the_name_of_a_split_is_one_where_it_holds_folders() {
        let of = |files: &[&str]| {
            let dir = folder(files);
            let places = Places::of(dir.path()).unwrap();
            let shown = |place: Option<&Place>| place.map(|place| names(dir.path(), place).join(", "));
            let all = [Some(&places.train), places.dev.as_ref(), places.test.as_ref()].map(shown);
            all.map(Option::unwrap_or_default)
        };
        assert_eq!(
            of(&["bus/1.txt", "car/2.txt", "train/3.txt"]),
            ["bus/1.txt bus, car/2.txt car, train/3.txt train", "", ""]
        );
        // Beside classes, folders of splits stay splits.
        assert_eq!(
            of(&["bus/1.txt", "train/2.txt", "test/bus/3.txt", "val/train/4.TXT"]),
            [
                "bus/1.txt bus, train/2.txt train",
                "val/train/4.TXT train",
                "test/bus/3.txt bus"
            ]
        );
        // Texts lie at any depth, and each folder has some.
        assert_eq!(
            of(&["bus/deep/1.txt", "car/2.txt"])[0],
            "bus/deep/1.txt bus, car/2.txt car"
        );
        let empty = Places::of(folder(&["bus/1.txt", "car/2.md"]).path())
            .unwrap_err()
            .to_string();
        assert!(
            empty.ends_with("/car has no .txt file; add some, or take the folder away"),
            "{empty}"
        );
        for split in ["dev", "valid", "validation", "val", "test"] {
            let class = format!("{split}/1.txt");
            assert_eq!(of(&["zoo/2.txt", &class])[1..], ["", ""], "{split}");
            assert_eq!(of(&["zoo/2.txt", &class])[0], format!("{class} {split}, zoo/2.txt zoo"));
            let within = format!("train/{split}/1.txt");
            assert_eq!(of(&["train/zoo/2.txt", &within])[1..], ["", ""], "{split}");
        }
    }

    #[test]
    fn a_pattern_stands_for_files_by_name() {
        let dir = folder(&["b-2.csv", "b-1.csv", "c.csv"]);
        let places = Places::of(&dir.path().join("b-*.csv")).unwrap();
        assert_eq!(names(dir.path(), &places.train), ["b-1.csv", "b-2.csv"]);
        let refused = |name: &str| Places::of(&dir.path().join(name)).unwrap_err().to_string();
        assert!(refused("d*.csv").ends_with("d*.csv; check the pattern"));
        assert!(refused("d.csv").starts_with("there is no file or folder "));
        assert!(refused("***").contains("is no valid pattern for files ("));
    }

    #[test]
    fn a_folder_without_texts_or_with_two_of_a_split_is_refused() {
        let refused = |files: &[&str]| {
            let dir = folder(files);
            let sentence = Places::of(dir.path()).unwrap_err().to_string();
            sentence.replace(&format!("{}/", dir.path().display()), "")
        };
        assert!(
            refused(&["a.txt"])
                .starts_with("there is no train.txt, train.csv, train.tsv, train.jsonl or train.parquet in ")
        );
        assert_eq!(
            refused(&["train.csv", "train.txt"]),
            "train.txt and train.csv are both a train split; keep one of them in the folder"
        );
        assert_eq!(
            refused(&["train.txt", "dev-1.csv", "dev-1.tsv"]),
            "dev-1.csv and dev-1.tsv are both a dev split; keep one of them in the folder"
        );
    }
}
