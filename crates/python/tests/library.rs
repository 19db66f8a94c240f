//! The library that Python loads is built with the other tests; `.ci/run` hands it to those in Python.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};

#[test]
fn the_library_has_the_module_that_python_loads() {
    let own = std::env::current_exe().unwrap();
    let library = own.with_file_name(format!("{DLL_PREFIX}_lessen{DLL_SUFFIX}"));
    let bytes = std::fs::read(&library).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
    let module = b"PyInit__lessen";
    assert!(bytes.windows(module.len()).any(|found| found == module));
}
