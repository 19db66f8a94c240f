//! Tracing: a graph under construction, and the handles of its values. Each operation's file adds its methods to them.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::graph::{Assign, Graph, InputKind, Output, Phase, ValueId};
use crate::op::Op;
use crate::types::{DType, Type};

/// A graph under construction. Operations on its [`Tensor`]s append nodes.
#[derive(Debug, Default)]
pub struct Trace {
    graph: RefCell<Graph>,
    phase: Cell<Phase>,
    scope: RefCell<Arc<str>>,
    streams: Cell<u32>,
    names: RefCell<Names>,
}

/// Names that are taken and states that are assigned.
#[derive(Debug, Default)]
struct Names {
    inputs: HashSet<String>,
    outputs: HashSet<String>,
    assigned: HashSet<ValueId>,
}

impl Names {
    fn of(graph: &Graph) -> Names {
        Names {
            inputs: graph.inputs.iter().map(|i| i.name.clone()).collect(),
            outputs: graph.outputs.iter().map(|o| o.name.clone()).collect(),
            assigned: graph.assigns.iter().map(|a| a.target).collect(),
        }
    }
}

impl Trace {
    /// An empty trace.
    pub fn new() -> Trace {
        Trace {
            scope: RefCell::new(Arc::from("")),
            ..Trace::default()
        }
    }

    /// An empty trace whose first stream of random numbers is this one.
    pub(crate) fn from_stream(stream: u32) -> Trace {
        Trace {
            streams: Cell::new(stream),
            ..Trace::new()
        }
    }

    /// A trace that appends to a graph.
    pub fn of(graph: Graph) -> Trace {
        Trace {
            streams: Cell::new(graph.next_stream()),
            names: RefCell::new(Names::of(&graph)),
            graph: RefCell::new(graph),
            ..Trace::new()
        }
    }

    /// Declares an input that the caller of every run provides.
    ///
    /// # Panics
    /// If there is an input of this name, or its size cannot be counted.
    #[track_caller]
    pub fn input(&self, name: &str, dtype: DType, shape: &[usize]) -> Tensor<'_> {
        self.declare(name, InputKind::Data, Type::new(dtype, shape))
    }

    /// Declares a state that is kept between runs: a parameter or a value of the optimizer.
    ///
    /// # Panics
    /// If there is an input of this name, or its size cannot be counted.
    #[track_caller]
    pub fn state(&self, name: &str, dtype: DType, shape: &[usize]) -> Tensor<'_> {
        self.declare(name, InputKind::State, Type::new(dtype, shape))
    }

    #[track_caller]
    fn declare(&self, name: &str, kind: InputKind, ty: Type) -> Tensor<'_> {
        let new = self.names.borrow_mut().inputs.insert(name.to_string());
        assert!(new, "the graph already has an input called `{name}`");
        assert!(ty.fits(), "the input `{name}` of type {ty} is too large");
        let id = self.graph.borrow_mut().add_input(name, kind, ty);
        Tensor { trace: self, id }
    }

    /// Applies an operation and returns its outputs.
    ///
    /// # Panics
    /// With the operation's sentence when the inputs' shapes or dtypes do not fit it.
    #[track_caller]
    pub fn apply(&self, op: impl Op, inputs: &[Tensor<'_>]) -> Vec<Tensor<'_>> {
        self.apply_shared(Arc::new(op), inputs)
    }

    /// [`Trace::apply`] for an operation that is already shared.
    #[track_caller]
    pub fn apply_shared(&self, op: Arc<dyn Op>, inputs: &[Tensor<'_>]) -> Vec<Tensor<'_>> {
        for input in inputs {
            assert!(
                std::ptr::eq(input.trace(), self),
                "{}: a tensor of another trace",
                op.name()
            );
        }
        let ids: Vec<ValueId> = inputs.iter().map(|t| t.id()).collect();
        let scope = self.scope.borrow().clone();
        let outputs = self.graph.borrow_mut().add_node(op, &ids, self.phase.get(), scope);
        match outputs {
            Ok(ids) => ids.into_iter().map(|id| Tensor { trace: self, id }).collect(),
            Err(sentence) => panic!("{sentence}"),
        }
    }

    /// [`Trace::apply`] for an operation with one output.
    #[track_caller]
    pub fn apply1(&self, op: impl Op, inputs: &[Tensor<'_>]) -> Tensor<'_> {
        self.apply(op, inputs)[0]
    }

    /// Names a result of the graph.
    ///
    /// # Panics
    /// If there is an output of this name.
    #[track_caller]
    pub fn output(&self, name: &str, value: Tensor<'_>) {
        let new = self.names.borrow_mut().outputs.insert(name.to_string());
        assert!(new, "the graph already has an output called `{name}`");
        self.graph.borrow_mut().outputs.push(Output {
            name: name.to_string(),
            value: value.id(),
        });
    }

    /// Assigns a state: after a run, `target` holds `value`.
    ///
    /// # Panics
    /// If `target` is no state, is assigned already, or the types differ.
    #[track_caller]
    pub fn assign(&self, target: Tensor<'_>, value: Tensor<'_>) {
        let (old, new) = (target.ty(), value.ty());
        let mut graph = self.graph.borrow_mut();
        let Some(input) = graph.input(target.id()) else {
            panic!("only a state can be assigned")
        };
        assert!(
            input.kind == InputKind::State,
            "the input `{}` is data, only a state can be assigned",
            input.name
        );
        assert!(
            old == new,
            "the state `{}` of type {old} cannot hold a {new}",
            input.name
        );
        let new = self.names.borrow_mut().assigned.insert(target.id());
        assert!(new, "the state `{}` is assigned twice", input.name);
        graph.assigns.push(Assign {
            target: target.id(),
            value: value.id(),
        });
    }

    /// Calls `f`; the nodes that it appends belong to `phase`.
    pub fn in_phase<R>(&self, phase: Phase, f: impl FnOnce() -> R) -> R {
        let before = self.phase.replace(phase);
        let result = f();
        self.phase.set(before);
        result
    }

    /// Calls `f`; the nodes that it appends belong to the scope `name` inside the current one.
    pub fn in_scope<R>(&self, name: &str, f: impl FnOnce() -> R) -> R {
        let before = self.scope.borrow().clone();
        let inner = if before.is_empty() {
            Arc::from(name)
        } else {
            Arc::from(format!("{before}.{name}"))
        };
        self.scope.replace(inner);
        let result = f();
        self.scope.replace(before);
        result
    }

    /// The number of a stream of random bits that no other operation of this trace draws from.
    pub fn new_stream(&self) -> u32 {
        let stream = self.streams.get();
        self.streams.set(stream + 1);
        stream
    }

    /// The next stream of random bits.
    pub(crate) fn streams(&self) -> u32 {
        self.streams.get()
    }

    /// The handle of a value of the graph under construction.
    pub fn tensor(&self, id: ValueId) -> Tensor<'_> {
        Tensor { trace: self, id }
    }

    /// Calls `f` with the graph under construction.
    pub fn with_graph<R>(&self, f: impl FnOnce(&Graph) -> R) -> R {
        f(&self.graph.borrow())
    }

    pub(crate) fn set_scope(&self, scope: Arc<str>) -> Arc<str> {
        self.scope.replace(scope)
    }

    /// The finished graph.
    pub fn finish(self) -> Graph {
        self.graph.into_inner()
    }
}

/// A handle of a value: a reference to its trace and a number. Copying it does not copy the value.
#[derive(Clone, Copy)]
pub struct Tensor<'g> {
    trace: &'g Trace,
    id: ValueId,
}

impl<'g> Tensor<'g> {
    /// The trace it belongs to.
    pub fn trace(self) -> &'g Trace {
        self.trace
    }

    /// The value.
    pub fn id(self) -> ValueId {
        self.id
    }

    /// Dtype and shape.
    pub fn ty(self) -> Type {
        self.trace.with_graph(|g| g.ty(self.id).clone())
    }

    /// Shape, outermost axis first.
    pub fn shape(self) -> Vec<usize> {
        self.ty().shape
    }

    /// Element type.
    pub fn dtype(self) -> DType {
        self.ty().dtype
    }

    /// Number of axes.
    pub fn rank(self) -> usize {
        self.ty().rank()
    }

    /// The extent of an axis, counted from the end when negative.
    ///
    /// # Panics
    /// If there is no such axis.
    #[track_caller]
    pub fn dim(self, axis: isize) -> usize {
        let shape = self.shape();
        shape[self.axis(axis)]
    }

    /// A non-negative axis from one that may count from the end.
    ///
    /// # Panics
    /// If there is no such axis.
    #[track_caller]
    pub fn axis(self, axis: isize) -> usize {
        let rank = self.rank() as isize;
        let resolved = if axis < 0 { axis + rank } else { axis };
        assert!(
            (0..rank).contains(&resolved),
            "axis {axis} of a tensor of type {}",
            self.ty()
        );
        resolved as usize
    }
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}: {}", self.id.0, self.ty())
    }
}
