//! Folders of `text<TAB>label` files.
//!
//! `train.txt`, `dev.txt` and optionally `test.txt` hold a text, a tab and a class number per line. The optional
//! `class.txt` holds the class names, one per line, in the order of their numbers.

use std::path::Path;

use lessen_base::{Error, Result};

use crate::examples::{Dataset, Examples, LabelKind, Labels};
use crate::files::{numbered_lines, quoted, read_text};
use crate::metrics::Metric;

/// The number of classes, and the file that determines it.
struct Known<'a> {
    classes: usize,
    source: &'a Path,
}

/// Reads a folder. The number of classes is the number of lines of `class.txt`, or else the largest label of
/// `train.txt` plus one.
///
/// # Errors
/// A missing, empty or damaged file; a line without a tab; a label that is no integer or out of range; fewer than two
/// classes. The message names file and line.
pub fn read(dir: &Path) -> Result<Dataset> {
    let (train_path, names_path) = (dir.join("train.txt"), dir.join("class.txt"));
    let (names, train, source) = if names_path.exists() {
        let names = class_names(&names_path)?;
        let known = Known {
            classes: names.len(),
            source: &names_path,
        };
        let train = read_split(&train_path, Some(&known))?;
        (names, train, &names_path)
    } else {
        let train = read_split(&train_path, None)?;
        let classes = train.1.iter().max().map_or(0, |&largest| largest as usize + 1);
        (
            (0..classes).map(|class| class.to_string()).collect(),
            train,
            &train_path,
        )
    };
    if names.len() < 2 {
        let (path, file) = (source.display(), if source == &names_path { "names" } else { "has" });
        return Err(Error::user(format!(
            "{path} {file} only one class, and there is nothing to tell apart; give at least two classes"
        )));
    }
    let known = Known {
        classes: names.len(),
        source,
    };
    let others = |name| read_split(&dir.join(name), Some(&known)).map(into_examples);
    Ok(Dataset {
        dev: others("dev.txt")?,
        more: if dir.join("test.txt").exists() {
            vec![("test", others("test.txt")?)]
        } else {
            vec![]
        },
        train: into_examples(train),
        target: LabelKind::Classes(names),
        metrics: vec![Metric::Accuracy],
    })
}

type Split = (Vec<(String, Option<String>)>, Vec<i32>);

fn into_examples((texts, labels): Split) -> Examples {
    Examples {
        texts,
        labels: Labels::Classes(labels),
    }
}

fn class_names(path: &Path) -> Result<Vec<String>> {
    let text = read_text(path)?;
    let mut names: Vec<String> = Vec::new();
    for (number, line) in numbered_lines(&text) {
        let name = line.trim();
        let fault = match names.iter().position(|other| other == name) {
            _ if name.is_empty() => "is blank; name one class a line".to_string(),
            Some(index) => format!(
                "names {}, as line {} does; give each class its own name",
                quoted(name),
                index + 1
            ),
            None => {
                names.push(name.to_string());
                continue;
            }
        };
        return Err(Error::user(format!("{} line {number} {fault}", path.display())));
    }
    Ok(names)
}

fn read_split(path: &Path, known: Option<&Known>) -> Result<Split> {
    let content = read_text(path)?;
    let lines = numbered_lines(&content).count();
    let mut split = Split::default();
    for (number, line) in numbered_lines(&content) {
        let place = || format!("{} line {number}", path.display());
        let Some((title, label)) = line.rsplit_once('\t') else {
            return Err(Error::user(format!(
                "{} has no tab; write the text, a tab and the label",
                place()
            )));
        };
        let label = label.trim();
        let Ok(class) = label.parse::<i64>() else {
            return Err(Error::user(format!(
                "{} has the label {}, which is no integer; write the number of the class",
                place(),
                quoted(label)
            )));
        };
        let (classes, reason) = match known {
            Some(known) => {
                let name = known.source.file_name().unwrap_or_default().display();
                (known.classes, format!("{name} has {} classes", known.classes))
            }
            // A label above the number of examples is a mistake and would make the model huge.
            None => (
                lines,
                format!("the file has only {lines} examples and there is no class.txt"),
            ),
        };
        match usize::try_from(class) {
            Ok(class) if class < classes => split.1.push(class as i32),
            _ => {
                return Err(Error::user(format!(
                    "{} has the label {class}, but {reason}; number the classes from 0 to {}",
                    place(),
                    classes - 1
                )));
            }
        }
        split.0.push((title.to_string(), None));
    }
    Ok(split)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    fn folder(files: &[(&str, &[u8])]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        files
            .iter()
            .for_each(|(name, bytes)| fs::write(dir.path().join(name), bytes).unwrap());
        dir
    }

    fn message(files: &[(&str, &[u8])]) -> String {
        let dir = folder(files);
        let message = read(dir.path()).unwrap_err().to_string();
        message.replace(&format!("{}/", dir.path().display()), "")
    }

    #[test]
    fn a_folder_is_read_with_its_names_and_splits() {
        let dir = folder(&[
            (
                "train.txt",
                "\u{feff}红牛：法拉利\t1\r\n\"quoted\tand tabbed\t0\r\n".as_bytes(),
            ),
            ("dev.txt", b"no line end\t2"),
            ("test.txt", b"a\t0\n\n"),
            ("class.txt", b"sports\ngame\nstocks\n"),
        ]);
        let data = read(dir.path()).unwrap();
        assert_eq!(data.class_names().unwrap(), ["sports", "game", "stocks"]);
        let texts: Vec<_> = data.train.all_texts().collect();
        assert_eq!(texts, ["红牛：法拉利", "\"quoted\tand tabbed"]);
        assert_eq!(data.train.labels, Labels::Classes(vec![1, 0]));
        assert_eq!(data.split("dev").unwrap().labels, Labels::Classes(vec![2]));
        assert_eq!(data.split("test").unwrap().len(), 1);
        assert!(
            data.split("valid")
                .unwrap_err()
                .to_string()
                .contains("no split called valid; choose one of train, dev, test")
        );
    }

    #[test]
    fn without_names_the_training_labels_say_how_many_classes_there_are() {
        let dir = folder(&[("train.txt", b"a\t0\nb\t2\nc\t1\n"), ("dev.txt", b"d\t1\n")]);
        let data = read(dir.path()).unwrap();
        assert_eq!(data.class_names().unwrap(), ["0", "1", "2"]);
        assert!(
            data.split("test")
                .unwrap_err()
                .to_string()
                .contains("no split called test; choose one of train, dev")
        );
    }

    #[test]
    fn every_mistake_names_file_line_and_remedy() {
        let (train, names): (&[u8], &[u8]) = (b"a\t0\nb\t1\n", b"x\ny\n");
        let with_train = |train| message(&[("train.txt", train), ("dev.txt", b"a\t0"), ("class.txt", names)]);
        assert_eq!(
            with_train(b"a\t0\nb 1\n"),
            "train.txt line 2 has no tab; write the text, a tab and the label"
        );
        assert_eq!(
            with_train(b"a\t0\n\nb\t1\n"),
            "train.txt line 2 has no tab; write the text, a tab and the label"
        );
        assert_eq!(
            with_train(b"a\t0\nb\tone\n"),
            "train.txt line 2 has the label 'one', which is no integer; write the number of the class"
        );
        assert_eq!(
            with_train(b"a\t2\n"),
            "train.txt line 1 has the label 2, but class.txt has 2 classes; number the classes from 0 to 1"
        );
        assert!(with_train(b"a\t-1\n").contains("line 1 has the label -1"));
        assert!(with_train(b"a\t0\n\xff\t1\n").contains("train.txt line 2 is not valid UTF-8"));
        assert!(with_train(b"").contains("train.txt is empty"));
        assert!(message(&[("train.txt", train), ("class.txt", names)]).contains("no file dev.txt"));
        assert!(message(&[("dev.txt", train)]).contains("no file train.txt"));
        assert_eq!(
            message(&[("train.txt", train), ("dev.txt", b"a\t7")]),
            "dev.txt line 1 has the label 7, but train.txt has 2 classes; number the classes from 0 to 1"
        );
        assert!(message(&[("train.txt", b"a\t2000000000")]).contains("only 1 examples and there is no class.txt"));
        let blank = message(&[("train.txt", train), ("dev.txt", train), ("class.txt", b"x\n\ny\n")]);
        assert!(blank.contains("class.txt line 2 is blank"));
        let twice = message(&[("train.txt", train), ("dev.txt", train), ("class.txt", b"x\ny\n x\n")]);
        assert_eq!(
            twice,
            "class.txt line 3 names 'x', as line 1 does; give each class its own name"
        );
    }

    #[test]
    fn a_single_class_is_refused_whoever_says_so() {
        let one: &[u8] = b"a\t0\nb\t0\n";
        assert_eq!(
            message(&[("train.txt", one), ("dev.txt", one)]),
            "train.txt has only one class, and there is nothing to tell apart; give at least two classes"
        );
        assert_eq!(
            message(&[("train.txt", one), ("dev.txt", one), ("class.txt", b"x\n")]),
            "class.txt names only one class, and there is nothing to tell apart; give at least two classes"
        );
        let two = folder(&[("train.txt", one), ("dev.txt", one), ("class.txt", b"x\ny\n")]);
        assert_eq!(read(two.path()).unwrap().class_names().unwrap(), ["x", "y"]);
    }
}
