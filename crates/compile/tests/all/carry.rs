//! Operations of several ranks as a begin and an end.

use std::sync::Arc;

use lessen_compile::passes::carry;
use lessen_compile::{Options, compile};
use lessen_cpu::CpuTarget;
use lessen_graph::{
    Begun, Carrier, DType, Ended, Graph, MOST_UNDER_WAY, NodeId, Op, Phase, Ranks, Trace, Transfer, Type,
};
use lessen_graph::{all_gather, all_reduce, reduce_scatter};

#[derive(Debug)]
struct Silent;

impl Carrier for Silent {
    fn begin(&self, _: usize, _: &dyn Op, _: &[&[f32]]) {}

    fn end(&self, _: usize, _: &dyn Op, _: &[&[f32]], _: &mut [f32]) {}
}

/// A carrier whose exchanges keep the network busy for this number of seconds.
#[derive(Debug)]
struct Slow(f64);

impl Carrier for Slow {
    fn begin(&self, _: usize, _: &dyn Op, _: &[&[f32]]) {}

    fn end(&self, _: usize, _: &dyn Op, _: &[&[f32]], _: &mut [f32]) {}

    fn transfer(&self, _: &dyn Op, _: &[Type], _: &Type) -> Transfer {
        Transfer {
            sending: self.0,
            latency: 0.0,
        }
    }
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

/// The operations of three sums of this many elements, with those that begin and end their exchange.
fn three_sums(elements: usize) -> String {
    let carrier: Arc<dyn Carrier> = Arc::new(Silent);
    let ranks = Ranks {
        rank: 1,
        count: 2,
        leaves: 2,
    };
    let trace = Trace::new();
    let sums: Vec<_> = (0..3)
        .map(|i| all_reduce(&[trace.input(&format!("x{i}"), DType::F32, &[elements]).exp()], ranks))
        .collect();
    trace.output("all", sums[0] + sums[1] + sums[2]);
    let carried = carry(&trace.finish(), Some(&carrier)).unwrap();
    let names: Vec<&str> = carried.nodes.iter().map(|node| node.op.name()).collect();
    names.join(" ")
}

#[test]
fn a_third_large_sum_waits_for_the_first_one() {
    let many = MOST_UNDER_WAY / size_of::<f32>() / 3;
    let together = "unary begin unary begin unary begin end end binary end binary";
    assert_eq!(three_sums(many), together);
    let after_each_other = "unary begin unary begin unary end begin end binary end binary";
    assert_eq!(three_sums(many + 1), after_each_other);
    assert_eq!(three_sums(16 * many), after_each_other, "two may always be under way");
}

/// A gradient is scattered, its piece is halved and gathered, for three parameters.
fn updates(ranks: Ranks) -> Graph {
    let trace = Trace::new();
    let gradients: Vec<_> = (0..3)
        .map(|i| trace.input(&format!("x{i}"), DType::F32, &[4]).exp())
        .collect();
    trace.in_phase(Phase::Update, || {
        let pieces: Vec<_> = gradients.iter().map(|sum| reduce_scatter(&[*sum], ranks, 1)).collect();
        for (i, piece) in pieces.into_iter().enumerate() {
            trace.output(&format!("y{i}"), all_gather(piece * 0.5, &[4], ranks, 1));
        }
    });
    trace.finish()
}

#[test]
fn a_piece_is_gathered_after_the_messages_of_the_next_one_have_begun() {
    let carrier: Arc<dyn Carrier> = Arc::new(Silent);
    for rank in 0..2 {
        let ranks = Ranks {
            rank,
            count: 2,
            leaves: 2,
        };
        let carried = carry(&updates(ranks), Some(&carrier)).unwrap();
        let of_several = carried.nodes.iter().filter_map(|node| {
            let ended = node.op.downcast_ref::<Ended>().map(|ended| (")", ended.0.op.name()));
            let begun = node.op.downcast_ref::<Begun>().map(|begun| ("(", begun.op.name()));
            let (part, name) = ended.or(begun)?;
            Some(format!("{part}{}", &name[..1]))
        });
        let all: Vec<String> = of_several.collect();
        assert_eq!(all.join(" "), "(r (r )r (a (r )r (a )a )r (a )a )a", "rank {rank}");
    }
}

/// Whether the sum ends after the products that do not need it, where its exchange takes `seconds`.
fn ends_late(seconds: f64, waits_at_once: bool) -> (bool, f64) {
    let trace = Trace::new();
    let ranks = Ranks {
        rank: 0,
        count: 2,
        leaves: 2,
    };
    let (w, x) = (
        trace.state("w", DType::F32, &[64, 64]),
        trace.input("x", DType::F32, &[64, 64]),
    );
    let early = x.exp();
    let mut y = x;
    trace.in_phase(Phase::Update, || {
        let sum = all_reduce(&[early], ranks);
        trace.assign(w, w - sum);
    });
    for _ in 0..3 {
        y = y.matmul(x);
    }
    trace.output("y", y);
    let options = Options {
        carrier: Some(Arc::new(Slow(seconds))),
        waits_at_once,
        ..Options::default()
    };
    let plan = compile(&trace.finish(), &options, &CpuTarget { threads: 1 }).unwrap();
    let nodes: Vec<_> = plan.steps().iter().flat_map(|step| &step.nodes).collect();
    let place = |is: fn(&str) -> bool| {
        let of = |id: &&NodeId| is(plan.graph().nodes[id.index()].op.name());
        nodes.iter().rposition(of).unwrap()
    };
    let is_late = place(|name| name == "end") > place(|name| name == "matmul" || name == "contraction");
    (is_late, plan.estimated_seconds())
}

#[test]
fn a_program_computes_while_messages_are_under_way_and_counts_what_it_waits() {
    let (is_late, free) = ends_late(0.0, false);
    assert!(!is_late, "what has arrived is read at once");
    let (is_late, slow) = ends_late(1.0, false);
    assert!(is_late);
    let (is_late, at_once) = ends_late(1.0, true);
    assert!(!is_late);
    assert!((slow - 1.0).abs() < 1e-3 && slow > 1.0, "{slow} s");
    assert!((at_once - 1.0 - free).abs() < 1e-6, "{at_once} s, {free} s");
}

#[test]
fn exchanges_that_follow_each_other_take_the_sum_of_their_seconds() {
    let ranks = Ranks {
        rank: 0,
        count: 2,
        leaves: 2,
    };
    for waits_at_once in [false, true] {
        let options = Options {
            carrier: Some(Arc::new(Slow(1.0))),
            waits_at_once,
            ..Options::default()
        };
        let plan = compile(&updates(ranks), &options, &CpuTarget { threads: 1 }).unwrap();
        let seconds = plan.estimated_seconds();
        assert!((seconds - 6.0).abs() < 1e-3, "{seconds} s");
    }
}

#[test]
fn a_graph_of_several_ranks_without_a_carrier_is_refused() {
    let error = carry(&graph(), None).unwrap_err().to_string();
    assert!(error.contains("`all_reduce` is of several ranks"), "{error}");
    let trace = Trace::new();
    trace.output("y", trace.input("x", DType::F32, &[4]).exp());
    assert_eq!(carry(&trace.finish(), None).unwrap().nodes.len(), 1);
}
