//! Properties of reading untrusted files, shared by the seeded tests and the fuzz targets.

use std::fs;
use std::path::Path;

use lessen_base::Error;
use lessen_data::{Tokenizer, labelled, squad};

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
