//! Images and labels as arrays, in idx files and in NumPy's, whose names say which is which: `train-images-idx3-ubyte`,
//! `x_train`, `test_labels`.

use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use super::idx;
use super::npy::{self, Npy};
use super::parts::{Part, Parts};
use crate::arrays::zip::Archive;
use crate::places::DEV;

/// The split that something belongs to by its name; one without such a word is for training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Train,
    Dev,
    Test,
}

impl Role {
    /// What the split is for.
    fn purpose(self) -> &'static str {
        match self {
            Role::Train => "training",
            Role::Dev => "validation",
            Role::Test => "the test",
        }
    }
}

/// The words of a name, in small letters.
fn words(name: &str) -> Vec<String> {
    let words = name.split(|letter: char| !letter.is_alphanumeric());
    words.map(str::to_lowercase).filter(|word| !word.is_empty()).collect()
}

/// The split that a name says.
pub(super) fn role(name: &str) -> Role {
    let words = words(name);
    let says = |starts: &[&str]| {
        let mut words = words.iter();
        words.any(|word| starts.iter().any(|start| word.starts_with(start)))
    };
    match () {
        () if says(&["train"]) => Role::Train,
        () if says(&["test", "t10k"]) => Role::Test,
        () if says(&DEV) => Role::Dev,
        () => Role::Train,
    }
}

/// Whether a name is that of an array of images.
fn is_images(name: &str) -> bool {
    let is_word = |word: &String| ["x", "images", "image"].contains(&&word[..]);
    words(name).iter().any(is_word)
}

/// Whether a name is that of an array of labels.
fn is_labels(name: &str) -> bool {
    let is_word = |word: &String| ["y", "labels", "label", "targets", "target"].contains(&&word[..]);
    words(name).iter().any(is_word)
}

/// An array that has not been read yet.
enum Array<'a> {
    Idx(&'a Path),
    Npy(&'a Path),
    Member(&'a Archive, PathBuf, String),
}

impl Array<'_> {
    /// Where it is, for messages.
    fn place(&self) -> &Path {
        match self {
            Array::Idx(path) | Array::Npy(path) => path,
            Array::Member(_, place, _) => place,
        }
    }

    /// Its name.
    fn name(&self) -> String {
        self.place()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    fn read(&self) -> Result<Npy> {
        match self {
            Array::Idx(path) => idx::read(path).map(|idx::Idx { shape, bytes }| Npy {
                shape,
                elements: npy::Elements::Bytes(bytes),
            }),
            Array::Npy(path) => npy::read(path),
            Array::Member(archive, place, name) => {
                let parsed = npy::parse(&archive.content(name)?);
                parsed.map_err(|fault| Error::user(format!("{} {fault}", place.display())))
            }
        }
    }

    /// The shape, and the elements as bytes.
    fn bytes(&self) -> Result<(Vec<usize>, Vec<u8>)> {
        let array = self.read()?;
        let shape = array.shape.clone();
        let bytes = array.into_bytes().map_err(|value| {
            Error::user(format!(
                "{} has the value {value}, but those of images are from 0 to 255; save them as unsigned bytes",
                self.place().display()
            ))
        })?;
        Ok((shape, bytes))
    }
}

/// Whether the training split is read, of data that has other splits or not.
pub(super) type HasTraining<'a> = &'a dyn Fn(bool) -> bool;

/// The splits of idx files. `is_one` says that files of one split, whatever its name, are for training; the training
/// split is left empty where it is not to be read.
///
/// # Errors
/// Files that cannot be read or do not go together.
pub(super) fn of_idx(files: &[PathBuf], dir: &Path, how: (bool, HasTraining<'_>)) -> Result<Parts> {
    splits(files.iter().map(|file| Array::Idx(file)).collect(), dir, how)
}

/// The splits of `.npy` files.
///
/// # Errors
/// As [`of_idx`].
pub(super) fn of_npy(files: &[PathBuf], dir: &Path, how: (bool, HasTraining<'_>)) -> Result<Parts> {
    splits(files.iter().map(|file| Array::Npy(file)).collect(), dir, how)
}

/// The splits of a `.npz` archive.
///
/// # Errors
/// As [`of_idx`].
pub(super) fn of_npz(path: &Path, how: (bool, HasTraining<'_>)) -> Result<Parts> {
    let archive = Archive::read(path)?;
    let members = archive.names().map(|name| {
        let shown = path.join(name.strip_suffix(".npy").unwrap_or(name));
        Array::Member(&archive, shown, name.to_string())
    });
    splits(members.collect(), path, how)
}

/// The splits of arrays in a place.
fn splits(arrays: Vec<Array<'_>>, place: &Path, (is_one, has_training): (bool, HasTraining<'_>)) -> Result<Parts> {
    let first = arrays.first().map(|array| role(&array.name()));
    let is_one = is_one && arrays.iter().all(|array| Some(role(&array.name())) == first);
    let role = |array: &Array<'_>| if is_one { Role::Train } else { role(&array.name()) };
    let part = |wanted: Role| -> Result<Option<Part>> {
        let of = |kind: fn(&str) -> bool| {
            let own = arrays
                .iter()
                .filter(move |array| kind(&array.name()) && role(array) == wanted);
            own.collect::<Vec<_>>()
        };
        let (images, labels) = match (&of(is_images)[..], &of(is_labels)[..]) {
            ([], _) => return Ok(None),
            ([images], [labels]) => (*images, *labels),
            ([images], []) => {
                return Err(Error::user(format!(
                    "{} has no labels beside it; add them, in an array that is named as it is, with labels for images, or y \
                     for x",
                    images.place().display()
                )));
            }
            ([first, second, ..], _) | (_, [first, second, ..]) => {
                return Err(Error::user(format!(
                    "{} and {} are both {} for {}; keep one of them",
                    first.place().display(),
                    second.place().display(),
                    if is_images(&first.name()) { "images" } else { "labels" },
                    wanted.purpose()
                )));
            }
        };
        let (shape, bytes) = images.bytes()?;
        let numbers = labels.read()?;
        let count = numbers.shape.clone();
        let labels = (&count[..], numbers.into_integers(), labels.place());
        Part::of_arrays((&shape, bytes, images.place()), labels).map(Some)
    };
    let (dev, test) = (part(Role::Dev)?, part(Role::Test)?);
    if !has_training(dev.is_some() || test.is_some()) {
        return Ok(Parts {
            train: Part::empty(place),
            dev,
            test,
            names: None,
        });
    }
    let train = part(Role::Train)?.ok_or_else(|| {
        Error::user(format!(
            "{} has no images for training; name their array train-images or x_train, and that of their labels \
             train-labels or y_train",
            place.display()
        ))
    })?;
    Ok(Parts {
        train,
        dev,
        test,
        names: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::zip;
    use crate::images::npy;
    use crate::images::parts::PartLabels;
    use std::fs;

    #[test]
    fn names_say_split_and_content() {
        for (name, of) in [
            ("train-images-idx3-ubyte.gz", Role::Train),
            ("t10k-labels-idx1-ubyte", Role::Test),
            ("x_test", Role::Test),
            ("val_images", Role::Dev),
            ("data_batch_1.bin", Role::Train),
            ("train_10k.bin", Role::Train),
            ("images.npy", Role::Train),
        ] {
            assert_eq!(role(name), of, "{name}");
        }
        assert!(is_images("x_train") && is_images("train-images-idx3-ubyte") && !is_images("y_train"));
        assert!(is_labels("Y_train") && is_labels("test_labels.npy") && !is_labels("x_train"));
    }

    fn npy_file(shape: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}");
        npy::tests::file(&header, data)
    }

    fn labels(part: &Part) -> &[i64] {
        match &part.labels {
            PartLabels::Numbers(numbers) => numbers,
            PartLabels::Names(..) => panic!("numbers"),
        }
    }

    #[test]
    fn an_archive_and_a_folder_of_arrays_have_splits() {
        let dir = tempfile::tempdir().unwrap();
        let members = [
            ("x_train.npy", npy_file("(2, 1, 2)", &[1, 2, 3, 4])),
            ("y_train.npy", npy_file("(2, 1)", &[1, 0])),
            ("x_test.npy", npy_file("(1, 1, 2)", &[5, 6])),
            ("y_test.npy", npy_file("(1,)", &[1])),
        ];
        let listed: Vec<(&str, &[u8], bool)> = members.iter().map(|(name, file)| (*name, &file[..], true)).collect();
        let path = dir.path().join("set.npz");
        fs::write(&path, zip::tests::archive(&listed)).unwrap();
        let files: Vec<PathBuf> = members.iter().map(|(name, _)| dir.path().join(name)).collect();
        for (file, (_, bytes)) in files.iter().zip(&members) {
            fs::write(file, bytes).unwrap();
        }
        let all: HasTraining<'_> = &|_| true;
        for found in [
            of_npz(&path, (false, all)).unwrap(),
            of_npy(&files, dir.path(), (true, all)).unwrap(),
        ] {
            assert_eq!(
                (labels(&found.train), labels(&found.test.unwrap())),
                (&[1, 0][..], &[1][..])
            );
            assert!(found.dev.is_none());
        }
    }

    #[test]
    fn arrays_that_do_not_go_together_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |names: &[&str]| {
            let files: Vec<PathBuf> = names.iter().map(|name| dir.path().join(name)).collect();
            for file in &files {
                fs::write(file, npy_file("(1, 1, 1)", &[0])).unwrap();
            }
            of_npy(&files, dir.path(), (false, &|_| true))
                .err()
                .unwrap()
                .to_string()
        };
        assert!(refused(&["x_train.npy"]).contains("x_train.npy has no labels beside it"));
        assert!(refused(&["x_test.npy", "y_test.npy"]).contains("has no images for training"));
        let both = refused(&["x_train.npy", "train_images.npy", "y_train.npy"]);
        assert!(both.contains("are both images for training"), "{both}");
        let path = dir.path().join("x_train.npy");
        let header = "{'descr': '<i2', 'fortran_order': False, 'shape': (1, 1, 1), }";
        fs::write(&path, npy::tests::file(header, &[0, 1])).unwrap();
        fs::write(dir.path().join("y_train.npy"), npy_file("(1,)", &[0])).unwrap();
        let files = [path, dir.path().join("y_train.npy")];
        let sentence = of_npy(&files, dir.path(), (false, &|_| true))
            .err()
            .unwrap()
            .to_string();
        assert!(
            sentence.contains("x_train.npy has the value 256, but those of images"),
            "{sentence}"
        );
    }
}
