//! What operators compute, against numbers that their definitions give.

use std::collections::HashMap;

use lessen_graph::{Array, evaluate_exactly};
use lessen_onnx::proto::AttributeProto;
use lessen_onnx::{Imported, Model, Sizes};

use crate::builder::{Builder, Extent, F32, float, int, ints, text};

/// The extents and the elements of an input.
type Given<'a> = (&'a [i64], &'a [f64]);

/// The result of one operator on inputs `a`, `b` and so on; integers are initializers.
fn result(
    op_type: &str,
    opset: i64,
    floats: &[Given<'_>],
    integers: &[&[i64]],
    attributes: Vec<AttributeProto>,
) -> Array {
    let mut b = Builder::new(opset);
    let mut given = HashMap::new();
    let mut names = Vec::new();
    for (i, (shape, data)) in floats.iter().enumerate() {
        let name = format!("x{i}");
        let extents: Vec<Extent> = shape.iter().map(|n| Extent::Size(*n)).collect();
        b.input(&name, F32, &extents);
        let shape: Vec<usize> = shape.iter().map(|n| *n as usize).collect();
        given.insert(name.clone(), Array::f32(&shape, data.to_vec()));
        names.push(name);
    }
    for (i, data) in integers.iter().enumerate() {
        names.push(b.integers(&format!("i{i}"), data));
    }
    let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
    last(b, op_type, &inputs, attributes, &given)
}

/// The result of an operator that ends a graph.
fn last(
    mut b: Builder,
    op_type: &str,
    inputs: &[&str],
    attributes: Vec<AttributeProto>,
    given: &HashMap<String, Array>,
) -> Array {
    b.node(op_type, "y", inputs, attributes);
    b.output("y");
    let folder = tempfile::tempdir().unwrap();
    let model = Model::open(&b.write(folder.path(), "model.onnx")).unwrap();
    let imported = Imported::of(&model, &Sizes::new()).unwrap();
    assert!(imported.is_complete(), "{op_type}: {:?}", imported.opaque);
    evaluate_exactly(&imported.graph, given).unwrap().remove("y").unwrap()
}

fn check(found: &Array, shape: &[usize], expected: &[f64]) {
    assert_eq!(found.ty.shape[..], *shape);
    for (a, b) in found.data.iter().zip(expected) {
        assert!((a - b).abs() < 1e-9, "{found:?} and {expected:?}");
    }
}

const SIX: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

#[test]
fn shapes_and_parts() {
    check(
        &result("Reshape", 14, &[(&[2, 3], SIX)], &[&[0, -1, 1]], vec![]),
        &[2, 3, 1],
        SIX,
    );
    check(
        &result("Transpose", 14, &[(&[2, 3], SIX)], &[], vec![]),
        &[3, 2],
        &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0],
    );
    check(
        &result("Unsqueeze", 13, &[(&[6], SIX)], &[&[0, -1]], vec![]),
        &[1, 6, 1],
        SIX,
    );
    check(
        &result("Squeeze", 12, &[(&[1, 6, 1], SIX)], &[], vec![ints("axes", &[-1])]),
        &[1, 6],
        SIX,
    );
    check(
        &result("Flatten", 14, &[(&[1, 2, 3], SIX)], &[], vec![int("axis", 2)]),
        &[2, 3],
        SIX,
    );
    let slice = result(
        "Slice",
        13,
        &[(&[2, 3], SIX)],
        &[&[0, -1], &[i64::MAX, i64::MIN], &[0, 1], &[1, -2]],
        vec![],
    );
    check(&slice, &[2, 2], &[3.0, 1.0, 6.0, 4.0]);
    check(
        &result("Expand", 13, &[(&[2, 1], &[1.0, 2.0])], &[&[1, 2]], vec![]),
        &[2, 2],
        &[1.0, 1.0, 2.0, 2.0],
    );
    check(
        &result("Tile", 13, &[(&[2], &[1.0, 2.0])], &[&[2]], vec![]),
        &[4],
        &[1.0, 2.0, 1.0, 2.0],
    );
    check(
        &result("Gather", 13, &[(&[2, 3], SIX)], &[&[-1, 0]], vec![int("axis", 1)]),
        &[2, 2],
        &[3.0, 1.0, 6.0, 4.0],
    );
    check(
        &result("Split", 13, &[(&[2, 3], SIX)], &[&[3]], vec![int("axis", 1)]),
        &[2, 3],
        SIX,
    );
}

#[test]
fn reductions_and_norms() {
    check(
        &result("ReduceMean", 13, &[(&[2, 3], SIX)], &[], vec![ints("axes", &[-1])]),
        &[2, 1],
        &[2.0, 5.0],
    );
    check(
        &result("ReduceSum", 13, &[(&[2, 3], SIX)], &[&[0]], vec![int("keepdims", 0)]),
        &[3],
        &[5.0, 7.0, 9.0],
    );
    check(
        &result("ReduceSumSquare", 18, &[(&[3], &[1.0, 2.0, 2.0])], &[], vec![]),
        &[1],
        &[9.0],
    );
    let softmax = result(
        "Softmax",
        13,
        &[(&[2, 1], &[0.0, 3f64.ln()])],
        &[],
        vec![int("axis", 0)],
    );
    check(&softmax, &[2, 1], &[0.25, 0.75]);
    let old = result(
        "Softmax",
        11,
        &[(&[1, 2, 1], &[0.0, 3f64.ln()])],
        &[],
        vec![int("axis", 1)],
    );
    check(&old, &[1, 2, 1], &[0.25, 0.75]);
    let norm = result(
        "LayerNormalization",
        17,
        &[(&[1, 2], &[1.0, 3.0]), (&[2], &[2.0, 3.0])],
        &[],
        vec![float("epsilon", 0.0)],
    );
    check(&norm, &[1, 2], &[-2.0, 3.0]);
    let norm = result(
        "RMSNormalization",
        23,
        &[(&[1, 2], &[3.0, 4.0]), (&[2], &[1.0, 2.0])],
        &[],
        vec![float("epsilon", 0.0)],
    );
    check(&norm, &[1, 2], &[3.0 / 12.5f64.sqrt(), 8.0 / 12.5f64.sqrt()]);
}

#[test]
fn products() {
    let identity: &[f64] = &[1.0, 0.0, 0.0, 1.0];
    let gemm = result(
        "Gemm",
        13,
        &[
            (&[1, 2], &[1.0, 2.0]),
            (&[2, 2], &[1.0, 2.0, 3.0, 4.0]),
            (&[2], &[1.0, 1.0]),
        ],
        &[],
        vec![int("transB", 1), float("alpha", 2.0), float("beta", 3.0)],
    );
    check(&gemm, &[1, 2], &[13.0, 25.0]);
    check(
        &result("MatMul", 13, &[(&[2], &[1.0, 2.0]), (&[2, 2], identity)], &[], vec![]),
        &[2],
        &[1.0, 2.0],
    );
    check(
        &result("MatMul", 13, &[(&[2, 2], identity), (&[2], &[1.0, 2.0])], &[], vec![]),
        &[2],
        &[1.0, 2.0],
    );
    let image: Vec<f64> = (0..9).map(f64::from).collect();
    let conv = result(
        "Conv",
        13,
        &[(&[1, 1, 3, 3], &image), (&[2, 1, 1, 1], &[1.0, 2.0])],
        &[],
        vec![ints("strides", &[2, 2])],
    );
    check(&conv, &[1, 2, 2, 2], &[0.0, 2.0, 6.0, 8.0, 0.0, 4.0, 12.0, 16.0]);
}

#[test]
fn shapes_are_computed_while_a_graph_is_traced() {
    let mut b = Builder::new(17);
    let x = b.input("x", F32, &[Extent::Named("batch"), Extent::Size(6)]);
    let shape = b.node("Shape", "shape", &[&x], vec![]);
    let zero = b.integers("zero", &[0]);
    let batch = b.node("Gather", "rows", &[&shape, &zero], vec![]);
    let rest = b.integers("rest", &[2, 3]);
    let new = b.node("Concat", "new", &[&batch, &rest], vec![int("axis", 0)]);
    b.node("Reshape", "y", &[&x, &new], vec![]);
    b.output("y");
    let folder = tempfile::tempdir().unwrap();
    let model = Model::open(&b.write(folder.path(), "model.onnx")).unwrap();
    let sizes = Sizes::from([("batch".to_string(), 5)]);
    let imported = Imported::of(&model, &sizes).unwrap();
    assert_eq!(imported.graph.nodes.len(), 1);
    assert_eq!(imported.graph.ty(imported.graph.outputs[0].value).shape[..], [5, 2, 3]);
}

#[test]
fn attention_and_rotary_positions() {
    let zero: Given<'_> = (&[1, 1, 1, 1], &[0.0]);
    let (k, v): (Given<'_>, Given<'_>) = ((&[1, 1, 2, 1], &[1.0, 5.0]), (&[1, 1, 2, 1], &[2.0, 4.0]));
    check(
        &result("Attention", 23, &[zero, k, v], &[], vec![]),
        &[1, 1, 1, 1],
        &[3.0],
    );
    let mask: Given<'_> = (&[1, 2], &[0.0, -1e9]);
    check(
        &result("Attention", 23, &[zero, k, v, mask], &[], vec![]),
        &[1, 1, 1, 1],
        &[2.0],
    );
    let zeros: Given<'_> = (&[1, 1, 2, 1], &[0.0, 0.0]);
    let causal = result("Attention", 23, &[zeros, k, v], &[], vec![int("is_causal", 1)]);
    check(&causal, &[1, 1, 2, 1], &[2.0, 3.0]);
    // Two heads of queries in one row, which share keys and values.
    let flat: Given<'_> = (&[1, 1, 2], &[0.0, 0.0]);
    let (k, v): (Given<'_>, Given<'_>) = ((&[1, 2, 1], &[1.0, 5.0]), (&[1, 2, 1], &[2.0, 4.0]));
    let heads = vec![int("q_num_heads", 2), int("kv_num_heads", 1)];
    check(
        &result("Attention", 23, &[flat, k, v], &[], heads),
        &[1, 1, 2],
        &[3.0, 3.0],
    );
    let rotated = result(
        "RotaryEmbedding",
        23,
        &[
            (&[1, 1, 1, 3], &[1.0, 2.0, 7.0]),
            (&[1, 1, 1], &[0.6]),
            (&[1, 1, 1], &[0.8]),
        ],
        &[],
        vec![],
    );
    check(&rotated, &[1, 1, 1, 3], &[-1.0, 2.0, 7.0]);
}

#[test]
fn functions_of_known_integers() {
    check(
        &result("CumSum", 14, &[], &[&[1, 2, 3], &[0]], vec![]),
        &[3],
        &[1.0, 3.0, 6.0],
    );
    let after = vec![int("exclusive", 1), int("reverse", 1)];
    check(
        &result("CumSum", 14, &[], &[&[1, 2, 3], &[0]], after),
        &[3],
        &[5.0, 3.0, 0.0],
    );
    check(&result("Mod", 13, &[], &[&[-5, 5], &[3]], vec![]), &[2], &[1.0, 2.0]);
    check(
        &result("Mod", 13, &[], &[&[-5, 5], &[3]], vec![int("fmod", 1)]),
        &[2],
        &[-2.0, 2.0],
    );
}

#[test]
fn orders_and_cumulative_sums_of_what_is_computed() {
    let x: Given<'_> = (&[2, 3], &[3.0, 1.0, 3.0, 2.0, 5.0, 4.0]);
    check(
        &result("ArgMax", 13, &[x], &[], vec![int("axis", -1)]),
        &[2, 1],
        &[0.0, 1.0],
    );
    let without = vec![int("axis", 0), int("keepdims", 0)];
    check(&result("ArgMin", 13, &[x], &[], without), &[3], &[1.0, 0.0, 0.0]);
    check(
        &result("TopK", 11, &[x], &[&[2]], vec![]),
        &[2, 2],
        &[3.0, 3.0, 5.0, 4.0],
    );
    let least = vec![int("axis", 0), int("largest", 0)];
    check(&result("TopK", 11, &[x], &[&[1]], least), &[1, 3], &[2.0, 1.0, 3.0]);
    check(
        &result("CumSum", 14, &[x], &[&[1]], vec![]),
        &[2, 3],
        &[3.0, 4.0, 7.0, 2.0, 7.0, 11.0],
    );
    let after = vec![int("exclusive", 1), int("reverse", 1)];
    check(
        &result("CumSum", 14, &[x], &[&[0]], after),
        &[2, 3],
        &[2.0, 5.0, 4.0, 0.0, 0.0, 0.0],
    );
}

/// The result of an operator on `x`, `f32[2, 3]`, positions that are cast from floats, and updates.
fn by_positions(op_type: &str, positions: Given<'_>, updates: Option<Given<'_>>, how: Vec<AttributeProto>) -> Array {
    let mut b = Builder::new(18);
    let mut given = HashMap::new();
    let all = [Some((&[2, 3][..], SIX)), Some(positions), updates]
        .into_iter()
        .flatten();
    let names: Vec<String> = (0..all.clone().count()).map(|i| format!("x{i}")).collect();
    for (name, (shape, data)) in names.iter().zip(all) {
        let extents: Vec<Extent> = shape.iter().map(|n| Extent::Size(*n)).collect();
        b.input(name, F32, &extents);
        let shape: Vec<usize> = shape.iter().map(|n| *n as usize).collect();
        given.insert(name.clone(), Array::f32(&shape, data.to_vec()));
    }
    b.node("Cast", "positions", &["x1"], vec![int("to", 7)]);
    let mut inputs = vec!["x0", "positions"];
    inputs.extend(names.get(2).map(String::as_str));
    last(b, op_type, &inputs, how, &given)
}

#[test]
fn elements_at_computed_positions_are_taken_and_added() {
    let along = |axis| vec![int("axis", axis)];
    let two: Given<'_> = (&[2, 2], &[2.0, -3.0, 1.0, 1.0]);
    check(
        &by_positions("GatherElements", two, None, along(1)),
        &[2, 2],
        &[3.0, 1.0, 5.0, 5.0],
    );
    let first: Given<'_> = (&[1, 2], &[1.0, 0.0]);
    check(
        &by_positions("GatherElements", first, None, along(0)),
        &[1, 2],
        &[4.0, 2.0],
    );
    let updates: Given<'_> = (&[2, 2], &[10.0, 20.0, 30.0, 40.0]);
    let add = vec![int("axis", 1), text("reduction", "add")];
    let found = by_positions("ScatterElements", two, Some(updates), add);
    check(&found, &[2, 3], &[21.0, 2.0, 13.0, 4.0, 75.0, 6.0]);
}
