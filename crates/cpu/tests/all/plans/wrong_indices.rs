//! A wrong index is an error that names it, and leaves every state as it was.

use std::collections::HashMap;

use lessen_compile::Placement;
use lessen_cpu::{CpuBackend, Device, Executable, Host, Store};
use lessen_device::Backend;
use lessen_device::suite::check_plan as check;
use lessen_graph::{Array, DType, Graph, Phase, Tensor, Trace, Type};

use crate::plans::runner::{self, Options, compile};
use crate::random::Random;

const CLASSES: usize = 5;
const ROWS: usize = 300;

/// One step of SGD with momentum on a linear classifier, whose labels are made of an input.
fn classifier(labels: impl Fn(Tensor) -> Tensor) -> Graph {
    let trace = Trace::new();
    {
        let x = trace.input("x", DType::F32, &[ROWS, 8]);
        let given = trace.input("labels", DType::I32, &[ROWS]);
        let w = trace.state("w", DType::F32, &[8, CLASSES]);
        let count = trace.state("count", DType::F32, &[]);
        let momentum = trace.state("momentum", DType::F32, &[8, CLASSES]);
        let loss = x.matmul(w).cross_entropy(labels(given)).mean();
        trace.output("loss", loss);
        let gradient = loss.grad(&[w])[0];
        trace.in_phase(Phase::Update, || {
            let moved = momentum * 0.9 + gradient;
            trace.assign(momentum, moved);
            trace.assign(w, w - moved * 0.1);
            trace.assign(count, count + 1.0);
        });
    }
    trace.finish()
}

fn inputs(wrong: Option<(usize, f64)>) -> HashMap<String, Array> {
    let mut random = Random::new(5);
    let mut labels = random.ids(&[ROWS], CLASSES - 1);
    if let Some((at, label)) = wrong {
        labels.data[at] = label;
    }
    HashMap::from([
        ("x".to_string(), random.array(&[ROWS, 8], 1.0)),
        ("labels".to_string(), labels),
        ("w".to_string(), random.array(&[8, CLASSES], 1.0)),
        ("count".to_string(), Array::full(Type::f32(&[]), 7.0)),
        ("momentum".to_string(), random.array(&[8, CLASSES], 1.0)),
    ])
}

fn states(store: &Store) -> Vec<Vec<u32>> {
    let bits = |name: &str| store.f32(name).unwrap().iter().map(|x| x.to_bits()).collect();
    store.names().map(bits).collect()
}

/// Runs a step that fails; returns the error. The states must be as before, and the next step works.
fn failed_step(graph: &Graph, wrong: (usize, f64)) -> Vec<String> {
    let each = [Placement::Separate, Placement::BackwardFused].map(|placement| {
        let options = Options {
            threads: 2,
            placement,
            budget: None,
        };
        let mut executable = Executable::load(compile(graph, &options).unwrap());
        check(executable.plan()).unwrap();
        let mut device = Device::new(2).unwrap();
        let mut store = runner::store(graph, &inputs(None));
        let before = states(&store);
        let result = runner::run(&mut executable, &mut device, &mut store, &inputs(Some(wrong)));
        let error = result.unwrap_err().to_string();
        assert!(states(&store) == before, "a state has changed: {error}");
        runner::run(&mut executable, &mut device, &mut store, &inputs(None)).unwrap();
        assert!(states(&store) != before, "the next step works");
        error
    });
    each.into()
}

#[test]
fn a_label_out_of_range_changes_no_state_and_is_named() {
    for error in failed_step(&classifier(|labels| labels), (131, 5.0)) {
        assert_eq!(
            error,
            "the input `labels` holds the index 5 at [131], but indices there must be at least 0 and below 5, or -100 for \
             none"
        );
    }
}

#[test]
fn a_computed_label_out_of_range_changes_no_state() {
    // In the graph an addition makes the labels, so that only the step itself can find a wrong one.
    let graph = classifier(|labels| labels + labels.scalar_like(1.0));
    for error in failed_step(&graph, (299, 4.0)) {
        assert_eq!(
            error,
            "`cross_entropy` reads the index 5 that is computed from `labels`, but indices there must be at least 0 and \
             below 5; no state has been updated"
        );
    }
}

#[test]
fn an_index_that_depends_on_an_update_is_found_before_the_state_changes() {
    let trace = Trace::new();
    {
        let position = trace.state("position", DType::F32, &[]);
        let table = trace.input("table", DType::F32, &[3, 4]);
        let next = trace.in_phase(Phase::Update, || position + 1.0);
        trace.assign(position, next);
        trace.output("row", table.gather(next.cast(DType::I32)));
    }
    let graph = trace.finish();
    let mut executable = Executable::load(compile(&graph, &Options::default()).unwrap());
    check(executable.plan()).unwrap();
    let (mut device, mut store) = (Device::new(1).unwrap(), Store::new());
    store.insert_f32("position", &[], &[0.0]);
    let table = [0.5; 12];
    let data = [("table", Host::F32(&table))];
    for step in 0..4 {
        let result = executable.run(&mut device, &mut store, &data);
        assert_eq!(result.is_ok(), step < 2, "step {step}");
        assert_eq!(store.f32("position").unwrap(), [2f32.min(step as f32 + 1.0)]);
    }
}

#[test]
fn indices_are_checked_where_views_and_copies_read_them() {
    let trace = Trace::new();
    let ids = trace.input("ids", DType::I32, &[4, 3]);
    let table = trace.input("table", DType::F32, &[7, 2]);
    trace.output("row", table.gather(ids.slice(0, 1, 2)));
    trace.output("column", table.gather(ids.slice(1, 2, 1).reshape(&[4])));
    let mut executable = Executable::load(compile(&trace.finish(), &Options::default()).unwrap());
    let mut device = Device::new(1).unwrap();
    let table = [0.5; 14];
    let mut run = |at: usize, index: i32| {
        let mut ids = [0; 12];
        ids[at] = index;
        let data = [("ids", Host::I32(&ids[..])), ("table", Host::F32(&table[..]))];
        executable.run(&mut device, &mut Store::new(), &data)
    };
    // Elements that nothing reads as an index may be anything.
    for unread in [0, 1, 9, 10] {
        run(unread, 99).unwrap();
    }
    for (at, place) in [(2, "[0, 2]"), (3, "[1, 0]"), (7, "[2, 1]"), (11, "[3, 2]")] {
        let error = run(at, -1).unwrap_err().to_string();
        let expected = format!("the input `ids` holds the index -1 at {place}, but indices there must be");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn indices_in_states_and_constants_are_checked_before_the_step() {
    let graph = |state: bool| {
        let trace = Trace::new();
        {
            let ids = if state {
                trace.state("ids", DType::I32, &[2])
            } else {
                trace.constant(Array::i32(&[2], &[1, 9]))
            };
            let table = trace.state("table", DType::F32, &[7, 2]);
            let rows = table.gather(ids);
            trace.output("rows", rows);
            trace.in_phase(Phase::Update, || trace.assign(table, table * 2.0));
        }
        trace.finish()
    };
    let mut backend = CpuBackend::new(2).unwrap();
    let model = backend.add_model();
    let table = [0.5; 14];
    backend.allocate(model, "table", &Type::f32(&[7, 2])).unwrap();
    backend.upload(model, "table", Host::F32(&table)).unwrap();
    backend.allocate(model, "ids", &Type::new(DType::I32, &[2])).unwrap();
    backend.upload(model, "ids", Host::I32(&[1, 9])).unwrap();
    for (state, name) in [(true, "the input `ids`"), (false, "a constant")] {
        let options = lessen_compile::Options::default();
        let plan = lessen_compile::compile(&graph(state), &options, backend.target()).unwrap();
        let program = backend.load(model, plan).unwrap();
        let error = backend.run(program, &[]).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{name} holds the index 9 at [1]")),
            "{error}"
        );
    }
    let unchanged = |host: Host<'_>| assert_eq!(host.as_f32().unwrap(), table);
    backend.download(model, "table", &mut { unchanged }).unwrap();
}
