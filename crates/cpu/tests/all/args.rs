//! Inputs of kernels, which are given only as they are declared.

use lessen_cpu::test_entries::inputs_as_declared;

#[test]
fn an_input_is_given_only_as_it_is_declared() {
    for (names, is_given, is_declared) in inputs_as_declared() {
        assert_eq!(is_given, is_declared, "{names}");
    }
}
