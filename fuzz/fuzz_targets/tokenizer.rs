//! Any tokenizer files are refused or give a tokenizer whose ids lie in its vocabulary.
//!
//! The input holds the files, separated by NUL; the first byte of each chooses its name.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

#[path = "../../crates/data/tests/all/properties.rs"]
#[allow(dead_code)]
mod properties;

use properties::TOKENIZER_FILES;

static DIR: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

fuzz_target!(|bytes: &[u8]| {
    for name in TOKENIZER_FILES {
        let _ = fs::remove_file(DIR.path().join(name));
    }
    for file in bytes.split(|&byte| byte == 0) {
        if let Some((name, content)) = file.split_first() {
            let name = TOKENIZER_FILES[usize::from(*name) % TOKENIZER_FILES.len()];
            fs::write(DIR.path().join(name), content).unwrap();
        }
    }
    properties::tokenizer_is_read_or_refused(DIR.path());
});
