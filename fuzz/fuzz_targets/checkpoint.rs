//! Any `model.safetensors` is refused or gives parameters of the right shapes.
#![no_main]

use std::sync::LazyLock;

use lessen_graph::Trace;
use lessen_nn::{Cx, Init, ParamSpec};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

#[path = "../../crates/nn/tests/all/properties.rs"]
#[allow(dead_code)]
mod properties;

static DIR: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
static PARAMS: LazyLock<Vec<ParamSpec>> = LazyLock::new(|| {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    cx.param("a.weight", &[2, 3], Init::Zeros);
    cx.param("b", &[4], Init::Zeros);
    cx.params()
});

fuzz_target!(|bytes: &[u8]| {
    properties::checkpoint_is_read_or_refused(DIR.path(), &PARAMS, bytes);
});
