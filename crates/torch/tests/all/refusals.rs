//! What is not traced is refused with the operator and the user's line.

use lessen_graph::{DType, Trace, Type};
use lessen_nn::Cx;
use lessen_torch::{ExportedProgram, TraceValues, trace};
use std::collections::{BTreeMap, BTreeSet};

/// The sentence about a program over `x`, `f32[4, 3]`.
fn refusal(nodes: &str) -> String {
    let json = format!(
        r#"{{"inputs": [{{"name": "x", "role": "data", "target": "x", "shape": [4, 3], "dtype": "f32"}}],
            "nodes": [{nodes}], "outputs": []}}"#
    );
    let program = ExportedProgram::from_json(&json).unwrap();
    let (constants, states) = (BTreeMap::new(), BTreeSet::new());
    let values = TraceValues {
        batch: &[Type::new(DType::F32, &[4, 3])],
        constants: &constants,
        states: &states,
    };
    let opened = Trace::new();
    let error = trace(&program, Cx::new(*opened, true), values).err().unwrap();
    error.to_string()
}

fn node(name: &str, operator: &str, arguments: &str, more: &str) -> String {
    format!(r#"{{"name": "{name}", "operator": "{operator}", "arguments": [{arguments}], "line": "net.py:7"{more}}}"#)
}

const X: &str = r#"["self", {"node": "x"}]"#;

#[test]
fn an_unknown_operator_is_named_with_its_line_and_the_nearest_one() {
    let sentence = refusal(&node("y", "aten.cumsumx.default", X, ""));
    assert_eq!(
        sentence,
        "`aten.cumsumx.default` at net.py:7: Lessen does not have this operator; the nearest one that it has is `cumsum`"
    );
    let sentence = refusal(&node("y", "aten.conv3d.default", X, ""));
    assert!(
        sentence.ends_with("use conv2d over slices, as three dimensions are not traced"),
        "{sentence}"
    );
    let sentence = refusal(&node("y", "aten.nonzero.default", X, ""));
    assert!(sentence.contains("multiply by a mask"), "{sentence}");
}

#[test]
fn a_change_in_place_through_a_view_that_has_no_window_is_refused() {
    let view = node(
        "v",
        "aten.transpose.int",
        &format!(r#"{X}, ["dim0", 0], ["dim1", 1]"#),
        r#", "is_view": true"#,
    );
    let change = node(
        "w",
        "aten.relu_.default",
        r#"["self", {"node": "v"}]"#,
        r#", "writes": "self""#,
    );
    let read = node("z", "aten.exp.default", X, "");
    let sentence = refusal(&format!("{view}, {change}, {read}"));
    assert!(
        sentence.starts_with("`aten.relu_.default` at net.py:7: it changes a view in place"),
        "{sentence}"
    );
}

#[test]
fn numbers_that_depend_on_the_batch_are_refused() {
    let item = node("n", "aten.item.default", X, "").replace(r#""x"}]"#, r#""s"}]"#);
    let sum = node("s", "aten.sum.default", X, "");
    let sentence = refusal(&format!("{sum}, {item}"));
    assert!(
        sentence.contains("`aten.item.default` at net.py:7") && sentence.contains("batch's values"),
        "{sentence}"
    );
}

#[test]
fn extents_that_do_not_fit_are_refused_with_the_line() {
    let view = node("v", "aten.view.default", &format!(r#"{X}, ["size", [5, -1]]"#), "");
    let sentence = refusal(&view);
    assert!(sentence.starts_with("`aten.view.default` at net.py:7:"), "{sentence}");
}
