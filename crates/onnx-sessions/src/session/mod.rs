//! Running a model on arrays in memory.
//!
//! Nodes on floats are traced into programs, which a device runs; other nodes, such as those of integers, texts and
//! lists, are computed in memory. What a run finds out is kept as [`Section`]s: programs for these extents, and for the
//! integers that decided shapes, axes or indices. Another run goes the same way where they are the same; otherwise the
//! nodes are traced anew from there on. Where a node needs elements of a program's results, the program ends, and
//! another one begins after the node.
//!
//! The body of a loop is a graph whose sections are kept as well. No elements decide what is traced in it but those
//! that are the same in all turns, and no array is read by its programs whose extents could be others in the next turn.
//! From the third turn on, one whose inputs have other extents than those of the turn before is computed in memory.

mod bodies;
mod branch;
mod builder;
mod constants;
mod fold;
mod interpreter;
mod missing;
mod program;
mod scope;
mod section;
mod traced;
mod upload;
mod way;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lessen_base::Result;
use lessen_device::{Backend, ProgramId};
use lessen_graph::Graph;

use crate::session::bodies::Bodies;
use crate::session::constants::Constants;
use crate::session::fold::folded;
use crate::session::interpreter::Interpreter;
use crate::session::program::Program;
use crate::session::scope::Scope;
use crate::session::section::{Alternative, Item, Section};
pub(crate) use crate::session::traced::run_traced;
use crate::session::way::follow;
use lessen_onnx::host::HostValue;
use lessen_onnx::{Model, Node};

/// A model that is ready to run. Threads may share it; their runs take turns.
pub struct Session<B: Backend + ?Sized = dyn Backend> {
    model: Arc<Model>,
    constants: Constants,
    state: Mutex<State<B>>,
}

/// What a session has on its device.
struct State<B: Backend + ?Sized> {
    first: Section,
    bodies: Bodies,
    compile_time: Duration,
    backend: Box<B>,
}

impl<B: Backend + ?Sized> Session<B> {
    /// A session of a model on a device.
    ///
    /// # Errors
    /// Operators that are not known; the sentence names all of them.
    pub fn new(model: Arc<Model>, backend: Box<B>) -> Result<Session<B>> {
        missing::check(&model)?;
        let (nodes, weights) = folded(&model)?;
        Ok(Session {
            constants: Constants::new(model.clone(), weights),
            model,
            state: Mutex::new(State {
                backend,
                first: Section::new(nodes, HashSet::new()),
                bodies: Bodies::default(),
                compile_time: Duration::ZERO,
            }),
        })
    }

    /// How long compiling has taken so far.
    pub fn compile_time(&self) -> Duration {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).compile_time
    }

    /// Calls a function with the device and the programs of the way that the last run went, in their order.
    pub fn with_programs<R>(&self, f: impl FnOnce(&mut B, &[ProgramId]) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let programs: Vec<ProgramId> = last_way(&state.first)
            .filter_map(|alternative| alternative.program.as_ref().map(Program::id))
            .collect();
        f(state.backend.as_mut(), &programs)
    }

    /// The graphs of the last run's programs, in their order, and the nodes that it computed in memory.
    pub fn last_run(&self) -> (Vec<Graph>, Vec<Arc<Node>>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut graphs, mut in_memory) = (Vec::new(), Vec::new());
        for alternative in last_way(&state.first) {
            graphs.extend(alternative.program.as_ref().map(|program| program.graph.clone()));
            in_memory.extend(alternative.items.iter().filter_map(|item| match item {
                Item::Node(node) => Some(node.clone()),
                Item::Decision(..) => None,
            }));
        }
        (graphs, in_memory)
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The outputs of the model, in its order, for these inputs by name.
    ///
    /// # Errors
    /// Inputs that do not fit a node, with the node's name; memory that the device does not have.
    pub fn run(&self, inputs: Vec<(String, HostValue)>) -> Result<Vec<(String, HostValue)>> {
        let scope = Scope::outermost(&self.constants);
        for (name, value) in inputs {
            scope.set(&name, value);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State {
            backend,
            first,
            bodies,
            compile_time,
        } = &mut *state;
        let interpreter = Interpreter::new((&self.model, &self.constants), backend.as_mut(), bodies);
        let is_wanted = |name: &str| self.model.outputs.iter().any(|output| output.name == name);
        let followed = follow(&interpreter, first, &scope, &is_wanted);
        *compile_time += interpreter.compile_time.get();
        followed?;
        drop(state);
        let outputs = self.model.outputs.iter().map(|output| {
            let value = scope.get(&output.name)?;
            Ok((output.name.clone(), value))
        });
        outputs.collect()
    }
}

/// The alternatives that the last run took, from a section on.
fn last_way(first: &Section) -> impl Iterator<Item = &Alternative> {
    std::iter::successors(first.alternatives.first(), |alternative| {
        alternative.next.as_deref()?.alternatives.first()
    })
}
