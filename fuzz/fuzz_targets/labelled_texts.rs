//! Any `train.txt` is refused or gives labels within the classes.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

#[path = "../../crates/data/tests/all/properties.rs"]
#[allow(dead_code)]
mod properties;

static DIR: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

fuzz_target!(|bytes: &[u8]| {
    properties::labelled_texts_are_read_or_refused(DIR.path(), bytes);
});
