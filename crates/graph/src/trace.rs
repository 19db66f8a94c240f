//! Tracing: a graph under construction, and the handles of its values. Each operation's file adds its methods to them.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;

use lessen_base::{Error, Result};

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
    /// Whether a mistake is caught by [`Trace::attempt`].
    attempts: Cell<bool>,
    /// Where nodes were appended, by the first of their outputs.
    places: RefCell<HashMap<ValueId, Place>>,
}

/// A line of the program that builds a graph.
type Place = &'static Location<'static>;

/// What unwinds from a mistake in [`Trace::attempt`].
struct Mistake {
    sentence: String,
    place: Place,
}

/// A scope that nodes are appended in until this is dropped; see [`Trace::enter_scope`].
pub struct Scope<'g> {
    trace: &'g Trace,
    before: Arc<str>,
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        self.trace.scope.replace(self.before.clone());
    }
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
        if !self.names.borrow_mut().inputs.insert(name.to_string()) {
            self.fail(format!("the graph already has an input called `{name}`"));
        }
        if !ty.fits() {
            self.fail(format!("the input `{name}` of type {ty} is too large"));
        }
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
            if !std::ptr::eq(input.trace(), self) {
                self.fail(format!("{}: a tensor of another trace", op.name()));
            }
        }
        let ids: Vec<ValueId> = inputs.iter().map(|t| t.id()).collect();
        let scope = self.scope.borrow().clone();
        let outputs = self.graph.borrow_mut().add_node(op, &ids, self.phase.get(), scope);
        match outputs {
            Ok(ids) => {
                if let (Some(first), true) = (ids.first(), self.attempts.get()) {
                    self.places.borrow_mut().insert(*first, Location::caller());
                }
                ids.into_iter().map(|id| Tensor { trace: self, id }).collect()
            }
            Err(sentence) => self.fail(sentence.to_string()),
        }
    }

    /// Ends the building of the graph because of a mistake in the program that builds it: an error of
    /// [`Trace::attempt`], where that is called, with the line of the caller.
    ///
    /// # Panics
    /// With the sentence, outside of [`Trace::attempt`].
    #[track_caller]
    pub fn fail(&self, sentence: impl Into<String>) -> ! {
        let sentence = sentence.into();
        // Where a program is to end at a panic, unwinding would end it without a word.
        if self.attempts.get() && cfg!(panic = "unwind") {
            let place = Location::caller();
            resume_unwind(Box::new(Mistake { sentence, place }));
        }
        panic!("{sentence}")
    }

    /// Calls `build`. What would make it panic in an operation of this trace, such as shapes that do not fit, is an
    /// error that names the line of the program. After an error the trace is of no use.
    ///
    /// # Errors
    /// Such a mistake. Other panics stay what they are.
    pub fn attempt<R>(&self, build: impl FnOnce() -> R) -> Result<R> {
        let built = self.caught(build);
        built.map_err(|mistake| Error::user(mistake.sentence).at(shown(mistake.place)))
    }

    /// The same for what a file describes: no line of the program is at fault.
    ///
    /// # Errors
    /// The first mistake.
    pub fn attempt_described<R>(&self, build: impl FnOnce() -> R) -> Result<R> {
        self.caught(build).map_err(|mistake| Error::user(mistake.sentence))
    }

    fn caught<R>(&self, build: impl FnOnce() -> R) -> std::result::Result<R, Box<Mistake>> {
        let before = self.attempts.replace(true);
        let result = catch_unwind(AssertUnwindSafe(build));
        self.attempts.set(before);
        result.map_err(|payload| match payload.downcast::<Mistake>() {
            Ok(mistake) => mistake,
            Err(other) => resume_unwind(other),
        })
    }

    /// The line of the program that made a value in [`Trace::attempt`], as `FILE:LINE`; none of an input.
    pub fn place_of(&self, value: Tensor<'_>) -> Option<String> {
        let graph = self.graph.borrow();
        let node = &graph.nodes[graph.producer(value.id())?.index()];
        self.places
            .borrow()
            .get(node.outputs.first()?)
            .map(|place| shown(place))
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
        if !self.names.borrow_mut().outputs.insert(name.to_string()) {
            self.fail(format!("the graph already has an output called `{name}`"));
        }
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
        let input = self.with_graph(|graph| graph.input(target.id()).cloned());
        let Some(input) = input else {
            self.fail("only a state can be assigned")
        };
        let name = input.name;
        if input.kind != InputKind::State {
            self.fail(format!("the input `{name}` is data, only a state can be assigned"));
        }
        if old != new {
            self.fail(format!("the state `{name}` of type {old} cannot hold a {new}"));
        }
        if !self.names.borrow_mut().assigned.insert(target.id()) {
            self.fail(format!("the state `{name}` is assigned twice"));
        }
        self.graph.borrow_mut().assigns.push(Assign {
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
        let _inside = self.enter_scope(name);
        f()
    }

    /// Nodes that are appended until the result is dropped belong to the scope `name` inside the current one.
    pub fn enter_scope(&self, name: &str) -> Scope<'_> {
        let before = self.scope.borrow().clone();
        let inner = if before.is_empty() {
            Arc::from(name)
        } else {
            Arc::from(format!("{before}.{name}"))
        };
        self.scope.replace(inner);
        Scope { trace: self, before }
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
        if !(0..rank).contains(&resolved) {
            self.trace
                .fail(format!("axis {axis} of a tensor of type {}", self.ty()));
        }
        resolved as usize
    }
}

/// A line of a program as people write it.
fn shown(place: Place) -> String {
    format!("{}:{}", place.file(), place.line())
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}: {}", self.id.0, self.ty())
    }
}
