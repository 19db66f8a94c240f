//! Public fields of standard operations with values that no shape bears out: the type rule refuses them, or the kernel
//! computes the results of the reference evaluator. No field is trusted for a size or an index.

use std::sync::Arc;

use lessen_cpu::Device;
use lessen_device::suite::{Sample, samples};
use lessen_graph::{Array, Attr, Attrs, DType, Op, Registry, Trace, Type};

use crate::random::Random;
use crate::table_runs::{assert_runs_like_the_reference, run};

/// Values that a field is changed to.
const VALUES: [i64; 16] = [
    -2,
    -1,
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    64,
    1 << 32,
    1 << 59,
    1 << 61,
    1 << 62,
    i64::MAX - 15,
    i64::MAX,
];

/// The attributes with one integer or truth value changed, in every way.
fn changed(attrs: &Attrs) -> Vec<Attrs> {
    let mut all = Vec::new();
    for (i, (_, value)) in attrs.0.iter().enumerate() {
        let mut put = |value: Attr| {
            let mut attrs = attrs.clone();
            attrs.0[i].1 = value;
            all.push(attrs);
        };
        match value {
            Attr::Int(_) => VALUES.map(|x| put(Attr::Int(x))).into_iter().collect(),
            Attr::Bool(x) => put(Attr::Bool(!x)),
            Attr::Ints(list) => {
                for at in 0..list.len() {
                    for x in VALUES {
                        let mut list = list.clone();
                        list[at] = x;
                        put(Attr::Ints(list));
                    }
                }
                put(Attr::Ints(list[..list.len().saturating_sub(1)].to_vec()));
                put(Attr::Ints([&list[..], &[1]].concat()));
            }
            Attr::Float(_) | Attr::Floats(_) | Attr::Word(_) => {}
        }
    }
    all
}

#[test]
fn fields_of_any_value_are_refused_or_computed_as_the_reference_does() {
    /// Elements of a result that is computed here; larger ones are only compiled.
    const MOST: usize = 1 << 16;
    let (registry, mut random) = (Registry::standard(), Random::new(34));
    let mut device = Device::new(2).unwrap();
    let mut runs = 0;
    for sample in samples() {
        let inputs = sample.inputs.iter();
        let types: Vec<Type> = inputs
            .map(|(own, shape)| Type::new(own.unwrap_or(DType::F32), shape))
            .collect();
        for attrs in changed(&sample.op.attrs()) {
            let Ok(op) = registry.build(sample.op.name(), &attrs) else {
                continue;
            };
            let Ok(outputs) = op.infer(&types) else {
                continue;
            };
            let elements = outputs.iter().map(Type::numel).fold(0, usize::saturating_add);
            let has_small_results = elements <= MOST;
            let changed = Sample {
                op,
                inputs: sample.inputs.clone(),
            };
            if has_small_results {
                assert_runs_like_the_reference(&changed, &types, &mut device, &mut random, 3);
                runs += 1;
            }
        }
    }
    assert!(runs > 500, "only {runs} changed operations are admitted");
}

/// The sums of rows of two numbers, whose ids are below `rows`.
fn combined(rows: usize) -> Option<Vec<f64>> {
    let op: Arc<dyn Op> = Arc::new(lessen_graph::ops::CombineRows { rows });
    let types = [Type::new(DType::I32, &[2]), Type::f32(&[2, 2])];
    op.infer(&types).ok()?;
    let trace = Trace::new();
    let (ids, updates) = (
        trace.input("x0", DType::I32, &[2]),
        trace.input("x1", DType::F32, &[2, 2]),
    );
    trace.output("y", trace.apply_shared(op, &[ids, updates])[0]);
    let inputs = [
        (
            "x0".to_string(),
            Array::from_fn(types[0].clone(), |i| 3.0 * i[0] as f64),
        ),
        (
            "x1".to_string(),
            Array::from_fn(types[1].clone(), |i| (2 * i[0] + i[1]) as f64),
        ),
    ];
    let mut device = Device::new(2).unwrap();
    let results = run(&trace.finish(), &mut device, &inputs.into_iter().collect());
    Some(results.unwrap()["y"].clone())
}

#[test]
fn rows_of_combine_rows_decide_no_size_of_memory() {
    for rows in [4, 1 << 24, (1 << 24) + 1, 1 << 31] {
        assert_eq!(combined(rows), Some(vec![0.0, 1.0, 2.0, 3.0]), "{rows} rows");
    }
    for rows in [1 << 61, 1 << 62, usize::MAX] {
        let found = combined(rows);
        assert!(
            found.is_none() || found == Some(vec![0.0, 1.0, 2.0, 3.0]),
            "{rows} rows: {found:?}"
        );
    }
}

#[test]
fn first_positions_are_the_same_by_table_and_by_order() {
    let mut random = Random::new(35);
    let (ids, width) = (300, 70);
    let types = [Type::new(DType::I32, &[ids]), Type::f32(&[ids, width])];
    let inputs = [
        ("x0".to_string(), random.ids(&[ids], 40)),
        ("x1".to_string(), random.array(&[ids, width], 1.0)),
    ];
    let results = [40, (1 << 24) + 1].map(|rows| {
        let trace = Trace::new();
        let (x0, x1) = (
            trace.input("x0", DType::I32, &types[0].shape),
            trace.input("x1", DType::F32, &types[1].shape),
        );
        let op: Arc<dyn Op> = Arc::new(lessen_graph::ops::CombineRows { rows });
        trace.output("y", trace.apply_shared(op, &[x0, x1])[0]);
        let mut device = Device::new(2).unwrap();
        run(&trace.finish(), &mut device, &inputs.clone().into_iter().collect()).unwrap()["y"].clone()
    });
    assert!(results[0].iter().any(|&x| x != 0.0));
    assert_eq!(results[0], results[1]);
}
