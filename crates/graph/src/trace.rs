//! Tracing: a graph under construction, and the handles of its values. Each operation's file adds its methods to them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::builder::{GraphBuilder, Mark};
use crate::graph::{Graph, Phase, ValueId};
use crate::op::Op;
use crate::types::{DType, Type};

/// A graph under construction. Operations on its [`Tensor`]s append nodes.
#[derive(Debug, Default)]
pub struct Trace {
    builder: RefCell<GraphBuilder>,
    /// Whether a mistake is caught by [`Trace::attempt`].
    attempts: Cell<bool>,
    /// Where nodes were appended, by the first of their outputs.
    places: RefCell<HashMap<ValueId, Place>>,
}

/// A line of the program that builds a graph.
type Place = &'static Location<'static>;

/// Payload of the unwinding from a mistake in [`Trace::attempt`].
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
        self.trace.set_scope(self.before.clone());
    }
}

impl Trace {
    /// An empty trace.
    pub fn new() -> Trace {
        Trace::default()
    }

    /// An empty trace whose first stream of random numbers is this one.
    pub(crate) fn from_stream(stream: u32) -> Trace {
        Trace::building(GraphBuilder::from_stream(stream))
    }

    /// A trace that appends to a graph.
    pub fn of(graph: Graph) -> Trace {
        Trace::building(GraphBuilder::of(graph))
    }

    /// A trace that appends to the graph of a builder.
    pub(crate) fn building(builder: GraphBuilder) -> Trace {
        Trace {
            builder: RefCell::new(builder),
            ..Trace::default()
        }
    }

    /// The builder with the traced graph.
    pub(crate) fn into_builder(self) -> GraphBuilder {
        self.builder.into_inner()
    }

    /// Declares an input that the caller of every run provides.
    ///
    /// # Panics
    /// If there is an input of this name, or its size cannot be counted.
    #[track_caller]
    pub fn input(&self, name: &str, dtype: DType, shape: &[usize]) -> Tensor<'_> {
        let declared = self.builder.borrow_mut().input(name, dtype, shape);
        self.tensor(self.expect(declared))
    }

    /// Declares a state that is kept between runs: a parameter or a value of the optimizer.
    ///
    /// # Panics
    /// If there is an input of this name, or its size cannot be counted.
    #[track_caller]
    pub fn state(&self, name: &str, dtype: DType, shape: &[usize]) -> Tensor<'_> {
        let declared = self.builder.borrow_mut().state(name, dtype, shape);
        self.tensor(self.expect(declared))
    }

    /// The result of the builder; an error is a mistake in the program that builds the graph.
    #[track_caller]
    fn expect<T>(&self, result: Result<T>) -> T {
        match result {
            Ok(made) => made,
            Err(sentence) => self.fail(sentence.to_string()),
        }
    }

    /// Refuses tensors of another trace; `what` begins the sentence.
    ///
    /// # Panics
    /// If one of them belongs to another trace.
    #[track_caller]
    pub(crate) fn check_own(&self, what: fmt::Arguments<'_>, tensors: &[Tensor<'_>]) {
        if !tensors.iter().all(|tensor| std::ptr::eq(tensor.trace, self)) {
            self.fail(format!("{what} a tensor of another trace"));
        }
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
        self.check_own(format_args!("{}:", op.name()), inputs);
        let ids: Vec<ValueId> = inputs.iter().map(|t| t.id()).collect();
        let pushed = self.builder.borrow_mut().push(op, &ids);
        let outputs = self.expect(pushed);
        if let (Some(first), true) = (outputs.first(), self.attempts.get()) {
            self.places.borrow_mut().insert(*first, Location::caller());
        }
        outputs.into_iter().map(|id| Tensor { trace: self, id }).collect()
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

    /// Calls `build`. A mistake in an operation of this trace, such as shapes that do not fit, is an error that names
    /// the line of the program, in place of a panic. After an error the trace is of no use.
    ///
    /// # Errors
    /// The first mistake. Other panics are not caught.
    pub fn attempt<R>(&self, build: impl FnOnce() -> R) -> Result<R> {
        let built = self.caught(build);
        built.map_err(|mistake| Error::user(mistake.sentence).at(shown(mistake.place)))
    }

    /// [`Trace::attempt`] for a graph that a file describes: no line of the program is at fault.
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

    /// The line of the program that made a value in [`Trace::attempt`], as `FILE:LINE`; none of an input, and none of a
    /// tensor of another trace.
    pub fn place_of(&self, value: Tensor<'_>) -> Option<String> {
        if !std::ptr::eq(value.trace, self) {
            return None;
        }
        let first = self.with_graph(|graph| {
            let node = &graph.nodes[graph.producer(value.id)?.index()];
            node.outputs.first().copied()
        });
        self.places.borrow().get(&first?).map(|place| shown(place))
    }

    /// [`Trace::apply`] for an operation with one output.
    #[track_caller]
    pub fn apply1(&self, op: impl Op, inputs: &[Tensor<'_>]) -> Tensor<'_> {
        self.apply(op, inputs)[0]
    }

    /// Names a result of the graph.
    ///
    /// # Panics
    /// If there is an output of this name, or the tensor belongs to another trace.
    #[track_caller]
    pub fn output(&self, name: &str, value: Tensor<'_>) {
        self.check_own(format_args!("the output `{name}` is"), &[value]);
        let named = self.builder.borrow_mut().output(name, value.id);
        self.expect(named);
    }

    /// Assigns a state: after a run, `target` holds `value`.
    ///
    /// # Panics
    /// If `target` is no state, is assigned already, the types differ, or a tensor belongs to another trace.
    #[track_caller]
    pub fn assign(&self, target: Tensor<'_>, value: Tensor<'_>) {
        self.check_own(format_args!("an assignment takes"), &[target, value]);
        let assigned = self.builder.borrow_mut().assign(target.id, value.id);
        self.expect(assigned);
    }

    /// Calls `f`; the nodes that it appends belong to `phase`.
    pub fn in_phase<R>(&self, phase: Phase, f: impl FnOnce() -> R) -> R {
        let before = self.set_phase(phase);
        let result = f();
        self.set_phase(before);
        result
    }

    /// Calls `f`; the nodes that it appends belong to the scope `name` inside the current one.
    pub fn in_scope<R>(&self, name: &str, f: impl FnOnce() -> R) -> R {
        let _inside = self.enter_scope(name);
        f()
    }

    /// Nodes that are appended until the result is dropped belong to the scope `name` inside the current one.
    pub fn enter_scope(&self, name: &str) -> Scope<'_> {
        let before = self.builder.borrow().scope().clone();
        let inner = if before.is_empty() {
            Arc::from(name)
        } else {
            Arc::from(format!("{before}.{name}"))
        };
        self.set_scope(inner);
        Scope { trace: self, before }
    }

    /// The number of a stream of random bits that no other operation of this trace draws from.
    ///
    /// # Panics
    /// If all of the 2^32 streams are drawn from.
    #[track_caller]
    pub fn new_stream(&self) -> u32 {
        let stream = self.builder.borrow_mut().new_stream();
        self.expect(stream)
    }

    /// The point that the construction has reached.
    pub(crate) fn mark(&self) -> Mark {
        self.builder.borrow().mark()
    }

    /// Takes back the nodes that were appended since a mark; no input, output or assignment was.
    pub(crate) fn take_back(&self, mark: Mark) {
        self.builder.borrow_mut().take_back(mark);
    }

    /// The next stream of random bits.
    pub(crate) fn streams(&self) -> u32 {
        self.builder.borrow().streams()
    }

    /// The handle of a value of the graph under construction.
    ///
    /// # Panics
    /// If there is no such value.
    #[track_caller]
    pub fn tensor(&self, id: ValueId) -> Tensor<'_> {
        let defined = self.with_graph(|graph| graph.check_defined(&[id]));
        self.expect(defined);
        Tensor { trace: self, id }
    }

    /// Calls `f` with the graph under construction.
    pub fn with_graph<R>(&self, f: impl FnOnce(&Graph) -> R) -> R {
        f(self.builder.borrow().graph())
    }

    pub(crate) fn set_phase(&self, phase: Phase) -> Phase {
        self.builder.borrow_mut().set_phase(phase)
    }

    pub(crate) fn set_scope(&self, scope: Arc<str>) -> Arc<str> {
        self.builder.borrow_mut().set_scope(scope)
    }

    /// The finished graph.
    pub fn finish(self) -> Graph {
        self.into_builder().finish()
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
        self.ty().shape.into_vec()
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
