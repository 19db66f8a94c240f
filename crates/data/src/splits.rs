//! The splits of data in memory, and what messages call them.

use std::path::Path;
use std::sync::Arc;

use lessen_base::{Error, Result};

/// The splits of data in memory.
#[derive(Clone, Debug)]
pub struct Splits<T> {
    /// The training split.
    pub train: T,
    /// The split of evaluations; where there is none, a share of the training split is held out, as of files.
    pub dev: Option<T>,
    /// The test split.
    pub test: Option<T>,
    /// The names of the classes in the order of their numbers, as `class.txt` has them beside files.
    pub classes: Option<Vec<String>>,
    /// The weight of each example of the training split in the loss of training, which is a mean by them; none where
    /// all count alike. Sentences and plain texts have none.
    pub weights: Option<Arc<[f32]>>,
}

/// Where data is read from.
#[derive(Debug)]
pub enum DataPlace<'a, T> {
    /// A file, files that match a pattern, or a folder.
    Path(&'a Path),
    /// Memory.
    InMemory(&'a Splits<T>),
}

/// What the splits are called in messages, in place of files.
const TRAIN: &str = "the training data in memory";
const DEV: &str = "the validation data in memory";
const TEST: &str = "the test data in memory";

/// Whether a message names data in memory so.
pub(crate) fn is_name(path: &Path) -> bool {
    [TRAIN, DEV, TEST].iter().any(|name| path == Path::new(name))
}

impl<T> DataPlace<'_, T> {
    /// The weights of the training examples, if they have some.
    pub(crate) fn weights(&self) -> Option<Arc<[f32]>> {
        match self {
            DataPlace::Path(_) => None,
            DataPlace::InMemory(splits) => splits.weights.clone(),
        }
    }
}

/// The weights of the training examples that are not held out, of those of all examples of the split.
///
/// # Errors
/// Another number of weights than of examples; weights that are negative, infinite or NaN; weights that are all 0.
pub(crate) fn weights_of(all: &[f32], examples: usize, held: Option<&[bool]>) -> Result<Arc<[f32]>> {
    if all.len() != examples {
        return Err(Error::user(format!(
            "there are {} weights for {examples} training examples with a label; give each of them one",
            all.len()
        )));
    }
    if let Some(example) = all.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
        return Err(Error::user(format!(
            "training example {example} has the weight {}; give a finite number from 0",
            all[example]
        )));
    }
    let is_held = |example: &usize| held.is_some_and(|held| held[*example]);
    let own: Arc<[f32]> = (0..examples)
        .filter(|example| !is_held(example))
        .map(|example| all[example])
        .collect();
    if own.iter().all(|weight| *weight == 0.0) {
        return Err(Error::user(
            "all training examples have zero weight; give some of them a larger one",
        ));
    }
    Ok(own)
}

impl<T> Splits<T> {
    /// The splits of data that has a training split alone.
    pub fn of(train: T) -> Splits<T> {
        Splits {
            train,
            dev: None,
            test: None,
            classes: None,
            weights: None,
        }
    }

    /// What `of` makes of the splits and of their names in messages: of the training split, of that for evaluations and
    /// of the test split.
    pub(crate) fn named<U>(&self, of: impl Fn(&T, &'static Path) -> U) -> (U, Option<U>, Option<U>) {
        let some = |split: &Option<T>, name: &'static str| split.as_ref().map(|split| of(split, Path::new(name)));
        (
            of(&self.train, Path::new(TRAIN)),
            some(&self.dev, DEV),
            some(&self.test, TEST),
        )
    }
}

/// The split of this name: `train`, `dev` or, if there is one, `test`.
///
/// # Errors
/// An unknown name; the message lists the known ones.
pub(crate) fn split_of<'a, T>(name: &str, [train, dev]: [&'a T; 2], test: Option<&'a T>) -> Result<&'a T> {
    match (name, test) {
        ("train", _) => Ok(train),
        ("dev", _) => Ok(dev),
        ("test", Some(test)) => Ok(test),
        (_, test) => Err(Error::user(format!(
            "this data has no split called {name}; choose one of train, dev{}",
            if test.is_some() { ", test" } else { "" }
        ))),
    }
}
