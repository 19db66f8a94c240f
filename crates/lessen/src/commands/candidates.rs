//! What a shell offers for arguments: recipes, keys and their values, runs.

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use lessen_base::word::Word;
use lessen_jobs::SCHEMA;
use lessen_task::recipe::BUILT_IN;
use lessen_task::recipe::keys::{DataFormat, Key};
use lessen_task::recipe::value::ValueKind;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// The folder in which `lessen train` makes folders of runs.
const RUNS: &str = "runs";

/// Built-in recipes, and files.
pub fn recipes() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let mut found = built_in(current);
        found.extend(PathCompleter::any().complete(current));
        found
    })
}

/// Built-in recipes, and formats of data.
pub fn recipes_and_formats() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let mut found = built_in(current);
        let formats = DataFormat::WORDS.iter().filter(|word| begins(word, current));
        found.extend(formats.map(CompletionCandidate::new));
        found
    })
}

/// Keys with `=`, and after it the words that the key takes.
pub fn assignments() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let text = current.to_string_lossy();
        if let Some((name, value)) = text.split_once('=') {
            let key = SCHEMA.keys().find(|key| key.name == name);
            let words = key.map_or(&[][..], |key| words(key)).iter();
            let words = words.filter(|word| word.starts_with(value));
            return words
                .map(|word| CompletionCandidate::new(format!("{name}={word}")))
                .collect();
        }
        let keys = SCHEMA.keys().filter(|key| begins(key.name, current));
        keys.map(|key| CompletionCandidate::new(format!("{}=", key.name)).help(Some(key.meaning.into())))
            .collect()
    })
}

/// Folders of runs in `runs`, and other folders.
pub fn runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let entries = fs::read_dir(RUNS).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|entry| entry.path().join("config.toml").is_file())
            .map(|entry| Path::new(RUNS).join(entry.file_name()).display().to_string())
            .filter(|name| begins(name, current))
            .collect();
        names.sort();
        let folders = PathCompleter::dir().complete(current);
        names.into_iter().map(CompletionCandidate::new).chain(folders).collect()
    })
}

fn built_in(current: &OsStr) -> Vec<CompletionCandidate> {
    let recipes = BUILT_IN.iter().filter(|recipe| begins(recipe.name, current));
    recipes
        .map(|recipe| CompletionCandidate::new(recipe.name).help(Some(recipe.description().to_string().into())))
        .collect()
}

fn begins(word: &str, current: &OsStr) -> bool {
    current.to_str().is_some_and(|current| word.starts_with(current))
}

/// The words that a key takes, where it takes such.
fn words(key: &Key) -> &'static [&'static str] {
    match key.kind {
        ValueKind::Switch => &["true", "false"],
        ValueKind::Choice(words) | ValueKind::Path(words) => words,
        _ => &[],
    }
}
