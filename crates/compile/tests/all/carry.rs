//! Operations of several ranks as a begin and an end.

use std::sync::Arc;

use lessen_compile::passes::carry;
use lessen_graph::{Carrier, DType, Graph, Op, Ranks, Trace, all_reduce};

#[derive(Debug)]
struct Silent;

impl Carrier for Silent {
    fn begin(&self, _: usize, _: &dyn Op, _: &[&[f32]]) {}

    fn end(&self, _: usize, _: &dyn Op, _: &[&[f32]], _: &mut [f32]) {}
}

/// Four sums, of which the second is read early.
fn graph() -> Graph {
    let ranks = Ranks {
        rank: 0,
        count: 2,
        leaves: 2,
    };
    let trace = Trace::new();
    let sums = |name: &str| all_reduce(&[trace.input(name, DType::F32, &[4]).exp()], ranks);
    let (a, b) = (sums("a"), sums("b"));
    let early = b.sin();
    let (c, d) = (sums("c"), sums("d"));
    let all = early + a + c + d;
    trace.output("all", all);
    trace.finish()
}

#[test]
fn sums_begin_where_they_can_and_end_where_they_are_read() {
    let carrier: Arc<dyn Carrier> = Arc::new(Silent);
    let carried = carry(&graph(), Some(&carrier)).unwrap();
    let names: Vec<&str> = carried.nodes.iter().map(|node| node.op.name()).collect();
    let wanted = "unary begin unary begin end end unary unary begin unary begin binary end binary end binary";
    assert_eq!(names.join(" "), wanted);
    // Each reads the token of the one before.
    let of_several = carried.nodes.iter().filter(|node| node.op.ranks().is_some());
    let tokens: Vec<_> = of_several.clone().map(|node| *node.outputs.last().unwrap()).collect();
    for (node, before) in of_several.skip(1).zip(&tokens) {
        assert_eq!(node.inputs.last(), Some(before));
    }
}

#[test]
fn a_third_sum_waits_for_the_first_one() {
    let carrier: Arc<dyn Carrier> = Arc::new(Silent);
    let ranks = Ranks {
        rank: 1,
        count: 2,
        leaves: 2,
    };
    let trace = Trace::new();
    let sums: Vec<_> = (0..3)
        .map(|i| all_reduce(&[trace.input(&format!("x{i}"), DType::F32, &[4]).exp()], ranks))
        .collect();
    trace.output("all", sums[0] + sums[1] + sums[2]);
    let carried = carry(&trace.finish(), Some(&carrier)).unwrap();
    let names: Vec<&str> = carried.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(
        names.join(" "),
        "unary begin unary begin unary end begin end binary end binary"
    );
}

#[test]
fn a_graph_of_several_ranks_without_a_carrier_is_refused() {
    let error = carry(&graph(), None).unwrap_err().to_string();
    assert!(error.contains("`all_reduce` is of several ranks"), "{error}");
    let trace = Trace::new();
    trace.output("y", trace.input("x", DType::F32, &[4]).exp());
    assert_eq!(carry(&trace.finish(), None).unwrap().nodes.len(), 1);
}
