//! Runs that cannot work say why in a sentence and leave the executable usable; numbers that are not finite flow
//! through.

use std::collections::HashMap;

use lessen_compile::Plan;
use lessen_cpu::{Device, Executable, Host, Store};
use lessen_graph::{Array, DType, Graph, Phase, Tensor, Trace, TraceRef, Type};

use crate::plans::gpt::{FEW_TOKENS, WIDE_BATCH, training};
use crate::plans::runner;
use crate::plans::runner::{Options, compile};

const DTYPES: [DType; 6] = [DType::F32, DType::F64, DType::BF16, DType::I32, DType::U32, DType::Bool];

fn options() -> Options {
    Options {
        threads: 2,
        ..Options::default()
    }
}

fn compiled(graph: &Graph) -> Plan {
    compile(graph, &options()).unwrap()
}

/// `w' = w + sum of the rows of x`, and the loss of `x w` with labels.
fn small() -> Graph {
    let trace = Trace::new();
    {
        let w = trace.state("w", DType::F32, &[4, 3]);
        let x = trace.input("x", DType::F32, &[150, 4]);
        let labels = trace.input("labels", DType::I32, &[150]);
        let loss = x.matmul(w).cross_entropy(labels);
        trace.output("loss", loss);
        let gradient = loss.grad(&[w])[0];
        let new = trace.in_phase(Phase::Update, || w - gradient);
        trace.assign(w, new);
    }
    trace.finish()
}

fn small_store() -> Store {
    let mut store = Store::new();
    store.insert_f32("w", &[4, 3], &[0.5; 12]);
    store
}

/// Runs and returns the sentence of the error.
fn error(graph: &Graph, store: &mut Store, data: &[(&str, Host<'_>)]) -> String {
    let mut executable = Executable::load(compiled(graph));
    let mut device = Device::new(2).unwrap();
    let error = executable.run(&mut device, store, data).unwrap_err().to_string();
    assert!(!error.contains('\n') && error.len() > 20, "{error}");
    error
}

#[test]
fn inputs_that_are_missing_or_of_another_type_are_named() {
    let graph = small();
    let (x, labels) = ([0.0; 600], [1; 150]);
    let store = &mut small_store();
    let missing = error(&graph, store, &[("x", Host::F32(&x))]);
    assert_eq!(missing, "no data is given for the input `labels`");
    let short = error(
        &graph,
        store,
        &[("x", Host::F32(&x[1..])), ("labels", Host::I32(&labels))],
    );
    assert_eq!(short, "the input `x` takes f32[150,4], not 599 elements of f32");
    let floats = [1.0; 150];
    let dtype = error(&graph, store, &[("x", Host::F32(&x)), ("labels", Host::F32(&floats))]);
    assert_eq!(dtype, "the input `labels` takes i32[150], not 150 elements of f32");
    assert_eq!(store.f32("w").unwrap(), [0.5; 12], "the states are as before");
}

#[test]
fn states_that_are_missing_or_of_another_type_are_named() {
    let graph = small();
    let (x, labels) = ([0.0; 600], [1; 150]);
    let data = [("x", Host::F32(&x[..])), ("labels", Host::I32(&labels[..]))];
    assert_eq!(
        error(&graph, &mut Store::new(), &data),
        "the state `w` of type f32[4,3] is not allocated; allocate it before the run"
    );
    let mut store = Store::new();
    store.insert_f32("w", &[3, 4], &[0.5; 12]);
    assert_eq!(
        error(&graph, &mut store, &data),
        "the state `w` must have type f32[4,3], not f32[3,4]"
    );
    store.insert_zeros("w", &Type::new(DType::I32, &[4, 3])).unwrap();
    assert_eq!(
        error(&graph, &mut store, &data),
        "the state `w` must have type f32[4,3], not i32[4,3]"
    );
}

#[test]
fn a_label_out_of_range_is_an_error_and_the_next_run_works() {
    let mut executable = Executable::load(compiled(&small()));
    let mut device = Device::new(2).unwrap();
    let x = [0.25; 600];
    for bad in [3, -1, i32::MAX, i32::MIN] {
        let mut labels = [1; 150];
        labels[140] = bad;
        let data = [("x", Host::F32(&x[..])), ("labels", Host::I32(&labels[..]))];
        let error = executable
            .run(&mut device, &mut small_store(), &data)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            format!(
                "the input `labels` holds the index {bad} at [140], but indices there must be at least 0 and below 3, or \
                 -100 for none"
            )
        );
    }
    let mut labels = [1; 150];
    labels[140] = -100;
    let data = [("x", Host::F32(&x[..])), ("labels", Host::I32(&labels[..]))];
    executable.run(&mut device, &mut small_store(), &data).unwrap();
    let loss = executable.output_f32("loss").unwrap()[0];
    assert!((loss - 3f32.ln()).abs() < 1e-6, "{loss}");
}

/// A graph of one `f32` output over ids.
fn indexed(write: impl Fn(TraceRef, Tensor) -> Tensor) -> Graph {
    let trace = Trace::new();
    let ids = trace.input("ids", DType::I32, &[5]);
    trace.output("y", write(*trace, ids).cast(DType::F32));
    trace.finish()
}

#[test]
fn an_index_out_of_range_is_an_error_for_every_operation_and_dtype() {
    let table = |dtype: DType| {
        indexed(move |trace, ids| {
            trace
                .constant(Array::from_fn(Type::f32(&[7, 3]), |i| i[0] as f64))
                .cast(dtype)
                .gather(ids)
        })
    };
    let mut graphs: Vec<Graph> = DTYPES.map(table).to_vec();
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        graphs.push(indexed(|trace, ids| {
            let updates = trace.constant(Array::full(Type::f32(&[5, 3]), 1.0)).cast(dtype);
            updates.scatter_add(ids, 7)
        }));
        graphs.push(indexed(|trace, ids| {
            let logits = trace
                .constant(Array::from_fn(Type::f32(&[5, 7]), |i| i[1] as f64))
                .cast(dtype);
            logits.cross_entropy(ids)
        }));
        graphs.push(indexed(|trace, ids| {
            let logits = trace.constant(Array::from_fn(Type::f32(&[5, 7]), |i| i[1] as f64));
            logits.cast(dtype).cross_entropy(ids).grad(&[logits])[0]
        }));
    }
    for graph in &graphs {
        let mut executable = Executable::load(compiled(graph));
        let mut device = Device::new(2).unwrap();
        let text = lessen_graph::print(graph);
        let mut run = |ids: [i32; 5]| executable.run(&mut device, &mut Store::new(), &[("ids", Host::I32(&ids))]);
        run([0, 6, 3, 1, 2]).unwrap_or_else(|e| panic!("{e} in\n{text}"));
        for bad in [7, -1, i32::MIN] {
            let error = run([0, 6, bad, 1, 2]).expect_err(&text).to_string();
            let begin = format!(
                "the input `ids` holds the index {bad} at [2], but indices there must be at least 0 and below 7"
            );
            assert!(error.starts_with(&begin), "{error} in\n{text}");
        }
        run([0, 6, 3, 1, 2]).unwrap();
    }
}

#[test]
fn gathers_from_tables_of_every_dtype_are_exact() {
    for dtype in DTYPES {
        let graph = indexed(|trace, ids| {
            let table = Array::from_fn(Type::f32(&[7, 3]), |i| ((i[0] * 3 + i[1]) % 5) as f64);
            trace.constant(table).cast(dtype).gather(ids)
        });
        let inputs = HashMap::from([("ids".to_string(), Array::i32(&[5], &[6, 0, 3, 3, 1]))]);
        let expected = lessen_graph::evaluate(&graph, &inputs).unwrap();
        let (_, found) = runner::run_once(&graph, &options(), &inputs);
        let found: Vec<f64> = found["y"].iter().map(|&x| f64::from(x)).collect();
        assert_eq!(found, expected["y"].data, "{}", dtype.name());
    }
}

#[test]
fn numbers_that_are_not_finite_flow_through_a_training_step() {
    for poison in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut training = training(WIDE_BATCH);
        let weights = training.inputs.get_mut("h.1.up.weight").unwrap();
        weights.data[5] = poison;
        let trained = training.train(&options(), 2).unwrap();
        assert!(trained.losses[0].is_nan(), "{:?}", trained.losses);
    }
}

#[test]
fn executables_share_a_device_and_a_store() {
    let (first, second) = (training(FEW_TOKENS), training(WIDE_BATCH));
    let alone = [
        first.train(&options(), 2).unwrap(),
        second.train(&options(), 2).unwrap(),
    ];
    // Small and large plans take turns in one arena, which grows once.
    let mut device = Device::new(2).unwrap();
    let mut executables = [&first, &second].map(|t| Executable::load(compiled(&t.graph)));
    let mut stores = [first.store(), second.store()];
    for step in 0..2 {
        for (i, training) in [&first, &second].into_iter().enumerate() {
            let batch = training.batch(step);
            runner::run(&mut executables[i], &mut device, &mut stores[i], &batch).unwrap();
            let loss = executables[i].output_f32("loss").unwrap()[0];
            assert_eq!(
                loss.to_bits(),
                alone[i].losses[step].to_bits(),
                "model {i}, step {step}"
            );
        }
    }
    assert_eq!(
        device.arena_bytes(),
        executables.iter().map(|e| e.plan().arena_bytes()).max().unwrap()
    );
    // A second plan reads the states that the first one has trained.
    let trace = Trace::new();
    let tokens = trace.state("tokens", DType::F32, &[FEW_TOKENS.vocabulary, FEW_TOKENS.width]);
    trace.output("tokens", tokens * 1.0);
    let mut reader = Executable::load(compiled(&trace.finish()));
    reader.run(&mut device, &mut stores[0], &[]).unwrap();
    assert_eq!(reader.output_f32("tokens").unwrap(), stores[0].f32("tokens").unwrap());
}

#[test]
fn empty_values_and_graphs_without_steps_run() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[3, 0]);
    let y = trace.input("y", DType::F32, &[0, 4]);
    trace.output("product", x.matmul(y));
    trace.output("sum", x.sum_axes(&[1]));
    trace.output("nothing", (x + 1.0).tanh().transpose(0, 1));
    trace.output("columns", y.sum_rows());
    trace.output("two", trace.full(DType::F32, &[2], 2.0));
    let graph = trace.finish();
    let inputs = HashMap::from([
        ("x".to_string(), Array::f32(&[3, 0], vec![])),
        ("y".to_string(), Array::f32(&[0, 4], vec![])),
    ]);
    let (_, found) = runner::run_once(&graph, &options(), &inputs);
    assert_eq!(found["product"], [0.0; 12]);
    assert_eq!(found["sum"], [0.0; 3]);
    assert_eq!(found["columns"], [0.0; 4]);
    assert!(found["nothing"].is_empty());
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2, 3]);
    trace.output("turned", x.transpose(0, 1));
    let inputs = HashMap::from([("x".to_string(), Array::f32(&[2, 3], (0..6).map(f64::from).collect()))]);
    let (_, found) = runner::run_once(&trace.finish(), &options(), &inputs);
    assert_eq!(found["turned"], [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
}
