//! Operations of several ranks, whose graphs are run together.

use std::collections::HashMap;

use lessen_graph::ops::BroadcastFrom;
use lessen_graph::{
    Array, DType, Graph, Ranks, Registry, Tensor, Trace, TraceRef, all_gather, all_reduce, broadcast_from, evaluate,
    evaluate_ranks, parse, print, reduce_scatter, side_by_side, verify,
};

use crate::prng::Prng;

/// Leaves of the sums.
const LEAVES: usize = 8;

/// Elements at whose multiples pieces begin.
const BLOCK: usize = 4;

fn ranks_of(count: usize, leaves: usize) -> impl Iterator<Item = Ranks> {
    (0..count).map(move |rank| Ranks { rank, count, leaves })
}

/// The leaves of a rank in `f32`, added up as a process does: subtree by subtree.
fn sums(trace: TraceRef, ranks: Ranks, shape: &[usize]) -> Vec<Tensor> {
    fn sum(trace: TraceRef, node: std::ops::Range<usize>, shape: &[usize]) -> Tensor {
        if node.len() == 1 {
            return trace.input(&format!("leaf{}", node.start), DType::F32, shape);
        }
        let split = node.start + (1 << (node.len() - 1).ilog2());
        sum(trace, node.start..split, shape) + sum(trace, split..node.end, shape)
    }
    let subtrees = ranks.subtrees().into_iter();
    subtrees.map(|node| sum(trace, node, shape)).collect()
}

fn graph(build: impl Fn(TraceRef)) -> Graph {
    let trace = Trace::new();
    build(*trace);
    trace.finish()
}

#[test]
fn sums_have_the_same_bits_on_any_number_of_ranks() {
    let random = &mut Prng::new(1);
    let leaves: HashMap<String, Array> = (0..LEAVES)
        .map(|leaf| (format!("leaf{leaf}"), random.normal(&[5, 3])))
        .collect();
    let mut first: Option<Vec<f64>> = None;
    for count in 1..=LEAVES {
        let graphs = ranks_of(count, LEAVES).map(|ranks| {
            graph(|trace| {
                let own = sums(trace, ranks, &[5, 3]);
                trace.output("all", all_reduce(&own, ranks));
                let piece = reduce_scatter(&own, ranks, BLOCK);
                trace.output("piece", piece);
                trace.output("whole", all_gather(piece, &[5, 3], ranks, BLOCK));
                trace.output("last", broadcast_from(own[0], count - 1, ranks));
            })
        });
        let graphs: Vec<Graph> = graphs.collect();
        let results = evaluate_ranks(&graphs, &vec![leaves.clone(); count]).unwrap();
        let pieces: Vec<f64> = results.iter().flat_map(|own| own["piece"].data.clone()).collect();
        let first = first.get_or_insert_with(|| pieces.clone());
        assert_eq!(*first, pieces, "{count} ranks");
        for own in &results {
            assert_eq!(
                (&own["all"].data, &own["whole"].data),
                (&*first, &*first),
                "{count} ranks"
            );
            assert_eq!(own["last"], results[count - 1]["last"]);
        }
    }
}

/// A graph of a leaf with all collectives and their derivatives.
fn leaf_graph(ranks: Ranks) -> Graph {
    graph(|trace| {
        let (x, w) = (trace.input("x", DType::F32, &[6]), trace.state("w", DType::F32, &[6]));
        let y = x * w;
        let all = all_reduce(&[y * y], ranks).tanh();
        let piece = reduce_scatter(&[all * y], ranks, 1);
        let whole = all_gather(piece.tanh(), &[6], ranks, 1);
        let first = broadcast_from(y * (1.0 + ranks.rank as f64), LEAVES - 2, ranks);
        let loss = ((whole + y).tanh() * first).sum();
        trace.output("loss", loss);
        trace.output("dw", loss.grad(&[w])[0]);
    })
}

#[test]
fn leaves_side_by_side_have_the_bits_of_leaves_with_a_rank_each() {
    let random = &mut Prng::new(3);
    let w = random.normal(&[6]);
    let x: Vec<Array> = (0..LEAVES).map(|_| random.normal(&[6])).collect();
    let graphs: Vec<Graph> = ranks_of(LEAVES, LEAVES).map(leaf_graph).collect();
    let given = |x: &Array| HashMap::from([("x".to_string(), x.clone()), ("w".to_string(), w.clone())]);
    let expected = evaluate_ranks(&graphs, &x.iter().map(given).collect::<Vec<_>>()).unwrap();
    for count in 1..=LEAVES {
        let name = |name: &str, leaf: usize| format!("{name} of {leaf}");
        let of_rank = |ranks: Ranks| {
            let own = ranks.own_leaves();
            let graph = side_by_side(&graphs[own.clone()], ranks, |place, own_name| {
                name(own_name, own.start + place)
            });
            let graph = graph.unwrap().graph;
            verify(&graph).unwrap();
            let mut inputs: HashMap<String, Array> = own.map(|leaf| (name("x", leaf), x[leaf].clone())).collect();
            inputs.insert("w".to_string(), w.clone());
            (graph, inputs)
        };
        let (joined, inputs): (Vec<Graph>, Vec<_>) = ranks_of(count, LEAVES).map(of_rank).unzip();
        let found = evaluate_ranks(&joined, &inputs).unwrap();
        for (leaf, expected) in expected.iter().enumerate() {
            for what in ["loss", "dw"] {
                let own = found.iter().find_map(|own| own.get(&name(what, leaf)));
                assert_eq!(own, expected.get(what), "{what} of leaf {leaf} on {count} ranks");
            }
        }
    }
}

#[test]
fn leaves_with_other_collectives_are_refused() {
    let other = graph(|trace| {
        let x = trace.input("x", DType::F32, &[6]);
        trace.output("loss", x.sum());
    });
    let ranks = Ranks {
        rank: 0,
        count: 1,
        leaves: LEAVES,
    };
    let mut graphs: Vec<Graph> = ranks_of(LEAVES, LEAVES).map(leaf_graph).collect();
    graphs[5] = other;
    let error = side_by_side(&graphs, ranks, |place, name| format!("{name} of {place}")).unwrap_err();
    assert!(error.to_string().contains("in one order"), "{error}");
}

#[test]
fn pieces_begin_at_the_same_elements_on_any_number_of_ranks() {
    for (count, numel) in (1..=LEAVES).flat_map(|count| [0, 1, 7, 64, 1000].map(|numel| (count, numel))) {
        let mut end = 0;
        for ranks in ranks_of(count, LEAVES) {
            let own = ranks.owned(numel, BLOCK);
            assert_eq!(own.start, end);
            let mut pieces = ranks_of(LEAVES, LEAVES).map(|leaf| leaf.owned(numel, BLOCK));
            assert!(own.is_empty() || pieces.any(|piece| piece.start == own.start));
            end = own.end;
        }
        assert_eq!(end, numel);
    }
}

/// The sum of all ranks' losses, as a function of what they have.
fn losses(graphs: &[Graph], inputs: &[HashMap<String, Array>]) -> f64 {
    let results = evaluate_ranks(graphs, inputs).unwrap();
    results.iter().map(|own| own["loss"].data[0]).sum()
}

#[test]
fn derivatives_are_those_of_the_sum_of_all_losses() {
    let count = 3;
    let random = &mut Prng::new(2);
    let x: Vec<HashMap<String, Array>> = (0..count)
        .map(|_| {
            let x = random.normal(&[6]);
            let x = Array::new(lessen_graph::Type::new(DType::F64, &[6]), x.data);
            HashMap::from([("x".to_string(), x)])
        })
        .collect();
    type Collective = fn(Tensor, Ranks) -> Tensor;
    let collectives: [(&str, Collective); 4] = [
        ("all_reduce", |x, ranks| all_reduce(&[x], ranks)),
        ("reduce_scatter", |x, ranks| reduce_scatter(&[x], ranks, 1)),
        ("all_gather", |x, ranks| {
            let own = ranks.owned(6, 1);
            all_gather(x.slice(0, own.start, own.len()), &[6], ranks, 1)
        }),
        ("broadcast_from", |x, ranks| broadcast_from(x, 1, ranks)),
    ];
    for (name, collective) in collectives {
        let with = |derivative: bool| {
            let graphs = ranks_of(count, count).map(|ranks| {
                graph(|trace| {
                    let x = trace.input("x", DType::F64, &[6]);
                    let y = collective(x * x, ranks);
                    let weight = (ranks.rank + 1) as f64;
                    let loss = (y.tanh() * weight).sum();
                    trace.output("loss", loss);
                    if derivative {
                        trace.output("dx", loss.grad(&[x])[0]);
                    }
                })
            });
            graphs.collect::<Vec<_>>()
        };
        let found = evaluate_ranks(&with(true), &x).unwrap();
        let graphs = with(false);
        for (rank, at) in (0..count).flat_map(|rank| (0..6).map(move |at| (rank, at))) {
            let moved = |by: f64| {
                let mut x = x.clone();
                x[rank].get_mut("x").unwrap().data[at] += by;
                losses(&graphs, &x)
            };
            let wanted = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            let dx = found[rank]["dx"].data[at];
            assert!(
                (dx - wanted).abs() < 1e-8,
                "{name}, rank {rank}, element {at}: {dx}, not {wanted}"
            );
        }
    }
}

#[test]
fn collectives_have_a_text_form() {
    let ranks = Ranks {
        rank: 1,
        count: 2,
        leaves: 3,
    };
    let graph = graph(|trace| {
        let x = trace.input("x", DType::F32, &[3, 4]);
        let piece = reduce_scatter(&[x, x], ranks, BLOCK);
        let whole = all_gather(piece, &[3, 4], ranks, BLOCK);
        trace.output("y", broadcast_from(all_reduce(&[whole, x], ranks), 0, ranks));
    });
    let text = print(&graph);
    assert_eq!(print(&parse(&text, &Registry::with_collectives()).unwrap()), text);
}

#[test]
fn graphs_that_do_not_fit_together_are_refused() {
    let both = |first: bool| {
        move |ranks: Ranks| {
            graph(|trace| {
                let x = trace.input("x", DType::F32, &[2]);
                let y = match first {
                    true => all_reduce(&[x], ranks),
                    false => broadcast_from(x, 0, ranks),
                };
                trace.output("y", y);
            })
        }
    };
    let x = HashMap::from([("x".to_string(), Array::f32(&[2], vec![1.0, 2.0]))]);
    let mut ranks = ranks_of(2, 2);
    let graphs = [both(true)(ranks.next().unwrap()), both(false)(ranks.next().unwrap())];
    let error = evaluate_ranks(&graphs, &[x.clone(), x.clone()])
        .unwrap_err()
        .to_string();
    assert!(error.contains("in one order"), "{error}");
    let alone = evaluate(&graphs[0], &x).unwrap_err().to_string();
    assert!(alone.contains("`all_reduce` is of several ranks"), "{alone}");
    let trace = Trace::new();
    let y = trace.attempt(|| {
        let x = trace.input("x", DType::F32, &[2]);
        let op = BroadcastFrom {
            rank: 0,
            ranks: 2,
            root: 2,
        };
        trace.apply1(op, &[x])
    });
    assert!(y.unwrap_err().to_string().contains("a root among 2 ranks"));
}
