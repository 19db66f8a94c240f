//! Sparse gradients times a number: equal to dense ones while it is finite; otherwise absent rows stay zeros.

use std::collections::HashMap;

use lessen_compile::passes;
use lessen_cpu::CpuTarget;
use lessen_graph::{Array, Graph, OnRows, Registry, evaluate, parse, print};

const TARGET: CpuTarget = CpuTarget { threads: 1 };
/// Rows and columns of the table.
const TABLE: [usize; 2] = [64, 2];
/// The rows of the batch; row 5 twice.
const IDS: [i32; 3] = [5, 9, 5];

/// The gradient of a table, multiplied by `c`; the sum of its elements, and the update.
fn graph() -> Graph {
    let text = r#"
state "w" %0 : f32[64,2]
state "m" %1 : f32[64,2]
state "v" %2 : f32[64,2]
input "ids" %3 : i32[3]
input "dy" %4 : f32[3,2]
input "lr" %5 : f32[]
input "t" %6 : f32[]
input "c" %7 : f32[]
backward:
%8 = scatter_add(%3, %4) {rows=64} : f32[64,2]
update:
%9 = broadcast(%7) {shape=[64,2]} : f32[64,2]
%10 = binary(%8, %9) {f=mul} : f32[64,2]
%11 = reduce(%10) {f=sum, axes=[0,1]} : f32[]
%12, %13, %14 = adamw(%0, %10, %1, %2, %5, %6) {beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0.01} : f32[64,2], f32[64,2], f32[64,2]
output "sum" = %11
assign %0 = %12
assign %1 = %13
assign %2 = %14
"#;
    parse(text, &Registry::standard()).unwrap()
}

fn results(graph: &Graph, c: f64, dy: &[f64]) -> HashMap<String, Array> {
    let table = |scale: f64| {
        Array::from_fn(lessen_graph::Type::f32(&TABLE), |i| {
            scale * (1 + (7 * i[0] + 3 * i[1]) % 11) as f64
        })
    };
    let inputs = HashMap::from([
        ("w".to_string(), table(0.5)),
        ("m".to_string(), table(-0.25)),
        ("v".to_string(), table(0.125)),
        ("ids".to_string(), Array::i32(&[3], &IDS)),
        ("dy".to_string(), Array::f32(&[3, 2], dy.to_vec())),
        ("lr".to_string(), Array::scalar(0.01)),
        ("t".to_string(), Array::scalar(3.0)),
        ("c".to_string(), Array::scalar(c)),
    ]);
    evaluate(graph, &inputs).unwrap()
}

fn bits(array: &Array) -> Vec<u64> {
    let bits = array
        .data
        .iter()
        .map(|x| if x.is_nan() { f64::NAN } else { *x }.to_bits());
    bits.collect()
}

const DY: [f64; 6] = [0.5, -2.0, 1.5, 3.0, 0.25, 1.0];

#[test]
fn finite_factors_give_what_the_dense_gradient_gives() {
    let dense = graph();
    let sparse = passes::sparsify(&dense, &TARGET);
    assert!(print(&sparse).contains("adamw_rows"), "{}", print(&sparse));
    for c in [1.0, 0.125, -3.0, 0.0, 1e-40] {
        let (expected, found) = (results(&dense, c, &DY), results(&sparse, c, &DY));
        for name in ["w", "m", "v", "sum"] {
            assert_eq!(bits(&found[name]), bits(&expected[name]), "{name} times {c}");
        }
    }
    // Numbers that are not finite in the rows that are present stay in these rows.
    let broken = [0.5, f64::NAN, f64::INFINITY, 3.0, 0.25, 1.0];
    let (expected, found) = (results(&dense, 1.0, &broken), results(&sparse, 1.0, &broken));
    for name in ["w", "m", "v", "sum"] {
        assert_eq!(
            bits(&found[name]),
            bits(&expected[name]),
            "{name} of rows that are not finite"
        );
    }
}

#[test]
fn rows_that_are_not_there_stay_zeros_times_nan_and_infinities() {
    let dense = graph();
    let sparse = passes::sparsify(&dense, &TARGET);
    let zero = results(&dense, 0.0, &DY);
    for c in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let (of_dense, found) = (results(&dense, c, &DY), results(&sparse, c, &DY));
        assert!(!found["sum"].item().is_finite(), "the sum times {c} is finite");
        for name in ["w", "m", "v"] {
            for row in 0..TABLE[0] {
                let of = |array: &Array| bits(array)[2 * row..][..2].to_vec();
                if IDS.contains(&(row as i32)) {
                    assert_eq!(of(&found[name]), of(&of_dense[name]), "{name}, row {row} times {c}");
                } else {
                    assert_eq!(of(&found[name]), of(&zero[name]), "{name}, row {row} times {c}");
                    assert!(of_dense[name].data[2 * row].is_nan(), "{name}, row {row} times {c}");
                }
            }
        }
    }
}

#[test]
fn a_product_with_a_number_is_a_rule_of_rows() {
    let graph = graph();
    let product = &graph.nodes[2];
    let (inputs, outputs) = (graph.input_types(product), graph.output_types(product));
    let rule = graph.ask(product, &inputs, &outputs).on_rows(&[true, false]);
    assert!(matches!(rule, OnRows::Rows), "{rule:?}");
}
