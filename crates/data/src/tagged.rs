//! Sentences whose words have labels, such as the names in a text.
//!
//! A folder has `train.txt` and `dev.txt`, and optionally `test.txt` (or `.conll`), with a word, a tab and its label in
//! each line and a blank line after each sentence; of more columns the first is the word and the last the label, and
//! spaces may stand for tabs. Or it has `train.jsonl`, `dev.jsonl` and `test.jsonl` with an object in each line, the
//! words in `tokens` and their labels in `labels`. The optional `class.txt` holds the names of labels, one per line;
//! without it they are those of the training sentences, `O` first.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::classes::Classes;
use crate::files::line_word;
use crate::sentences::Numbers;
use crate::splits::{DataPlace, Splits, split_of};
use crate::written_sentences::SentenceFile;

pub use crate::sentences::{Sentence, Sentences};
pub use crate::written_sentences::{TaggedWords, split_words, words_of};

/// The label of words that belong to nothing.
const OUTSIDE: &str = "O";

/// Endings of files, in order of precedence.
const ENDINGS: [&str; 3] = ["txt", "conll", "jsonl"];

/// Sentences with labels: the splits, and the names of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Tagged {
    /// The training split.
    pub train: Sentences,
    /// The development split.
    pub dev: Sentences,
    /// Whether the development split is all of the data, as it has none of its own.
    pub is_whole: bool,
    /// The test split, if the folder has one.
    pub test: Option<Sentences>,
    /// The names of labels, in the order of their numbers.
    pub names: Vec<String>,
    /// What there is to say of how it was read, a sentence each.
    pub remarks: Vec<String>,
}

impl Tagged {
    /// Returns the split `train`, `dev` or `test`.
    ///
    /// # Errors
    /// An unknown name, or `test` without a test split.
    pub fn split(&self, name: &str) -> Result<&Sentences> {
        split_of(name, [&self.train, &self.dev], self.test.as_ref())
    }
}

/// How tagged sentences are to be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Whether all sentences are the split `dev` where there is none. Otherwise it is needed.
    pub whole: bool,
    /// The classes of the model that the data is for, in order; `class.txt` goes before them.
    pub classes: Option<Vec<String>>,
}

/// Reads a folder, or with [`Options::whole`] a file.
///
/// # Errors
/// A missing, empty or damaged file; a word without a label; a label that is no class of `class.txt`, of the model or
/// of the training split. The message names file and line.
pub fn read(path: &Path, options: &Options) -> Result<Tagged> {
    read_from(DataPlace::Path(path), options)
}

/// Reads what [`read`] reads, or sentences in memory, which need a split `dev` as a folder does.
///
/// # Errors
/// As [`read`].
pub fn read_from(place: DataPlace<'_, Arc<[TaggedWords]>>, options: &Options) -> Result<Tagged> {
    let Files {
        train,
        dev,
        test,
        classes,
    } = match place {
        DataPlace::Path(path) => Files::of(path, options.whole)?,
        DataPlace::InMemory(splits) => Files::in_memory(splits, options.whole)?,
    };
    let is_whole = dev.is_none();
    let dev = dev.unwrap_or_else(|| train.clone());
    let classes = match (classes, &options.classes) {
        (Some(listed), _) => listed,
        (None, Some(names)) => Classes::of_model(names.clone()),
        (None, None) => Classes::of_file(names_of(&train)?, train.path(), false)?.of_names(),
    };
    let mut remarks = Vec::new();
    let mut count = |file: &SentenceFile| -> Result<usize> {
        let (mut count, mut empty, mut numbered) = (0, Vec::new(), 0);
        let (path, line) = (file.path(), line_word(file.path()));
        for sentence in file.all()? {
            let sentence = sentence?;
            let place = || format!("{}: the sentence of {line} {}", path.display(), sentence.line);
            for label in &sentence.labels {
                classes.number(label, &place)?;
            }
            match sentence.words.len() {
                0 => empty.push(sentence.line),
                _ => count += 1,
            }
            numbered += usize::from(sentence.words.len() > 1 && are_numbered(&sentence.words));
        }
        // A sentence may count, but not all of them.
        if numbered > 1 && numbered == count {
            return Err(Error::user(format!(
                "{} has the numbers of words in its first column, as CoNLL-U has; write the words there, and their labels in \
                 the last column",
                path.display()
            )));
        }
        if count == 0 {
            return Err(Error::user(format!("{} has no sentences; add some", path.display())));
        }
        if let Some(first) = empty.first() {
            let are = if empty.len() == 1 {
                "sentence is"
            } else {
                "sentences are"
            };
            remarks.push(format!(
                "{} {are} without a word and left out of {}, such as that of {line} {first}",
                empty.len(),
                path.display()
            ));
        }
        Ok(count)
    };
    let of_train = count(&train)?;
    let of_dev = if is_whole { of_train } else { count(&dev)? };
    let of_test = test.as_ref().map(count).transpose()?;
    remarks.extend(classes.remark());
    let names = classes.names().to_vec();
    let numbers = Arc::new(Numbers {
        of: classes.into_numbers(),
        classes: names.len(),
    });
    let split = |file, count| Sentences::of_file(file, count, numbers.clone());
    Ok(Tagged {
        train: split(train, of_train),
        dev: split(dev, of_dev),
        is_whole,
        test: test.zip(of_test).map(|(file, count)| split(file, count)),
        names,
        remarks,
    })
}

/// Whether words are their own numbers from 1 on; CoNLL-U puts those of joined words (`3-4`) and left out ones (`5.1`)
/// between.
fn are_numbered(words: &[String]) -> bool {
    let mut whole = words.iter().filter(|word| !word.contains(['-', '.'])).zip(1..);
    whole.all(|(word, number): (&String, u32)| *word == number.to_string())
}

/// The files of the splits.
struct Files {
    train: SentenceFile,
    /// None where the training split is evaluated as a whole.
    dev: Option<SentenceFile>,
    test: Option<SentenceFile>,
    /// The classes that are listed beside them.
    classes: Option<Classes>,
}

impl Files {
    /// The files of a folder or, if all of it is evaluated, a file.
    fn of(path: &Path, is_whole: bool) -> Result<Files> {
        let found = |split: &str| file(path, split).map(SentenceFile::Path);
        let needed = |split: &str| {
            found(split).ok_or_else(|| {
                Error::user(format!(
                    "there is no {split}.txt, {split}.conll or {split}.jsonl in {}; add the file",
                    path.display()
                ))
            })
        };
        let train = if path.is_dir() {
            needed("train")?
        } else {
            SentenceFile::Path(path.to_path_buf())
        };
        let dev = if is_whole { found("dev") } else { Some(needed("dev")?) };
        let listed = Some(path.join("class.txt")).filter(|listed| listed.exists());
        Ok(Files {
            train,
            dev,
            test: found("test"),
            classes: Classes::listed(&listed, &None, false)?,
        })
    }

    fn in_memory(splits: &Splits<Arc<[TaggedWords]>>, is_whole: bool) -> Result<Files> {
        let (train, dev, test) = splits.named(|words, name| SentenceFile::InMemory(words.clone(), name));
        if dev.is_none() && !is_whole {
            return Err(Error::user(format!(
                "there are no sentences for validation beside {}; give some",
                train.path().display()
            )));
        }
        Ok(Files {
            train,
            dev,
            test,
            classes: Classes::listed(&None, &splits.classes, false)?,
        })
    }
}

/// The labels of the sentences in a file: `O` first, the others in order.
fn names_of(file: &SentenceFile) -> Result<Vec<String>> {
    let mut names = BTreeSet::new();
    for sentence in file.with_words()? {
        names.extend(sentence?.labels);
    }
    let outside = names.take(OUTSIDE);
    Ok(outside.into_iter().chain(names).collect())
}

fn file(dir: &Path, split: &str) -> Option<PathBuf> {
    let paths = ENDINGS.map(|ending| dir.join(format!("{split}.{ending}")));
    paths.into_iter().find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    fn folder(files: &[(&str, &str)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    const TRAIN: &str = "-DOCSTART- -X- O O\n\nAda\tB-PER\nLovelace\tI-PER\nwrote\tO\n\n\nRome NNP B-LOC\nfell VBD O\n";

    #[test]
    fn sentences_are_read_from_columns_and_from_json() {
        let json = "{\"tokens\": [\"Ada\", 5], \"labels\": [\"B-PER\", \"O\"]}\n";
        let dir = folder(&[("train.conll", TRAIN), ("dev.jsonl", json)]);
        let data = read(dir.path(), &Options::default()).unwrap();
        assert_eq!(data.names, ["O", "B-LOC", "B-PER", "I-PER"]);
        let of = |split: &str| -> Vec<(String, Vec<i32>)> {
            let all = data.split(split).unwrap().iter().map(Result::unwrap);
            all.map(|sentence| (sentence.words.join(" "), sentence.labels))
                .collect()
        };
        let expected = [("Ada Lovelace wrote", vec![2, 3, 0]), ("Rome fell", vec![1, 0])];
        assert_eq!(of("train"), expected.map(|(words, labels)| (words.to_string(), labels)));
        assert_eq!(of("dev"), [("Ada 5".to_string(), vec![2, 0])]);
        assert_eq!((data.train.len(), data.dev.len()), (2, 1));
        assert!(
            data.split("test")
                .unwrap_err()
                .to_string()
                .ends_with("no split called test; choose one of train, dev")
        );
    }

    #[test]
    fn every_mistake_names_file_and_line() {
        let message = |files: &[(&str, &str)]| {
            let dir = folder(files);
            let message = read(dir.path(), &Options::default()).unwrap_err().to_string();
            message.replace(&format!("{}/", dir.path().display()), "")
        };
        assert!(message(&[("dev.txt", TRAIN)]).starts_with("there is no train.txt, train.conll or train.jsonl in "));
        assert_eq!(
            message(&[("train.txt", "Ada\tO\nb\n"), ("dev.txt", TRAIN)]),
            "train.txt line 2 has no label; write a word, a tab and its label, and a blank line between sentences"
        );
        assert_eq!(
            message(&[("train.txt", TRAIN), ("dev.txt", "\nAda\tB-ORG\n")]),
            "dev.txt: the sentence of line 2 has the label 'B-ORG', but the 4 classes of train.txt are O, B-LOC, B-PER, \
             I-PER; use one of these"
        );
        let json = "{\"tokens\": [\"a\"], \"labels\": []}";
        assert!(
            message(&[("train.txt", TRAIN), ("dev.jsonl", json)])
                .starts_with("dev.jsonl line 1 has 1 words in `tokens` but 0 labels")
        );
        assert!(message(&[("train.txt", "a O\n"), ("dev.txt", "a O\n")]).starts_with("train.txt has only one class"));
        let numbered = "1\tAda\tO\n2\tran\tO\n\n1-2\tIm\tO\n1\tin\tO\n2\tdem\tX\n\n";
        assert_eq!(
            message(&[("train.conll", numbered), ("dev.txt", TRAIN)]),
            "train.conll has the numbers of words in its first column, as CoNLL-U has; write the words there, and their \
             labels in the last column"
        );
        assert!(
            message(&[("train.txt", "-DOCSTART- -X- O O\n\n"), ("dev.txt", TRAIN)])
                .contains("train.txt has no sentences")
        );
    }

    #[test]
    fn a_label_is_looked_up_in_the_classes_of_a_model() {
        let json = |labels: [&str; 2]| {
            format!(
                "{{\"tokens\": [\"Ada\", \"ran\"], \"ner_tags\": [{}, {}]}}\n",
                labels[0], labels[1]
            )
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let of = |labels, classes: &[&str]| {
            fs::write(&path, json(labels)).unwrap();
            let classes = classes.iter().map(|class| class.to_string()).collect();
            let whole = Options {
                whole: true,
                classes: Some(classes),
            };
            let data = read(&path, &whole).map_err(|error| error.to_string())?;
            let labels = data.dev.iter().next().unwrap().unwrap().labels;
            Ok::<_, String>((labels, data.is_whole, data.remarks.len()))
        };
        assert_eq!(of(["\"B-PER\"", "\"O\""], &["O", "B-PER"]), Ok((vec![1, 0], true, 0)));
        // Numbers, where no label is a name.
        assert_eq!(of(["1", "0"], &["O", "B-PER"]), Ok((vec![1, 0], true, 1)));
        assert_eq!(of(["1", "2"], &["0", "1", "2"]), Ok((vec![1, 2], true, 0)));
        for (labels, classes, wrong) in [
            (["1", "\"O\""], &["O", "B-PER"][..], "'1'"),
            (["\"O\"", "1"], &["O", "B-PER"], "'1'"),
            (["0", "1"], &["1", "2"], "'0'"),
            (["1", "2"], &["O", "B-PER"], "'2'"),
            (["1", "01"], &["O", "B-PER"], " is no object"),
            (["\"01\"", "1"], &["O", "B-PER"], "'01'"),
        ] {
            let error = of(labels, classes).unwrap_err();
            assert!(error.contains("a.jsonl") && error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn a_file_is_read_whole_and_what_is_left_out_is_counted() {
        let dir = folder(&[("a.conll", TRAIN), ("b/train.jsonl", "")]);
        let whole = Options {
            whole: true,
            classes: None,
        };
        let data = read(&dir.path().join("a.conll"), &whole).unwrap();
        assert_eq!((data.dev.len(), data.is_whole, data.remarks.len()), (2, true, 0));
        assert!(data.split("test").is_err());
        let empty = "{\"tokens\": [], \"labels\": []}\n";
        let text = format!("{empty}{{\"tokens\": [\"Ada\", \"ran\"], \"labels\": [\"B-PER\", \"O\"]}}\n{empty}");
        fs::write(dir.path().join("b/train.jsonl"), &text).unwrap();
        let refused = read(&dir.path().join("b"), &Options::default())
            .unwrap_err()
            .to_string();
        assert!(
            refused.starts_with("there is no dev.txt, dev.conll or dev.jsonl in "),
            "{refused}"
        );
        let data = read(&dir.path().join("b"), &whole).unwrap();
        assert_eq!((data.train.len(), data.dev.len(), data.is_whole), (1, 1, true));
        assert!(
            data.remarks[0].starts_with("2 sentences are without a word and left out of ")
                && data.remarks[0].ends_with("b/train.jsonl, such as that of line 1"),
            "{:?}",
            data.remarks
        );
        assert_eq!(data.dev.iter().map(Result::unwrap).count(), 1);
    }

    #[test]
    fn words_are_read_without_labels_too() {
        let dir = folder(&[
            ("a.conll", "Ada\nwrote\n\n-DOCSTART- O\nRome\tO\n"),
            ("b.jsonl", "{\"text\": \" Ada  wrote\"}\n\n{\"tokens\": [\"Rome\"]}\n"),
            ("c.jsonl", "{\"words\": []}\n"),
        ]);
        let words = |name: &str| words_of(&dir.path().join(name)).unwrap().collect::<Result<Vec<_>>>();
        for name in ["a.conll", "b.jsonl"] {
            assert_eq!(words(name).unwrap(), [vec!["Ada", "wrote"], vec!["Rome"]]);
        }
        let error = words("c.jsonl").unwrap_err().to_string();
        assert!(error.ends_with("c.jsonl line 1 is no object with words in `tokens` or a `text`; correct it"));
    }

    #[test]
    fn a_file_that_changes_after_it_was_counted_is_told() {
        let dir = folder(&[("train.txt", TRAIN), ("dev.txt", TRAIN)]);
        let data = read(dir.path(), &Options::default()).unwrap();
        fs::write(dir.path().join("dev.txt"), "Ada\tB-PER\n").unwrap();
        let error = data.dev.iter().collect::<Result<Vec<_>>>().unwrap_err().to_string();
        assert!(error.contains("dev.txt has changed while it was read"), "{error}");
    }
}
