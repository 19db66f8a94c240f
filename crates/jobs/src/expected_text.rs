//! Expected texts of tests, in files that `LESSEN_BLESS=1` rewrites.

use std::path::Path;

/// Checks a text against the file `tests/fixtures/NAME` of this crate.
///
/// # Panics
/// If they differ.
pub(crate) fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    if std::env::var_os("LESSEN_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = expected
        .lines()
        .zip(found.lines())
        .find(|(expected, found)| expected != found);
    assert!(
        expected == found,
        "{name} differs, first in {differs:?}; LESSEN_BLESS=1 takes over what is found"
    );
}
