//! Dead code: what is left of a graph, and how its values are numbered.

use lessen_graph::{DType, Def, Trace, verify};
use lessen_rewrite::{eliminate_dead_code, without_dead_code};

#[test]
fn live_nodes_are_numbered_in_order_and_inputs_come_first() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2, 4]);
    let _unread = x.exp();
    let halves = x.split(1, &[1, 3]);
    let state = trace.state("s", DType::F32, &[2, 3]);
    let _unread_input = trace.input("unread", DType::F32, &[1]);
    let y = trace.in_scope("part", || halves[1] * state);
    trace.output("y", y.tanh());
    trace.assign(state, y);
    let graph = trace.finish();

    let live = eliminate_dead_code(&graph);
    verify(&live).unwrap();
    assert_eq!(live.inputs.len(), graph.inputs.len());
    let names: Vec<&str> = live.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(names, ["split", "binary", "unary"]);
    assert_eq!(&*live.nodes[1].scope, "part");
    let inputs = live
        .values
        .iter()
        .take_while(|value| matches!(value.def, Def::Input(_)));
    assert_eq!(inputs.count(), live.inputs.len());
    assert_eq!(
        lessen_graph::print(&without_dead_code(live.clone())),
        lessen_graph::print(&live)
    );
}
