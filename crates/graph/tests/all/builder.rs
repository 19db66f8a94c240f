//! Graphs built from plain numbers of values: every mistake is an error, after which the graph is as before.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_graph::ops::{Binary, BinaryKind, Dropout, MaxPool2d, Pool2d, Relu};
use lessen_graph::{
    Array, DType, GraphBuilder, Op, Phase, Registry, Tensor, Trace, Type, ValueId, evaluate, print, verify,
};

/// One step of gradient descent on the mean square of `x w`, as [`traced`].
fn built() -> GraphBuilder {
    let registry = Registry::standard();
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[2, 3]).unwrap();
    let w = builder.state("w", DType::F32, &[3, 1]).unwrap();
    builder.set_scope("layer");
    let product = "transpose_a=false, transpose_b=false";
    let y = builder.push_named(&registry, "matmul", product, &[x, w]).unwrap()[0];
    let before = builder.set_scope("");
    assert_eq!(&*before, "layer");
    let square = builder
        .push(Arc::new(Binary { kind: BinaryKind::Mul }), &[y, y])
        .unwrap()[0];
    let loss = builder
        .push_named(&registry, "reduce", "{f=sum, axes=[0, 1]}", &[square])
        .unwrap()[0];
    let gradient = builder.grad(loss, &[w]).unwrap()[0];
    assert_eq!(builder.set_phase(Phase::Update), Phase::Forward);
    let new = builder
        .push_named(&registry, "binary", "f=sub", &[w, gradient])
        .unwrap()[0];
    builder.output(String::from("loss"), loss).unwrap();
    builder.assign(w, new).unwrap();
    builder
}

fn traced() -> Trace {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2, 3]);
    let w = trace.state("w", DType::F32, &[3, 1]);
    let y = trace.in_scope("layer", || x.matmul(w));
    let loss = (y * y).sum();
    let gradient = loss.grad(&[w])[0];
    let new = trace.in_phase(Phase::Update, || w - gradient);
    trace.output("loss", loss);
    trace.assign(w, new);
    trace
}

#[test]
fn a_built_graph_is_the_traced_one() {
    let graph = built().finish();
    verify(&graph).unwrap();
    assert_eq!(print(&graph), print(&traced().finish()));
    let inputs = HashMap::from([
        ("x".to_string(), Array::f32(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ("w".to_string(), Array::f32(&[3, 1], vec![1.0, 0.0, -1.0])),
    ]);
    assert_eq!(evaluate(&graph, &inputs).unwrap()["loss"].item(), 8.0);
}

/// Asserts that a mistake is this error, and that the graph is the same after it.
#[track_caller]
fn refused<T: std::fmt::Debug>(
    sentence: &str,
    builder: &mut GraphBuilder,
    mistake: impl FnOnce(&mut GraphBuilder) -> lessen_graph::Result<T>,
) {
    let before = (print(builder.graph()), builder.graph().values.len());
    assert_eq!(mistake(builder).unwrap_err().message(), sentence);
    assert_eq!(
        (print(builder.graph()), builder.graph().values.len()),
        before,
        "{sentence}"
    );
    verify(builder.graph()).unwrap();
}

#[test]
fn every_mistake_is_an_error() {
    let mut builder = built();
    let b = &mut builder;
    let registry = &Registry::standard();
    let (x, w, missing) = (ValueId(0), ValueId(1), ValueId(99));
    let loss = b.graph().outputs[0].value;
    refused("the graph already has an input called `x`", b, |b| {
        b.input("x", DType::F32, &[])
    });
    refused("the graph already has an input called `x`", b, |b| {
        b.state("x", DType::F32, &[])
    });
    refused("the graph already has an input called `w`", b, |b| {
        b.input("w", DType::F32, &[])
    });
    refused(
        "the input `v` of type f32[4611686018427387904,4] is too large",
        b,
        |b| b.state("v", DType::F32, &[1 << 62, 4]),
    );
    refused("the graph already has an output called `loss`", b, |b| {
        b.output("loss", x)
    });
    refused("the graph has no value %99", b, |b| b.output("y", missing));
    refused("the graph has no value %99", b, |b| b.assign(w, missing));
    refused("the graph has no value %99", b, |b| b.assign(missing, w));
    refused("the graph has no value %99", b, |b| b.push(Arc::new(Relu), &[missing]));
    refused("the graph has no value %99", b, |b| b.grad(loss, &[w, missing]));
    refused("the graph has no value %99", b, |b| b.grad(missing, &[w]));
    refused("the graph has no value %99", b, |b| b.ty(missing).cloned());
    refused("the state `w` is assigned twice", b, |b| b.assign(w, w));
    refused("the input `x` is data, only a state can be assigned", b, |b| {
        b.assign(x, x)
    });
    refused("only a state can be assigned", b, |b| b.assign(loss, loss));
    refused("the state `w` of type f32[3,1] cannot hold a f32[2,3]", b, |b| {
        b.assign(w, x)
    });
    refused("relu: needs 1 inputs, not 0", b, |b| b.push(Arc::new(Relu), &[]));
    refused("grad needs a float scalar, not f32[2,3]", b, |b| b.grad(x, &[w]));
    refused("there is no operation `conv3d`", b, |b| {
        b.push_named(registry, "conv3d", "", &[x])
    });
    refused("slice: attribute `start` must be a whole number", b, |b| {
        b.push_named(registry, "slice", "axis=1", &[x])
    });
    refused("relu: there is no attribute `alpha`", b, |b| {
        b.push_named(registry, "relu", "alpha=1", &[x])
    });
    refused("relu: a name is missing at the end", b, |b| {
        b.push_named(registry, "relu", "{", &[x])
    });
    refused("constant: bool[] cannot hold 2", b, |b| {
        b.constant(Array::new(Type::new(DType::Bool, &[]), vec![2.0]))
    });
    refused("constant: f32[2] does not have 1 elements", b, |b| {
        b.constant(Array {
            ty: Type::f32(&[2]),
            data: vec![0.0],
        })
    });
}

/// An operation without a derivative.
#[derive(PartialEq, Debug)]
struct Opaque;

impl Op for Opaque {
    fn name(&self) -> &'static str {
        "opaque"
    }

    fn infer(&self, _: &[Type]) -> lessen_graph::Result<Vec<Type>> {
        Ok(vec![Type::f32(&[])])
    }
}

/// An operation whose derivative gives too few cotangents.
#[derive(PartialEq, Debug)]
struct Short;

impl Op for Short {
    fn name(&self) -> &'static str {
        "short"
    }

    fn infer(&self, _: &[Type]) -> lessen_graph::Result<Vec<Type>> {
        Ok(vec![Type::f32(&[])])
    }

    fn vjp(&self, cx: &lessen_graph::Vjp<'_>) -> Vec<Option<Tensor>> {
        vec![cx.cotangents[0]]
    }
}

#[test]
fn a_derivative_that_fails_leaves_no_nodes() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[]).unwrap();
    builder.set_phase(Phase::Update);
    builder.set_scope("here");
    for (op, sentence) in [
        (
            Arc::new(Opaque) as Arc<dyn Op>,
            "the operation `opaque` has neither a derivative nor a decomposition",
        ),
        (
            Arc::new(Short),
            "the derivative of `short` gives 1 cotangents for 2 inputs",
        ),
    ] {
        let y = builder.push(op, &[x, x]).unwrap()[0];
        let z = builder.push(Arc::new(Relu), &[y]).unwrap()[0];
        let before = builder.graph().nodes.len();
        assert_eq!(builder.grad(z, &[x]).unwrap_err().message(), sentence);
        assert_eq!(builder.graph().nodes.len(), before);
        assert_eq!((builder.phase(), &**builder.scope()), (Phase::Update, "here"));
        assert_eq!(builder.push(Arc::new(Relu), &[x]).unwrap().len(), 1);
    }
    verify(builder.graph()).unwrap();
}

#[test]
fn streams_of_named_operations_are_not_drawn_again() {
    let registry = Registry::standard();
    let mut builder = GraphBuilder::new();
    let key = builder.input("key", DType::U32, &[2]).unwrap();
    assert_eq!(builder.new_stream().unwrap(), 0);
    builder
        .push_named(&registry, "random_bits", "stream=7, shape=[3]", &[key])
        .unwrap();
    assert_eq!(builder.new_stream().unwrap(), 8);
    let again = GraphBuilder::of(builder.finish()).new_stream();
    assert_eq!(again.unwrap(), 8);
    // Beyond the last stream there is none.
    let mut builder = GraphBuilder::new();
    let (x, key) = (
        builder.input("x", DType::F32, &[3]).unwrap(),
        builder.input("key", DType::U32, &[2]).unwrap(),
    );
    let last = Dropout {
        p: 0.5,
        stream: u32::MAX,
        first: 0,
    };
    builder.push(Arc::new(last), &[x, key]).unwrap();
    let mut builder = GraphBuilder::of(builder.finish());
    assert_eq!(
        builder.new_stream().unwrap_err().message(),
        "the graph has no stream of random bits left"
    );
}

#[test]
fn operations_with_several_outputs_return_all_of_them() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 4, 4, 2]).unwrap();
    let windows = Pool2d::square(2);
    let outputs = builder.push(Arc::new(MaxPool2d { windows }), &[x]).unwrap();
    let types: Vec<&Type> = outputs.iter().map(|&y| builder.ty(y).unwrap()).collect();
    assert_eq!(
        types,
        [&Type::f32(&[1, 2, 2, 2]), &Type::new(DType::I32, &[1, 2, 2, 2])]
    );
}
