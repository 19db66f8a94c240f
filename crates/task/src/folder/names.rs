//! Default names of runs' folders: `runs/RECIPE-1`, `runs/RECIPE-2` and so on.

use std::fs;
use std::path::{Path, PathBuf};

/// The first folder `runs/NAME-1`, `runs/NAME-2` and so on that does not exist.
pub fn next_run(name: &str) -> PathBuf {
    let numbered = |number: u64| Path::new("runs").join(format!("{name}-{number}"));
    (1..u64::MAX)
        .map(numbered)
        .find(|path| !path.exists())
        .unwrap_or_else(|| numbered(u64::MAX))
}

/// The last folder `runs/NAME-N` that exists.
pub fn last_run(name: &str) -> Option<PathBuf> {
    runs_of(name).pop()
}

/// The folders `runs/NAME-N` that exist, by their numbers.
pub fn runs_of(name: &str) -> Vec<PathBuf> {
    let number = |path: &Path| {
        let (start, number) = path.file_name()?.to_str()?.rsplit_once('-')?;
        if start == name {
            number.parse::<u64>().ok()
        } else {
            None
        }
    };
    let entries = fs::read_dir("runs").into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<(u64, PathBuf)> = paths.filter_map(|path| Some((number(&path)?, path))).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}
