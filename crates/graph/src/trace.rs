//! Tracing: a graph under construction and its handle. Each operation's file adds its methods to them.
//!
//! Handles are numbers in a table of the thread, not references: a model function, a variable or a closure names no
//! lifetime.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use lessen_base::Result;

use crate::builder::{GraphBuilder, Mark};
use crate::graph::{Graph, Phase, ValueId};
use crate::op::Op;
use crate::tensor::Tensor;
use crate::types::DType;

thread_local! {
    /// The graphs that this thread constructs, the oldest first.
    pub(crate) static OPEN: RefCell<Vec<(u64, Rc<Construction>)>> = const { RefCell::new(Vec::new()) };
    /// The number of the next trace.
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// A graph under construction, with what its thread knows of it.
#[derive(Default)]
pub(crate) struct Construction {
    builder: RefCell<GraphBuilder>,
    /// Whether a mistake is caught by [`TraceRef::attempt`].
    pub(crate) attempts: Cell<bool>,
    /// Where nodes were appended, by the first of their outputs.
    pub(crate) places: RefCell<HashMap<ValueId, Place>>,
    /// What handles of the trace stand for; see [`TraceRef::keep`].
    kept: RefCell<Vec<Rc<dyn Any>>>,
    /// The trace around the trace of a body.
    pub(crate) outer: Cell<Option<TraceRef>>,
    /// Tensors of that trace with the inputs of the body that stand for them.
    pub(crate) captured: RefCell<Vec<(Tensor, Tensor)>>,
}

/// The owner of a graph under construction. Its handle, [`TraceRef`], has the methods that append to it.
#[derive(Debug)]
pub struct Trace {
    handle: TraceRef,
}

/// A handle of a graph under construction: a number, which copies freely, within the thread of its [`Trace`].
/// Operations on its [`Tensor`]s append nodes.
///
/// # Panics
/// All methods, after the trace was finished or dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceRef {
    number: u64,
    /// The construction lies in the memory of one thread.
    not_send: PhantomData<*const ()>,
}

/// A line of the program that builds a graph.
pub(crate) type Place = &'static Location<'static>;

/// A scope that nodes are appended in until this is dropped; see [`TraceRef::enter_scope`].
pub struct Scope {
    trace: TraceRef,
    before: Arc<str>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        if let Some(open) = self.trace.find() {
            open.builder.borrow_mut().set_scope(self.before.clone());
        }
    }
}

impl Default for Trace {
    fn default() -> Trace {
        Trace::new()
    }
}

impl Deref for Trace {
    type Target = TraceRef;

    fn deref(&self) -> &TraceRef {
        &self.handle
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.handle.close();
    }
}

impl Trace {
    /// An empty trace.
    pub fn new() -> Trace {
        Trace::building(GraphBuilder::default())
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
        let number = NEXT.get();
        NEXT.set(number + 1);
        let construction = Construction {
            builder: RefCell::new(builder),
            ..Construction::default()
        };
        OPEN.with_borrow_mut(|open| open.push((number, Rc::new(construction))));
        let handle = TraceRef {
            number,
            not_send: PhantomData,
        };
        Trace { handle }
    }

    /// The builder with the traced graph.
    pub(crate) fn into_builder(self) -> GraphBuilder {
        let closed = self.handle.close();
        closed.map_or_else(GraphBuilder::default, |construction| construction.builder.take())
    }

    /// The finished graph.
    pub fn finish(self) -> Graph {
        self.into_builder().finish()
    }
}

impl TraceRef {
    pub(crate) fn find(self) -> Option<Rc<Construction>> {
        let find = |open: &RefCell<Vec<(u64, Rc<Construction>)>>| {
            let open = open.borrow();
            let found = open.iter().rfind(|(number, _)| *number == self.number);
            found.map(|(_, construction)| construction.clone())
        };
        OPEN.try_with(find).ok().flatten()
    }

    #[track_caller]
    pub(crate) fn open(self) -> Rc<Construction> {
        match self.find() {
            Some(open) => open,
            None => panic!("a tensor is used whose graph is finished; make it anew in the function of the new graph"),
        }
    }

    /// Takes the construction out of those of the thread.
    fn close(self) -> Option<Rc<Construction>> {
        let close = |open: &RefCell<Vec<(u64, Rc<Construction>)>>| {
            let mut open = open.borrow_mut();
            let place = open.iter().rposition(|(number, _)| *number == self.number)?;
            Some(open.remove(place).1)
        };
        OPEN.try_with(close).ok().flatten()
    }

    /// Keeps a value with the trace and returns its place, for handles that copy freely; see [`TraceRef::kept`].
    pub fn keep(self, value: Rc<dyn Any>) -> usize {
        let open = self.open();
        let mut kept = open.kept.borrow_mut();
        kept.push(value);
        kept.len() - 1
    }

    /// The value at a place that [`TraceRef::keep`] returned, if it has the type `T`.
    pub fn kept<T: Any>(self, place: usize) -> Option<Rc<T>> {
        let value = self.open().kept.borrow().get(place).cloned();
        value.and_then(|value| value.downcast().ok())
    }

    /// Declares an input that the caller of every run provides.
    ///
    /// # Panics
    /// If there is an input of this name, or its size cannot be counted.
    #[track_caller]
    pub fn input(self, name: &str, dtype: DType, shape: &[usize]) -> Tensor {
        let declared = self.open().builder.borrow_mut().input(name, dtype, shape);
        self.tensor(self.expect(declared))
    }

    /// Declares a state that is kept between runs: a parameter or a value of the optimizer.
    ///
    /// # Panics
    /// If there is an input of this name, or its size cannot be counted.
    #[track_caller]
    pub fn state(self, name: &str, dtype: DType, shape: &[usize]) -> Tensor {
        let declared = self.open().builder.borrow_mut().state(name, dtype, shape);
        self.tensor(self.expect(declared))
    }

    /// The result of the builder; an error is a mistake in the program that builds the graph.
    #[track_caller]
    fn expect<T>(self, result: Result<T>) -> T {
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
    pub(crate) fn check_own(self, what: fmt::Arguments<'_>, tensors: &[Tensor]) {
        if !tensors.iter().all(|tensor| tensor.trace == self) {
            self.fail(format!("{what} a tensor of another trace"));
        }
    }

    /// Applies an operation and returns its outputs.
    ///
    /// # Panics
    /// With the operation's sentence when the inputs' shapes or dtypes do not fit it.
    #[track_caller]
    pub fn apply(self, op: impl Op, inputs: &[Tensor]) -> Vec<Tensor> {
        self.apply_shared(Arc::new(op), inputs)
    }

    /// [`TraceRef::apply`] for an operation that is already shared.
    #[track_caller]
    pub fn apply_shared(self, op: Arc<dyn Op>, inputs: &[Tensor]) -> Vec<Tensor> {
        if inputs.iter().any(|x| x.trace != self) {
            let trace = self.innermost(format_args!("{}:", op.name()), inputs);
            let mut own = Vec::with_capacity(inputs.len());
            for x in inputs {
                own.push(trace.captured(format_args!("{}:", op.name()), *x));
            }
            return trace.apply_shared(op, &own);
        }
        let ids: Vec<ValueId> = inputs.iter().map(|t| t.id()).collect();
        let pushed = self.open().builder.borrow_mut().push(op, &ids);
        let outputs = self.expect(pushed);
        if let (Some(first), true) = (outputs.first(), self.open().attempts.get()) {
            self.open().places.borrow_mut().insert(*first, Location::caller());
        }
        outputs.into_iter().map(|id| Tensor { trace: self, id }).collect()
    }

    /// [`TraceRef::apply`] for an operation with one output.
    #[track_caller]
    pub fn apply1(self, op: impl Op, inputs: &[Tensor]) -> Tensor {
        self.apply(op, inputs)[0]
    }

    /// Names a result of the graph.
    ///
    /// # Panics
    /// If there is an output of this name, or the tensor belongs to another trace.
    #[track_caller]
    pub fn output(self, name: &str, value: Tensor) {
        self.check_own(format_args!("the output `{name}` is"), &[value]);
        let named = self.open().builder.borrow_mut().output(name, value.id);
        self.expect(named);
    }

    /// Assigns a state: after a run, `target` holds `value`.
    ///
    /// # Panics
    /// If `target` is no state, is assigned already, the types differ, or a tensor belongs to another trace.
    #[track_caller]
    pub fn assign(self, target: Tensor, value: Tensor) {
        self.check_own(format_args!("an assignment takes"), &[target, value]);
        let assigned = self.open().builder.borrow_mut().assign(target.id, value.id);
        self.expect(assigned);
    }

    /// Assigns a state what `change` makes of the value that it has so far: the value that was assigned to it in this
    /// graph, or its value before the run.
    ///
    /// # Panics
    /// As [`TraceRef::assign`], but for a state that is assigned already.
    #[track_caller]
    pub fn change(self, target: Tensor, change: impl FnOnce(Tensor) -> Tensor) {
        let assigned = self.open().builder.borrow_mut().take_assigned(target.id);
        let before = assigned.map_or(target, |id| Tensor { trace: self, id });
        self.assign(target, change(before));
    }

    /// Calls `f`; the nodes that it appends belong to `phase`.
    pub fn in_phase<R>(self, phase: Phase, f: impl FnOnce() -> R) -> R {
        let before = self.set_phase(phase);
        let result = f();
        self.set_phase(before);
        result
    }

    /// Calls `f`; the nodes that it appends belong to the scope `name` inside the current one.
    pub fn in_scope<R>(self, name: &str, f: impl FnOnce() -> R) -> R {
        let _inside = self.enter_scope(name);
        f()
    }

    /// Nodes that are appended until the result is dropped belong to the scope `name` inside the current one.
    pub fn enter_scope(self, name: &str) -> Scope {
        let before = self.open().builder.borrow().scope().clone();
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
    pub fn new_stream(self) -> u32 {
        let stream = self.open().builder.borrow_mut().new_stream();
        self.expect(stream)
    }

    /// The point that the construction has reached.
    pub(crate) fn mark(self) -> Mark {
        self.open().builder.borrow().mark()
    }

    /// Takes back the nodes that were appended since a mark; no input, output or assignment was.
    pub(crate) fn take_back(self, mark: Mark) {
        self.open().builder.borrow_mut().take_back(mark);
    }

    /// The next stream of random bits.
    pub(crate) fn streams(self) -> u32 {
        self.open().builder.borrow().streams()
    }

    /// Sets the next stream of random bits.
    pub(crate) fn set_streams(self, streams: u32) {
        self.open().builder.borrow_mut().set_streams(streams);
    }

    /// The handle of a value of the graph under construction.
    ///
    /// # Panics
    /// If there is no such value.
    #[track_caller]
    pub fn tensor(self, id: ValueId) -> Tensor {
        let defined = self.with_graph(|graph| graph.check_defined(&[id]));
        self.expect(defined);
        Tensor { trace: self, id }
    }

    /// Calls `f` with the graph under construction.
    pub fn with_graph<R>(self, f: impl FnOnce(&Graph) -> R) -> R {
        f(self.open().builder.borrow().graph())
    }

    pub(crate) fn set_phase(self, phase: Phase) -> Phase {
        self.open().builder.borrow_mut().set_phase(phase)
    }

    pub(crate) fn set_scope(self, scope: Arc<str>) -> Arc<str> {
        self.open().builder.borrow_mut().set_scope(scope)
    }
}

impl fmt::Debug for TraceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trace {}", self.number)
    }
}
