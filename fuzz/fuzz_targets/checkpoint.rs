//! Any `model.safetensors` is refused or gives parameters of the right shapes.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use lessen_nn::{Model, ParamSpec};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

#[path = "../../crates/nn/tests/all/properties.rs"]
#[allow(dead_code)]
mod properties;

static DIR: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
static PARAMS: LazyLock<Vec<ParamSpec>> = LazyLock::new(|| {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/nn/tests/fixtures/bert-tiny-cls");
    Model::from_dir(&dir).unwrap().parameters()
});

fuzz_target!(|bytes: &[u8]| {
    properties::checkpoint_is_read_or_refused(DIR.path(), &PARAMS, bytes);
});
