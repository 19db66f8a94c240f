//! A name stands for one type of operation: the text form, passes and devices find operations by it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lessen_graph::{Attrs, Build, DType, Graph, Op, Phase, Registry, Result, Tensor, Trace, Type, parse};

/// An operation from outside that bears the name of a standard one.
#[derive(PartialEq, Debug)]
struct FalseRelu;

/// An operation from outside without attributes for its field.
#[derive(PartialEq, Debug)]
struct Scaled {
    by: f64,
}

/// Another operation of the same name.
#[derive(PartialEq, Debug)]
struct OtherScaled;

macro_rules! operation {
    ($op:ident, $name:literal, |$this:ident, $x:ident| $y:expr) => {
        impl Op for $op {
            fn name(&self) -> &'static str {
                $name
            }

            fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
                Ok(inputs.to_vec())
            }

            fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
                let ($this, $x) = (self, inputs[0]);
                Some(vec![$y])
            }
        }
    };
}

operation!(FalseRelu, "relu", |_this, x| -x);
operation!(Scaled, "scaled", |this, x| x * this.by);
operation!(OtherScaled, "scaled", |_this, x| x + x);

const TAKEN: &str = "the operation FalseRelu bears the name of the standard operation `relu`; rename it";

fn add(graph: &mut Graph, op: impl Op) -> Result<()> {
    let x = graph.inputs[0].value;
    graph
        .add_node(Arc::new(op), &[x], Phase::Forward, Arc::from(""))
        .map(drop)
}

fn graph() -> Graph {
    let trace = Trace::new();
    trace.input("x", DType::F32, &[2]);
    trace.finish()
}

#[test]
fn an_operation_with_the_name_of_a_standard_one_is_refused() {
    let mut graph = graph();
    assert_eq!(add(&mut graph, FalseRelu).unwrap_err().message(), TAKEN);
    assert!(graph.nodes.is_empty());
    add(&mut graph, lessen_graph::ops::Relu).unwrap();
    assert!(add(&mut graph, FalseRelu).is_err());

    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2]);
    let panic = catch_unwind(AssertUnwindSafe(|| trace.apply1(FalseRelu, &[x]))).unwrap_err();
    assert_eq!(*panic.downcast::<String>().unwrap(), TAKEN);

    let mut registry = Registry::new();
    registry.register("relu", |_| Ok(Arc::new(FalseRelu))).unwrap();
    let text = "input \"x\" %0 : f32[2]\n%1 = relu(%0) : f32[2]\n";
    let error = parse(text, &registry).unwrap_err();
    assert_eq!(error.message(), format!("line 2: {TAKEN}"));
}

#[test]
fn two_types_of_operation_with_one_name_are_refused() {
    let mut graph = graph();
    add(&mut graph, Scaled { by: 2.0 }).unwrap();
    add(&mut graph, Scaled { by: 3.0 }).unwrap();
    assert_eq!(
        add(&mut graph, OtherScaled).unwrap_err().message(),
        "two types of operation in one graph are called `scaled`, one of them OtherScaled; rename one"
    );
    assert_eq!(graph.nodes.len(), 2);
}

#[test]
fn operations_with_other_fields_are_not_the_same() {
    let (a, b): (&dyn Op, &dyn Op) = (&Scaled { by: 2.0 }, &Scaled { by: 3.0 });
    assert_eq!((a.attrs(), a.fingerprint()), (Attrs::new(), b.fingerprint()));
    assert!(a.same(&Scaled { by: 2.0 }) && !a.same(b) && !a.same(&OtherScaled));
}

#[test]
fn a_name_is_registered_once() {
    let build: Build = |_| Ok(Arc::new(OtherScaled));
    let mut registry = Registry::standard();
    registry.register("scaled", build).unwrap();
    for name in ["scaled", "relu"] {
        assert_eq!(
            registry.register(name, build).unwrap_err().message(),
            format!("an operation called `{name}` is registered already; choose another name")
        );
    }
}
