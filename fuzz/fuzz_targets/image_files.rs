//! Any file with images or arrays is refused or gives no more than its bytes can stand for. The first byte chooses the
//! reader.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

#[path = "../../crates/data/tests/all/properties.rs"]
#[allow(dead_code)]
mod properties;

static DIR: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

fuzz_target!(|bytes: &[u8]| {
    if let [reader, bytes @ ..] = bytes {
        let names = properties::IMAGE_FILES;
        properties::image_file_is_read_or_refused(DIR.path(), names[usize::from(*reader) % names.len()], bytes);
    }
});
