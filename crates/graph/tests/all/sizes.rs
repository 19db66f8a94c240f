//! Sizes that cannot lie: huge extents and huge fields of every operation are errors, or give types whose bytes can be
//! counted; nothing wraps, overflows or panics.

use std::collections::BTreeSet;
use std::sync::Arc;

use lessen_graph::ops::*;
use lessen_graph::{
    Array, Attr, DType, Graph, GraphBuilder, InputKind, Layout, Op, Phase, Registry, Trace, Type, ValueId,
    checked_numel, evaluate, evaluate_op, lower, numel, parse, verify,
};

use crate::cases::cases;

/// Sizes at which products and sums overflow.
const HUGE: [usize; 9] = [
    usize::MAX,
    usize::MAX - 15,
    1 << 63,
    i64::MAX as usize,
    1 << 62,
    1 << 54,
    1 << 53,
    (1 << 31) + 1,
    1 << 31,
];

/// Sizes of two fields whose sum or product overflows.
const HUGE_PAIRS: [(usize, usize); 5] = [
    (usize::MAX - 15, 16),
    (16, usize::MAX - 15),
    (1 << 63, 1 << 63),
    (1 << 32, 1 << 32),
    (1 << 62, 4),
];

/// Checks an operation on types: it is refused, or all of its results have sizes that can be counted. Whether it is
/// accepted.
fn is_accepted(op: &Arc<dyn Op>, inputs: &[Type]) -> bool {
    // Neither of the two may panic.
    let direct = op.infer(inputs);
    let Ok(outputs) = op.infer_checked(inputs) else {
        return false;
    };
    assert_eq!(direct.unwrap(), outputs);
    for ty in inputs.iter().chain(&outputs) {
        let bytes = ty.checked_bytes().unwrap_or_else(|| panic!("{op:?} accepts {ty}"));
        assert!(bytes == ty.bytes() && bytes <= isize::MAX as usize, "{op:?}: {ty}");
    }
    // Questions of a compiler about accepted types.
    op.cost(inputs, &outputs);
    op.row_wise(inputs, &outputs);
    op.index_input(inputs);
    op.on_slices((1, 2), inputs, &outputs);
    op.accumulating(inputs);
    op.of_bf16(inputs, &vec![false; inputs.len()]);
    op.from_output(inputs);
    (0..inputs.len()).for_each(|input| drop(op.inverse(input, inputs)));
    true
}

/// The operation with each of its sizes replaced by each huge one, and each two of them by huge ones.
fn with_fields<T: Op + Clone>(op: &dyn Op, places: fn(&mut T) -> Vec<&mut usize>) -> Vec<Arc<dyn Op>> {
    let Some(op) = op.downcast_ref::<T>() else {
        return Vec::new();
    };
    let count = places(&mut op.clone()).len();
    let changed = |changes: &[(usize, usize)]| -> Arc<dyn Op> {
        let mut op = op.clone();
        let mut places = places(&mut op);
        changes.iter().for_each(|&(place, size)| *places[place] = size);
        Arc::new(op)
    };
    let mut all = Vec::new();
    for i in 0..count {
        all.extend(HUGE.map(|size| changed(&[(i, size)])));
        for j in 0..i {
            all.extend(HUGE_PAIRS.map(|(a, b)| changed(&[(i, a), (j, b)])));
        }
    }
    all
}

fn of_options(options: &mut Conv2dOptions) -> Vec<&mut usize> {
    let Conv2dOptions {
        stride,
        padding,
        dilation,
        groups,
        ..
    } = options;
    let lists = stride.iter_mut().chain(padding).chain(dilation);
    lists.chain([groups]).collect()
}

fn of_windows(windows: &mut Pool2d) -> Vec<&mut usize> {
    let Pool2d {
        kernel,
        stride,
        padding,
    } = windows;
    kernel.iter_mut().chain(stride).chain(padding).collect()
}

fn of_sampling(sampling: &mut Sampling) -> Vec<&mut usize> {
    match sampling {
        Sampling::Average { windows, .. } => of_windows(windows),
        Sampling::AdaptiveAverage { size } | Sampling::Nearest { size } | Sampling::Bilinear { size } => {
            size.iter_mut().collect()
        }
    }
}

/// A scan with huge numbers of turns, carries and slices, as far as it can be made.
fn of_scan(op: &dyn Op) -> Vec<Arc<dyn Op>> {
    let Some(op) = op.downcast_ref::<Scan>() else {
        return Vec::new();
    };
    let made = |turns, carries, slices| -> Option<Arc<dyn Op>> {
        let options = ScanOptions { turns, ..op.options() };
        Some(Arc::new(Scan::new(op.body().clone(), options, carries, slices).ok()?))
    };
    let (turns, carries, slices) = (op.options().turns, op.carries(), op.slices());
    let huge = HUGE.into_iter().chain([turns]);
    huge.flat_map(|n| {
        [
            made(n, carries, slices),
            made(turns, n, slices),
            made(turns, carries, n),
        ]
    })
    .flatten()
    .collect()
}

/// The operation with huge sizes in all of its fields.
fn mutations(op: &dyn Op) -> Vec<Arc<dyn Op>> {
    [
        with_fields::<Gru>(op, |o| o.order.iter_mut().collect()),
        with_fields::<GruBackward>(op, |o| o.order.iter_mut().collect()),
        with_fields::<Lstm>(op, |o| o.order.iter_mut().collect()),
        with_fields::<LstmBackward>(op, |o| o.order.iter_mut().collect()),
        with_fields::<Pad>(op, |o| vec![&mut o.before, &mut o.after, &mut o.axis]),
        with_fields::<Slice>(op, |o| vec![&mut o.start, &mut o.len, &mut o.axis]),
        with_fields::<Split>(op, |o| o.sizes.iter_mut().chain([&mut o.axis]).collect()),
        with_fields::<Concat>(op, |o| vec![&mut o.axis]),
        with_fields::<AllReduce>(op, |o| vec![&mut o.rank, &mut o.ranks, &mut o.leaves]),
        with_fields::<BroadcastFrom>(op, |o| vec![&mut o.rank, &mut o.ranks, &mut o.root]),
        with_fields::<ReduceScatter>(op, |o| vec![&mut o.rank, &mut o.ranks, &mut o.leaves, &mut o.block]),
        with_fields::<AllGather>(op, |o| {
            let fields = vec![&mut o.rank, &mut o.ranks, &mut o.leaves, &mut o.block];
            fields.into_iter().chain(&mut o.shape).collect()
        }),
        with_fields::<UpdateSlice>(op, |o| vec![&mut o.axis]),
        with_fields::<Broadcast>(op, |o| o.shape.iter_mut().collect()),
        with_fields::<Reshape>(op, |o| o.shape.iter_mut().collect()),
        with_fields::<Permute>(op, |o| o.axes.iter_mut().collect()),
        with_fields::<FakeQuantize>(op, |o| vec![&mut o.axis]),
        with_fields::<Reduce>(op, |o| o.axes.iter_mut().collect()),
        with_fields::<Full>(op, |o| o.ty.shape.iter_mut().collect()),
        with_fields::<Iota>(op, |o| o.ty.shape.iter_mut().chain([&mut o.axis]).collect()),
        with_fields::<Constant>(op, |o| Arc::make_mut(&mut o.array).ty.shape.iter_mut().collect()),
        with_fields::<RandomBits>(op, |o| o.shape.iter_mut().collect()),
        with_fields::<Dropout>(op, |o| vec![&mut o.first]),
        with_fields::<UnpackBits>(op, |o| vec![&mut o.width]),
        with_fields::<DequantizeGroups>(op, |o| vec![&mut o.group, &mut o.columns]),
        with_fields::<GroupedMatMul>(op, |o| vec![&mut o.group]),
        with_fields::<Histogram>(op, |o| vec![&mut o.parts]),
        with_fields::<ScatterAdd>(op, |o| vec![&mut o.rows]),
        with_fields::<CombineRows>(op, |o| vec![&mut o.rows]),
        with_fields::<SumAlong>(op, |o| vec![&mut o.extent]),
        with_fields::<TopK>(op, |o| vec![&mut o.k]),
        with_fields::<Conv2d>(op, |o| of_options(&mut o.options)),
        with_fields::<QuantizedConv2d>(op, |o| of_options(&mut o.options)),
        with_fields::<Conv2dGradInput>(op, |o| {
            of_options(&mut o.options).into_iter().chain(&mut o.size).collect()
        }),
        with_fields::<Conv2dGradWeight>(op, |o| {
            of_options(&mut o.options).into_iter().chain(&mut o.kernel).collect()
        }),
        with_fields::<MaxPool2d>(op, |o| of_windows(&mut o.windows)),
        with_fields::<MaxPool2dGather>(op, |o| of_windows(&mut o.windows)),
        with_fields::<MaxPool2dScatter>(op, |o| {
            of_windows(&mut o.windows).into_iter().chain(&mut o.size).collect()
        }),
        with_fields::<Resample2d>(op, |o| of_sampling(&mut o.sampling)),
        with_fields::<Resample2dGrad>(op, |o| {
            of_sampling(&mut o.sampling).into_iter().chain(&mut o.size).collect()
        }),
        with_fields::<Attention>(op, |o| vec![&mut o.sequence]),
        with_fields::<AttentionBackward>(op, |_| Vec::new()),
        of_scan(op),
    ]
    .concat()
}

/// Whether an attribute is a size: no number of a stream, class, exponent or code.
fn is_size((name, value): &(String, Attr)) -> bool {
    let is_number = matches!(value, Attr::Int(_)) || matches!(value, Attr::Ints(list) if !list.is_empty());
    let is_other = ["stream", "ignore", "least", "most"].contains(&name.as_str()) || name.ends_with("zero");
    is_number && !is_other
}

#[test]
fn huge_fields_of_every_operation_are_refused_or_counted() {
    let mut mutated = BTreeSet::new();
    for case in cases(71) {
        let inputs: Vec<Type> = case.inputs.iter().map(|a| a.ty.clone()).collect();
        let arrays: Vec<&Array> = case.inputs.iter().collect();
        for op in mutations(case.op.as_ref()) {
            mutated.insert(op.name());
            if is_accepted(&op, &inputs) {
                let outputs = op.infer(&inputs).unwrap();
                let is_of_one = op.ranks().is_none_or(|ranks| ranks.count == 1);
                if is_of_one && outputs.iter().all(|ty| ty.numel() < 1 << 16) {
                    // The evaluator computes the operation, with results of the inferred types.
                    let found = evaluate_op(op.as_ref(), &arrays).unwrap();
                    assert!(found.iter().all(|array| array.data.len() == array.ty.numel()), "{op:?}");
                }
            }
        }
    }
    for case in cases(71).iter().filter(|case| case.op.attrs().0.iter().any(is_size)) {
        let name = case.op.name();
        assert!(
            mutated.contains(name) || name == "attention_backward",
            "the sizes of {name} are not mutated"
        );
    }
}

#[test]
fn huge_fields_in_the_text_form_are_refused_or_counted() {
    let registry = Registry::standard();
    for case in cases(72) {
        let inputs: Vec<Type> = case.inputs.iter().map(|a| a.ty.clone()).collect();
        let attrs = case.op.attrs();
        for (i, _) in attrs.0.iter().enumerate().filter(|(_, attr)| is_size(attr)) {
            for huge in [i64::MAX, i64::MIN, 1 << 62, (1 << 48) - 1, 1 << 47, 1 << 31] {
                let values = match &attrs.0[i].1 {
                    Attr::Ints(list) => (0..list.len())
                        .map(|j| {
                            let mut list = list.clone();
                            list[j] = huge;
                            Attr::Ints(list)
                        })
                        .collect(),
                    _ => vec![Attr::Int(huge)],
                };
                for value in values {
                    let mut changed = attrs.clone();
                    changed.0[i].1 = value;
                    if let Ok(op) = registry.build(case.op.name(), &changed) {
                        is_accepted(&op, &inputs);
                    }
                }
            }
        }
    }
}

#[test]
fn huge_extents_of_every_operation_are_refused_or_counted() {
    for case in cases(73) {
        let types: Vec<Type> = case.inputs.iter().map(|a| a.ty.clone()).collect();
        let extents: BTreeSet<usize> = types.iter().flat_map(|ty| ty.shape.clone()).collect();
        for huge in HUGE.into_iter().chain([1 << 50, 1 << 40, 1 << 36]) {
            // One extent alone, and all extents that were equal.
            for input in 0..types.len() {
                for axis in 0..types[input].rank() {
                    let mut changed = types.clone();
                    changed[input].shape[axis] = huge;
                    is_accepted(&case.op, &changed);
                }
            }
            for &extent in &extents {
                let mut changed = types.clone();
                let all = changed.iter_mut().flat_map(|ty| ty.shape.iter_mut());
                all.filter(|n| **n == extent).for_each(|n| *n = huge);
                is_accepted(&case.op, &changed);
            }
        }
    }
}

#[test]
fn what_is_accepted_can_be_decomposed() {
    for case in cases(74) {
        let types: Vec<Type> = case.inputs.iter().map(|a| a.ty.clone()).collect();
        let extents: BTreeSet<usize> = types.iter().flat_map(|ty| ty.shape.clone()).collect();
        for &extent in &extents {
            for huge in [1 << 12, 1 << 20, (1 << 31) + 1, 1 << 40, 1 << 50, (1 << 54) - 1] {
                let mut changed = types.clone();
                let all = changed.iter_mut().flat_map(|ty| ty.shape.iter_mut());
                all.filter(|n| **n == extent).for_each(|n| *n = huge);
                // Rotations and slopes are constants as long as the axis.
                let has_constants =
                    ["rope", "attention", "attention_backward", "update_slice"].contains(&case.op.name());
                if !is_accepted(&case.op, &changed) || has_constants && huge > 1 << 12 {
                    continue;
                }
                let trace = Trace::new();
                {
                    let declared = changed.iter().enumerate();
                    let inputs: Vec<_> = declared
                        .map(|(i, ty)| trace.input(&i.to_string(), ty.dtype, &ty.shape))
                        .collect();
                    trace.apply_shared(case.op.clone(), &inputs);
                }
                let graph = trace.finish();
                verify(&graph).unwrap();
                lower(&graph, &|op| op.name() != case.op.name());
            }
        }
    }
}

#[test]
fn pads_whose_extents_wrap_are_refused() {
    let x = [Type::f32(&[4])];
    for (before, after) in HUGE_PAIRS.into_iter().chain(HUGE.map(|n| (n, 0))) {
        let pad = Pad {
            axis: 0,
            before,
            after,
            value: 0.0,
        };
        let fits = before.checked_add(after).and_then(|n| n.checked_add(4));
        let fits = fits.filter(|&n| checked_numel(&[n]).is_some());
        assert_eq!(pad.infer(&x).ok(), fits.map(|n| vec![Type::f32(&[n])]));
    }
    let trace = Trace::new();
    let error = trace.attempt(|| drop(trace.input("x", DType::F32, &[4]).pad(0, usize::MAX - 15, 16, 0.0).ty()));
    let error = error.unwrap_err().to_string();
    assert!(
        error.ends_with("pad: f32[4] with 18446744073709551600 positions before and 16 after axis 0 is too large"),
        "{error}"
    );
}

#[test]
fn splits_and_concats_whose_extents_wrap_are_refused() {
    let split = |sizes: &[usize]| Split {
        axis: 0,
        sizes: sizes.to_vec(),
    };
    assert!(split(&[usize::MAX, 5]).infer(&[Type::f32(&[4])]).is_err());
    assert!(split(&[1 << 63, 1 << 63, 4]).infer(&[Type::f32(&[4])]).is_err());
    let halves = vec![Type::f32(&[1 << 63]); 2];
    assert!(Concat { axis: 0 }.infer(&halves).is_err());
    // Each of them fits, all of them do not.
    let many = vec![Type::f32(&[1 << 53]); 2048];
    assert!(Concat { axis: 0 }.infer(&many).is_err());
}

#[test]
fn rows_that_no_index_reaches_are_refused() {
    let inputs = [Type::new(DType::I32, &[4]), Type::f32(&[4])];
    for rows in HUGE {
        let is_few = rows <= 1 << 31;
        assert_eq!(CombineRows { rows }.infer(&inputs).is_ok(), is_few, "{rows}");
        assert_eq!(ScatterAdd { rows }.infer(&inputs).is_ok(), is_few, "{rows}");
        let table = Type::new(DType::U8, &[rows]);
        assert_eq!(Gather.infer(&[table, inputs[0].clone()]).is_ok(), is_few, "{rows}");
    }
    // As many rows as indices reach, but updates for few of them.
    let ids = Array::i32(&[4], &[5, 1, 5, i32::MAX]);
    let updates = Array::f32(&[4], vec![0.0, 3.0, 3.0, 1.0]);
    let found = evaluate_op(&CombineRows { rows: 1 << 31 }, &[&ids, &updates]).unwrap();
    assert_eq!(found[0].data, [3.0, 3.0, 0.0, 1.0]);
}

#[test]
fn constants_whose_elements_are_not_their_types_are_refused() {
    for (shape, count) in [(vec![4], 3), (vec![1 << 62, 4], 0), (vec![usize::MAX, 2], 2)] {
        let array = Array {
            ty: Type::f32(&shape),
            data: vec![0.0; count],
        };
        let op = Constant { array: Arc::new(array) };
        assert!(op.infer(&[]).is_err(), "{shape:?}");
    }
}

#[test]
fn inputs_that_cannot_be_counted_are_refused_everywhere() {
    for shape in [vec![1 << 62], vec![1 << 32, 1 << 32], vec![0, usize::MAX, 2]] {
        let ty = Type::f32(&shape);
        for kind in [InputKind::Data, InputKind::State] {
            let error = Graph::default().add_input("x", kind, ty.clone()).unwrap_err();
            assert_eq!(error.message(), format!("the input `x` of type {ty} is too large"));
        }
        let mut builder = GraphBuilder::new();
        assert!(builder.input("x", DType::F32, &shape).is_err());
        assert!(builder.state("x", DType::F32, &shape).is_err());
        assert!(builder.input("x", DType::F32, &[1]).is_ok());
        let text = format!("input \"x\" %0 : {ty}");
        let error = parse(&text, &Registry::standard()).unwrap_err();
        assert_eq!(error.message(), format!("line 1: the type {ty} is too large"));
    }
}

#[test]
fn the_verifier_counts_the_size_of_every_value() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", InputKind::State, Type::f32(&[4])).unwrap();
    let relu: Arc<dyn Op> = Arc::new(Relu);
    let y = graph.add_node(relu, &[x], Phase::Forward, Arc::from("")).unwrap()[0];
    verify(&graph).unwrap();
    for value in [x, y] {
        let mut broken = graph.clone();
        broken.values[value.index()].ty = Type::f32(&[1 << 62]);
        let error = verify(&broken).unwrap_err();
        let sentence = format!("the type f32[4611686018427387904] of %{} is too large", value.0);
        assert_eq!(error.message(), sentence);
    }
    // Types that agree with each other do not make up for their size.
    let mut broken = graph;
    for value in &mut broken.values {
        value.ty = Type::f32(&[1 << 62]);
    }
    assert!(verify(&broken).is_err());
}

#[test]
fn sizes_never_wrap() {
    assert_eq!(numel(&[1 << 32, 1 << 32]), usize::MAX);
    assert_eq!(numel(&[1 << 62, 4, 0]), 0);
    assert_eq!(Type::f32(&[1 << 62]).bytes(), usize::MAX);
    assert_eq!(checked_numel(&[1 << 62, 4, 0]), None);
    assert_eq!(checked_numel(&[0, 3]), Some(0));
    assert_eq!(checked_numel(&[]), Some(1));
    assert_eq!(checked_numel(&[(1 << 54) - 1]), Some((1 << 54) - 1));
    assert_eq!(checked_numel(&[1 << 54]), None);
    for dtype in DType::ALL {
        // A cast to any dtype fits where its input does.
        assert_eq!(Type::new(dtype, &[1 << 53]).checked_bytes(), Some(dtype.bytes() << 53));
    }
}

#[test]
fn values_that_are_too_large_to_evaluate_are_errors() {
    let trace = Trace::new();
    let one = trace.full(DType::F32, &[], 1.0);
    trace.output("sum", one.broadcast_to(&[1 << 50]).sum());
    let error = evaluate(&trace.finish(), &Default::default()).unwrap_err();
    assert_eq!(
        error.message(),
        "the reference evaluator computes values of fewer than 2^31 elements, not f32[1125899906842624]"
    );
    let full = Full {
        ty: Type::f32(&[1 << 50]),
        value: 1.0,
    };
    assert!(evaluate_op(&full, &[]).is_err());
    assert_eq!(Layout::dense(&[4, 1 << 62, 1 << 62]).strides, [usize::MAX, 1 << 62, 1]);
}

#[test]
fn a_value_that_does_not_exist_is_an_error() {
    let mut graph = Graph::default();
    let error = graph
        .add_node(Arc::new(Relu), &[ValueId(7)], Phase::Forward, Arc::from(""))
        .unwrap_err();
    assert_eq!(error.message(), "the graph has no value %7");
}
