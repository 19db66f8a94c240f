//! Properties of reading untrusted files, shared by the seeded tests and the fuzz targets.

use std::fs;
use std::path::Path;

use lessen_base::Error;
use lessen_data::images::{self, idx, npy};
use lessen_data::{Tokenizer, arrays, labelled, squad};

/// Texts that every tokenizer which can be read is tried on.
const TEXTS: [&str; 4] = [
    "",
    "the fallen café!",
    "红牛 a\n\tb  ab",
    "<|endoftext|>[MASK] \u{1F600}\u{301}\0",
];

/// Files that a tokenizer needs or may have; the fuzzer and the tests damage one of them.
pub const TOKENIZER_FILES: [&str; 6] = [
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
    "added_tokens.json",
];

fn check_refusal(error: &Error) {
    assert_eq!(error.exit_code(), 2, "{error}");
}

/// Any folder with tokenizer files is refused with an error or gives a tokenizer whose ids lie in its vocabulary and
/// which is the same after it was saved and read again. Returns whether it was read.
pub fn tokenizer_is_read_or_refused(dir: &Path) -> bool {
    let tokenizer = match Tokenizer::from_dir(dir) {
        Ok(tokenizer) => tokenizer,
        Err(error) => {
            check_refusal(&error);
            return false;
        }
    };
    let saved = dir.join("saved");
    tokenizer.save(&saved).unwrap();
    let again = Tokenizer::from_dir(&saved).unwrap();
    fs::remove_dir_all(&saved).unwrap();
    let in_vocabulary = |ids: &[i32]| {
        let outside = ids.iter().find(|&&id| id < 0 || id as usize >= tokenizer.vocab_size());
        assert_eq!(outside, None, "of a vocabulary of {}", tokenizer.vocab_size());
    };
    for text in TEXTS {
        let ids = tokenizer.encode(text);
        assert_eq!(again.encode(text), ids, "{text:?}");
        match ids {
            Ok(ids) => {
                in_vocabulary(&ids);
                let _ = tokenizer.decode(&ids).inspect_err(check_refusal);
            }
            Err(error) => check_refusal(&error),
        }
        match tokenizer.encode_pair(text, Some("b"), 9) {
            Ok((ids, types)) => {
                in_vocabulary(&ids);
                assert!(ids.len() <= 9 && ids.len() == types.len(), "{ids:?} and {types:?}");
            }
            Err(error) => check_refusal(&error),
        }
    }
    true
}

/// Any `train.txt` of a folder of labelled texts is refused with one sentence or gives labels within the classes.
/// Returns whether it was read.
pub fn labelled_texts_are_read_or_refused(dir: &Path, bytes: &[u8]) -> bool {
    fs::write(dir.join("train.txt"), bytes).unwrap();
    fs::write(dir.join("dev.txt"), "a\t0\n").unwrap();
    match labelled::read(dir, &labelled::Options::default()) {
        Ok(data) => {
            let classes = data.class_names().unwrap().len();
            let lessen_data::Labels::Classes(labels) = &data.train.labels else {
                panic!("labelled texts have classes");
            };
            assert_eq!(labels.len(), data.train.len());
            assert!(
                labels.iter().all(|&label| (0..classes as i32).contains(&label)),
                "{labels:?}"
            );
            true
        }
        Err(error) => {
            check_refusal(&error);
            assert!(!error.to_string().contains('\n'), "{error} is one sentence");
            false
        }
    }
}

/// Any file of questions is refused with one sentence or gives answers that stand in their contexts. Returns whether it
/// was read.
pub fn questions_are_read_or_refused(dir: &Path, bytes: &[u8]) -> bool {
    let path = dir.join("questions.json");
    fs::write(&path, bytes).unwrap();
    match squad::read_file(&path) {
        Ok(questions) => {
            for question in &questions {
                let context = &questions.contexts()[question.context];
                let stands = |answer: &lessen_data::GivenAnswer| context[answer.start..].starts_with(&answer.text);
                assert!(question.answers.iter().all(stands), "{question:?}");
            }
            true
        }
        Err(error) => {
            check_refusal(&error);
            assert!(!error.to_string().contains('\n'), "{error} is one sentence");
            false
        }
    }
}

/// Names of files with images or arrays, one for each reader.
pub const IMAGE_FILES: [&str; 6] = ["images-idx3-ubyte", "array.npy", "set.npz", "set.bin", "a.png", "a.jpg"];

/// How many bytes a byte of a file can stand for at most: deflate packs 1032 to 1, and a PNG has 8 pixels of one bit in
/// a byte, which become three bytes each.
const RATIO: usize = 1032;
const RATIO_OF_PICTURES: usize = 3 * 8 * RATIO;

/// Any file of one of [`IMAGE_FILES`] is refused with one sentence, or gives no more than its bytes can stand for.
/// Returns whether it was read.
pub fn image_file_is_read_or_refused(dir: &Path, name: &str, bytes: &[u8]) -> bool {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    arrays_are_read_or_refused(&path, bytes.len());
    let (ratio, read) = match name {
        "images-idx3-ubyte" => (RATIO, idx::read(&path).map(|array| array.bytes.len())),
        "array.npy" => (RATIO, npy::read(&path).map(|array| size_of_elements(&array.elements))),
        "a.png" | "a.jpg" => (
            RATIO_OF_PICTURES,
            images::read_image(&path).map(|image| size_of_image(&image)),
        ),
        _ => (RATIO, size_of_set(&path)),
    };
    match read {
        Ok(size) => {
            assert!(size <= bytes.len() * ratio, "{size} of {} bytes", bytes.len());
            true
        }
        Err(error) => {
            check_refusal(&error);
            assert!(!error.to_string().contains('\n'), "{error} is one sentence");
            false
        }
    }
}

/// Any file is refused with one sentence as arrays of numbers, or gives no more than its bytes can stand for.
fn arrays_are_read_or_refused(path: &Path, bytes: usize) {
    let one = arrays::npy::read(path).map(|array| array.bytes().len());
    let all = arrays::npz::read(path).map(|all| all.iter().map(|(_, array)| array.bytes().len()).sum());
    for read in [one, all] {
        match read {
            Ok(size) => assert!(size <= bytes * RATIO, "{size} of {bytes} bytes"),
            Err(error) => {
                check_refusal(&error);
                assert!(!error.to_string().contains('\n'), "{error} is one sentence");
            }
        }
    }
}

fn size_of_elements(elements: &npy::Elements) -> usize {
    match elements {
        npy::Elements::Bytes(bytes) => bytes.len(),
        npy::Elements::Integers(integers) => size_of_val(&integers[..]),
    }
}

fn size_of_image(image: &images::Image) -> usize {
    assert_eq!(image.bytes().len(), image.shape().iter().product::<usize>());
    image.bytes().len()
}

/// The size of all images of a data set, whose labels are numbers of its classes.
fn size_of_set(path: &Path) -> Result<usize, Error> {
    let options = images::Options {
        held_out: 0.5,
        ..images::Options::default()
    };
    let data = images::read(path, &options)?;
    let mut size = 0;
    for set in [&data.train, &data.dev] {
        let is_class = |label: &i32| (0..data.names.len() as i32).contains(label);
        assert!(set.labels().iter().all(is_class), "{:?}", set.labels());
        for number in 0..set.len() {
            size += size_of_image(&set.image(number)?);
        }
    }
    Ok(size)
}
