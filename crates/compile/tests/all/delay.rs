//! Delayed updates: the graphs that the pass refuses, the states that it adds, and the schedule.

use lessen_compile::passes::{delay, updates};
use lessen_compile::{Options, Placement, compile};
use lessen_cpu::CpuTarget;
use lessen_graph::{DType, Graph, InputKind, Phase, Tensor, Trace, TraceRef};

/// A step of gradient descent with weights of the names `names`, each of its own layer, and the norm of the first
/// gradient. The layers do not share a row group, since each layer sums its rows.
fn step(names: [&str; 2], more: impl FnOnce(TraceRef, [Tensor; 2])) -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[256, 256]);
    let weights = names.map(|name| trace.state(name, DType::F32, &[256, 256]));
    let hidden = x.matmul_t(weights[0]).gelu().sum_axes(&[0]).reshape(&[1, 256]);
    let loss = (hidden.matmul_t(weights[1]).gelu() * 0.1).sum();
    trace.output("loss", loss);
    let gradients = loss.grad(&weights);
    trace.in_phase(Phase::Update, || {
        let norm = (gradients[0] * gradients[0]).sum().sqrt();
        trace.output("norm", norm);
        let (factor, rate) = (1.0 / (norm + 1.0), trace.input("lr", DType::F32, &[]));
        let new = [0, 1].map(|i| weights[i] - gradients[i] * factor * rate);
        let _ = [0, 1].map(|i| trace.assign(weights[i], new[i]));
        more(*trace, new);
    });
    trace.finish()
}

fn inputs(graph: &Graph, kind: InputKind) -> Vec<&str> {
    let inputs = graph.inputs.iter().filter(|input| input.kind == kind);
    inputs.map(|input| input.name.as_str()).collect()
}

#[test]
fn gradients_and_their_norm_wait_under_names_of_their_own() {
    let delayed = delay(&step(["w", "w.2"], |_, _| {}), &|_| true).unwrap();
    let mut pending = delayed.pending.clone();
    pending.sort();
    assert_eq!(pending, ["@pending.w", "@pending.w.2", "@pending.w.3"]);
    assert_eq!(inputs(&delayed.first, InputKind::Data), ["x"]);
    assert_eq!(inputs(&delayed.flush, InputKind::Data), ["@pending.lr"]);
    assert_eq!(inputs(&delayed.step, InputKind::Data), ["@pending.lr", "x"]);
    for graph in [&delayed.first, &delayed.step, &delayed.flush] {
        let states = inputs(graph, InputKind::State);
        assert!(pending.iter().all(|name| states.contains(&name.as_str())), "{states:?}");
    }
    let assigned = [&delayed.first, &delayed.step, &delayed.flush].map(|graph| graph.assigns.len());
    assert_eq!(assigned, [3, 5, 2]);
    // The gradient waits, not its product with the factor: every node that computes one number is in another graph.
    let numbers = |graph: &Graph| {
        graph
            .nodes
            .iter()
            .filter(|node| graph.ty(node.outputs[0]).numel() == 1)
            .count()
    };
    assert_eq!(numbers(&delayed.flush), 0);
    let products = delayed.first.nodes.iter().filter(|node| node.phase == Phase::Update);
    let products = products.filter(|node| delayed.first.ty(node.outputs[0]).numel() > 1);
    assert_eq!(products.count(), 1, "the squares of the norm");
    assert!(delayed.flush.outputs.is_empty());
}

/// The phases of the steps of a plan, each once where it follows itself.
fn phases(graph: &Graph, placement: Placement) -> Vec<Phase> {
    let options = Options {
        placement,
        ..Options::default()
    };
    let plan = compile(graph, &options, &CpuTarget { threads: 2 }).unwrap();
    assert!(plan.copies().is_empty());
    let nodes = plan.steps().iter().map(|step| step.nodes[0]);
    let mut phases: Vec<Phase> = nodes.map(|node| plan.graph().nodes[node.index()].phase).collect();
    phases.dedup();
    phases
}

#[test]
fn updates_run_before_the_steps_that_read_them_and_write_in_place() {
    let delayed = delay(&step(["a", "b"], |_, _| {}), &|_| true).unwrap();
    assert_eq!(
        phases(&delayed.step, Placement::ForwardFused)[..5],
        [
            Phase::Update,
            Phase::Forward,
            Phase::Update,
            Phase::Forward,
            Phase::Backward
        ]
    );
}

#[test]
fn updates_are_delayed_one_by_one() {
    let graph = step(["a", "b"], |_, _| {});
    let found: Vec<_> = updates(&graph).into_iter().map(|update| update.states).collect();
    assert_eq!(found, [["a"], ["b"]]);
    let bytes = 4 * 256 * 256;
    let sizes = updates(&graph)
        .into_iter()
        .map(|update| (update.read, update.gradients, update.touched));
    assert_eq!(sizes.collect::<Vec<_>>(), [(bytes, bytes, 2 * bytes); 2]);
    let delayed = delay(&graph, &|state| state == "b").unwrap();
    assert_eq!(inputs(&delayed.flush, InputKind::Data), ["@pending.lr"]);
    assert_eq!(inputs(&delayed.step, InputKind::Data), ["@pending.lr", "x", "lr"]);
    assert_eq!(inputs(&delayed.first, InputKind::Data), ["x", "lr"]);
    let assigned = [&delayed.first, &delayed.step, &delayed.flush].map(|graph| graph.assigns.len());
    assert_eq!(assigned, [3, 4, 1]);
    // One parameter is updated before the second layer reads it, the other one after the norm.
    for placement in [Placement::Planned, Placement::Separate] {
        assert_eq!(
            phases(&delayed.step, placement),
            [
                Phase::Forward,
                Phase::Update,
                Phase::Forward,
                Phase::Backward,
                Phase::Update
            ]
        );
    }
}

#[test]
fn what_cannot_wait_is_refused() {
    let sentence = |graph: &Graph| delay(graph, &|_| true).err().unwrap().to_string();
    let late = step(["a", "b"], |trace, new| trace.output("size", (new[0] * new[0]).sum()));
    assert!(sentence(&late).contains("the output `size` follows from the update"));
    let taken = step(["a", "@pending.b"], |_, _| {});
    assert!(sentence(&taken).contains("the name `@pending.b` is that of a gradient which waits"));
    let of_batch = step(["a", "b"], |trace, _| {
        let (x, sum) = (trace.input("z", DType::F32, &[3]), trace.state("sum", DType::F32, &[3]));
        trace.assign(sum, sum + x);
    });
    assert!(sentence(&of_batch).contains("the update reads `z`, which is another one in the next step"));
}
