//! A short seeded run of the properties that the fuzz targets check for longer.

use std::fs;
use std::path::Path;

use lessen_base::{SplitMix64, cases};
use lessen_data::Tokenizer;

use crate::properties::{
    TOKENIZER_FILES, labelled_texts_are_read_or_refused, questions_are_read_or_refused, tokenizer_is_read_or_refused,
};

/// Seeds of the mutations of a test, where it runs all of them.
const SEEDS: u64 = 300;

/// Replaces, inserts, removes or repeats a few bytes.
fn mutated(sound: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len().max(1) as u64) as usize;
        let end = (at + 1 + random.below(8) as usize).min(bytes.len());
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
            1 if at < bytes.len() => bytes[at] = b"0129-e\"{}[],:\t\n "[random.below(16) as usize],
            2 => bytes.insert(at, random.next_u64() as u8),
            3 => drop(bytes.drain(at..end)),
            _ => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
        }
    }
    bytes
}

/// Reads a folder with one of its files mutated, for many seeds and each file in turn; the files are restored.
fn mutate_each_file(dir: &Path) {
    assert!(tokenizer_is_read_or_refused(dir), "the sound files are read");
    let present: Vec<&str> = TOKENIZER_FILES
        .into_iter()
        .filter(|file| dir.join(file).exists())
        .collect();
    let (mut read, seeds) = (0, cases(SEEDS));
    for seed in 0..seeds {
        let file = present[seed as usize % present.len()];
        println!("{file}, seed {seed}");
        let sound = fs::read(dir.join(file)).unwrap();
        fs::write(dir.join(file), mutated(&sound, &mut SplitMix64::new(seed))).unwrap();
        read += u64::from(tokenizer_is_read_or_refused(dir));
        fs::write(dir.join(file), sound).unwrap();
    }
    assert!((1..seeds).contains(&read), "{read} of {seeds} mutations were read");
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

const VOCAB: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nfall\n##en\n##s\n红\n牛\n!\ncafe\n";

#[test]
fn mutated_word_pieces_are_read_or_refused() {
    let config = r#"{"do_lower_case":true,"added_tokens_decoder":{"13":{"content":"<b>","special":false}}}"#;
    mutate_each_file(folder(&[("vocab.txt", VOCAB), ("tokenizer_config.json", config)]).path());
}

#[test]
fn mutated_byte_pairs_are_read_or_refused() {
    let vocab = r#"{"a":0,"b":1,"Ġ":2,"Ċ":3,"ab":4,"Ġab":5,"abab":6,"<|endoftext|>":7}"#;
    let files = [
        ("vocab.json", vocab),
        ("merges.txt", "#version: 0.2\na b\nĠ ab\nab ab\n"),
        ("added_tokens.json", r#"{"<b>":9,"[PAD]":8}"#),
    ];
    mutate_each_file(folder(&files).path());
}

#[test]
fn mutated_tokenizer_json_is_read_or_refused() {
    let characters = Tokenizer::characters(["the fallen café 红牛"], 1);
    let word_pieces = Tokenizer::from_dir(folder(&[("vocab.txt", VOCAB)]).path()).unwrap();
    for tokenizer in [characters, word_pieces] {
        let dir = tempfile::tempdir().unwrap();
        tokenizer.save(dir.path()).unwrap();
        let _ = fs::remove_file(dir.path().join("vocab.txt"));
        mutate_each_file(dir.path());
    }
}

#[test]
fn mutated_labelled_texts_are_read_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sound = "红牛：法拉利\t1\nquoted\tand tabbed\t0\nc\t2\n".as_bytes();
    assert!(labelled_texts_are_read_or_refused(dir.path(), sound));
    let (mut read, seeds) = (0, cases(SEEDS));
    for seed in 0..seeds {
        println!("seed {seed}");
        let bytes = mutated(sound, &mut SplitMix64::new(seed));
        read += u64::from(labelled_texts_are_read_or_refused(dir.path(), &bytes));
    }
    assert!((1..seeds).contains(&read), "{read} of {seeds} mutations were read");
}

#[test]
fn mutated_questions_are_read_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sound = r#"{"data":[{"title":"","paragraphs":[{"context":"Zoë wrote 牛 to Ada.","qas":[
        {"id":"1","question":"Who?","answers":[{"text":"Ada","answer_start":15}]},
        {"id":"2","question":"What?","answers":[{"text":"牛","answer_start":10}],"is_impossible":false}]}]}]}"#;
    assert!(questions_are_read_or_refused(dir.path(), sound.as_bytes()));
    let (mut read, seeds) = (0, cases(SEEDS));
    for seed in 0..seeds {
        println!("seed {seed}");
        let bytes = mutated(sound.as_bytes(), &mut SplitMix64::new(seed));
        read += u64::from(questions_are_read_or_refused(dir.path(), &bytes));
    }
    assert!((1..seeds).contains(&read), "{read} of {seeds} mutations were read");
}
