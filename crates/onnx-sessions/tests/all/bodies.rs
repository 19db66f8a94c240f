//! Bodies of loops that programs compute.

use lessen_cpu::CpuBackend;
use lessen_onnx::{HostTensor, Model};
use lessen_onnx_sessions::Session;
use std::sync::Arc;

use crate::builder::{Builder, F32, I64, int};
use crate::control::{BOOL, body, floats, graph, model, node, value, vector};

/// The session of a model.
fn session(b: &Builder) -> Session<CpuBackend> {
    let folder = tempfile::tempdir().unwrap();
    let path = b.write(folder.path(), "model.onnx");
    let model = Model::open_to_run(&path).unwrap();
    Session::new(Arc::new(model), Box::new(CpuBackend::new(2).unwrap())).unwrap()
}

/// The outputs of a session, and how many of its nodes were computed in memory.
fn ran(session: &Session<CpuBackend>, given: &[(&str, HostTensor)]) -> (Vec<HostTensor>, usize) {
    let given = given
        .iter()
        .map(|(name, tensor)| (name.to_string(), tensor.clone().into()));
    let found = session.run(given.collect()).unwrap();
    let found = found
        .iter()
        .map(|(_, value)| HostTensor::clone(value.tensor().unwrap()));
    (found.collect(), session.last_run().1.len())
}

#[test]
fn loops_of_a_known_number_of_turns_are_one_program() {
    // A state that stays as it is, one that grows by a row of `x` in each turn, and the rows so far.
    let inner = graph(
        vec![
            node("Gather", &["x", "i"], &["row"], vec![]),
            node("Mul", &["row", "w"], &["scaled"], vec![]),
            node("Add", &["s", "scaled"], &["s2"], vec![]),
            node("Identity", &["c"], &["c2"], vec![]),
            node("Neg", &["s2"], &["negative"], vec![]),
        ],
        vec![value("i", I64), value("c", BOOL), value("w", F32), value("s", F32)],
        vec![
            value("c2", BOOL),
            value("w", F32),
            value("s2", F32),
            value("negative", F32),
        ],
    );
    let nodes = vec![
        node("Shape", &["x"], &["shape"], vec![]),
        node("Gather", &["shape", "zero"], &["rows"], vec![]),
        node(
            "Loop",
            &["rows", "", "w0", "s0"],
            &["w1", "s1", "all"],
            vec![body("body", inner)],
        ),
    ];
    let mut b = model(&[("x", F32), ("w0", F32), ("s0", F32)], nodes, &["w1", "s1", "all"]);
    b.graph.initializer.push(HostTensor::scalar(0i64).to_message("zero"));
    let session = session(&b);
    for rows in [3usize, 5] {
        let x: Vec<f32> = (0..2 * rows).map(|i| i as f32).collect();
        let given = [
            ("x", floats(&[rows, 2], &x)),
            ("w0", vector(&[2.0, 0.5])),
            ("s0", vector(&[1.0, 0.0])),
        ];
        let (mut sums, mut all) = (vec![1.0, 0.0], Vec::new());
        for row in x.chunks(2) {
            sums = vec![sums[0] + 2.0 * row[0], sums[1] + 0.5 * row[1]];
            all.extend(sums.iter().map(|sum| -sum));
        }
        let right = vec![vector(&[2.0, 0.5]), vector(&sums), floats(&[rows, 2], &all)];
        for _ in 0..2 {
            assert_eq!(ran(&session, &given), (right.clone(), 0));
        }
    }
}

/// A loop that adds the rows of `x` up to its turn to a state, as long as the state's sum is below `limit`. A second
/// state has fixed extents, or one more row in each turn.
fn accumulating(grows: bool) -> Builder {
    let second = match grows {
        true => node("Concat", &["t", "row"], &["t2"], vec![int("axis", 0)]),
        false => node("Add", &["t", "product"], &["t2"], vec![]),
    };
    let inner = graph(
        vec![
            node("Reshape", &["i", "one"], &["number"], vec![]),
            node("Add", &["number", "one"], &["end"], vec![]),
            node("Slice", &["x", "none", "end"], &["rows"], vec![]),
            node("ReduceSum", &["rows", "none"], &["sum"], vec![int("keepdims", 0)]),
            node("Add", &["s", "sum"], &["s2"], vec![]),
            node("MatMul", &["s2", "w"], &["product"], vec![]),
            node("Unsqueeze", &["product", "none"], &["row"], vec![]),
            second,
            node("ReduceSum", &["s2"], &["total"], vec![int("keepdims", 0)]),
            node("Less", &["total", "limit"], &["goes_on"], vec![]),
        ],
        vec![value("i", I64), value("c", BOOL), value("s", F32), value("t", F32)],
        vec![
            value("goes_on", BOOL),
            value("s2", F32),
            value("t2", F32),
            value("product", F32),
        ],
    );
    let nodes = vec![node(
        "Loop",
        &["", "", "s0", "t0"],
        &["s1", "t1", "all"],
        vec![body("body", inner)],
    )];
    let mut b = model(
        &[("x", F32), ("limit", F32), ("s0", F32), ("t0", F32)],
        nodes,
        &["s1", "t1", "all"],
    );
    b.graph
        .initializer
        .push(HostTensor::vector(vec![1i64]).to_message("one"));
    b.graph
        .initializer
        .push(HostTensor::vector(vec![0i64]).to_message("none"));
    b.graph
        .initializer
        .push(floats(&[2, 2], &[2.0, 0.0, 1.0, -1.0]).to_message("w"));
    b
}

#[test]
fn loops_whose_end_is_computed_give_the_same_from_run_to_run() {
    let x = floats(&[6, 2], &[1.0, 2.0, 0.0, 1.0, 3.0, 1.0, 2.0, 2.0, 1.0, 0.0, 4.0, 1.0]);
    for grows in [false, true] {
        let session = session(&accumulating(grows));
        for limit in [30.0f32, 1e3, 9.0, 30.0] {
            let t0 = if grows {
                floats(&[1, 2], &[5.0, 6.0])
            } else {
                vector(&[5.0, 6.0])
            };
            let given = [
                ("x", x.clone()),
                ("limit", HostTensor::scalar(limit)),
                ("s0", vector(&[0.0, 0.0])),
                ("t0", t0),
            ];
            let (mut s, mut t, mut all, mut turns) = ([0.0f32; 2], vec![5.0f32, 6.0], Vec::new(), 0);
            let numbers = x.data().to_f64();
            while turns == 0 || s[0] + s[1] < limit {
                turns += 1;
                for row in numbers.chunks(2).take(turns) {
                    s = [s[0] + row[0] as f32, s[1] + row[1] as f32];
                }
                let product = [2.0 * s[0] + s[1], -s[1]];
                all.extend(product);
                if grows {
                    t.extend(product);
                } else {
                    t = vec![t[0] + product[0], t[1] + product[1]];
                }
            }
            let t1 = if grows { floats(&[turns + 1, 2], &t) } else { vector(&t) };
            let right = vec![vector(&s), t1, floats(&[turns, 2], &all)];
            for _ in 0..2 {
                assert_eq!(ran(&session, &given).0, right, "{grows} {limit}");
            }
        }
    }
}

#[test]
fn positions_become_vectors_in_a_program() {
    let nodes = vec![
        node(
            "OneHot",
            &["ids", "depth", "numbers"],
            &["vectors"],
            vec![int("axis", 0)],
        ),
        node("Add", &["vectors", "x"], &["y"], vec![]),
    ];
    let mut b = model(&[("ids", I64), ("x", F32)], nodes, &["y"]);
    b.graph.initializer.push(HostTensor::scalar(3i64).to_message("depth"));
    b.graph.initializer.push(vector(&[-1.0, 4.0]).to_message("numbers"));
    let given = [
        ("ids", HostTensor::vector(vec![2i64, -3, 7, 1])),
        ("x", floats(&[3, 4], &[0.0; 12])),
    ];
    let right = [-1.0, 4.0, -1.0, -1.0, -1.0, -1.0, -1.0, 4.0, 4.0, -1.0, -1.0, -1.0];
    let session = session(&b);
    for _ in 0..2 {
        assert_eq!(ran(&session, &given), (vec![floats(&[3, 4], &right)], 0));
    }
}
