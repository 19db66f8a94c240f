//! Any `config.json` is refused or gives a model that can be traced and written back.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

#[path = "../../crates/nn/tests/all/properties.rs"]
#[allow(dead_code)]
mod properties;

static DIR: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

fuzz_target!(|bytes: &[u8]| {
    properties::config_is_read_or_refused(DIR.path(), bytes);
});
