//! The reference evaluator: plain `f64` loops, the oracle of every kernel and every pass.

use lessen_base::{Error, Result};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::array::Array;
use crate::graph::{Graph, ValueId};
use crate::lower::lower;
use crate::op::Op;
use crate::trace::Trace;
use crate::types::Type;

/// Runs a graph on named inputs (data and state) and returns the named outputs; the new value of an assigned
/// state is returned under the state's name.
///
/// Every value is rounded to its dtype, as the program says: each operation computes in `f64` from rounded inputs, and
/// its results round to nearest. An operation from outside is evaluated through its decomposition where it has one,
/// as [`lower`] writes it.
///
/// # Errors
/// A sentence that names an input which is missing or has another type, a name that an output and an assigned state
/// share, or a value of 2^31 elements or more.
pub fn evaluate(graph: &Graph, inputs: &HashMap<String, Array>) -> Result<HashMap<String, Array>> {
    run(graph, inputs, round)
}

/// Runs a graph as [`evaluate`] does, in real arithmetic as far as `f64` has it: floats of every dtype are kept in
/// `f64`, integers stay exact. It is the oracle for error bounds of kernels and for derivatives by differences.
///
/// # Errors
/// A sentence that names an input which is missing or has another type.
pub fn evaluate_exactly(graph: &Graph, inputs: &HashMap<String, Array>) -> Result<HashMap<String, Array>> {
    run(graph, inputs, |_| ())
}

/// Rounds an array's elements to its dtype.
pub(crate) fn round(array: &mut Array) {
    let dtype = array.ty.dtype;
    array.data.iter_mut().for_each(|x| *x = dtype.round(*x));
}

/// Elements of a value that is evaluated, exclusive: in `f64` they take 16 GiB.
const ELEMENT_LIMIT: usize = 1 << 31;

/// Checks that a value is small enough to be evaluated.
fn check_elements(ty: &Type) -> Result<()> {
    if ty.numel() < ELEMENT_LIMIT {
        Ok(())
    } else {
        Err(Error::user(format!(
            "the reference evaluator computes values of fewer than 2^31 elements, not {ty}"
        )))
    }
}

fn run(graph: &Graph, inputs: &HashMap<String, Array>, finish: fn(&mut Array)) -> Result<HashMap<String, Array>> {
    let mut evaluation = Evaluation::new(graph, inputs, finish)?;
    if let Some(op) = evaluation.run()? {
        return Err(of_several_ranks(op));
    }
    Ok(evaluation.results())
}

fn of_several_ranks(op: &dyn Op) -> Error {
    Error::user(format!(
        "the operation `{}` is of several ranks; run the graphs of all of them with evaluate_ranks",
        op.name()
    ))
}

/// A graph that is evaluated, up to a node.
pub(crate) struct Evaluation<'g> {
    graph: Cow<'g, Graph>,
    values: Vec<Option<Array>>,
    uses: Vec<usize>,
    /// The node that comes.
    next: usize,
    finish: fn(&mut Array),
}

impl<'g> Evaluation<'g> {
    /// A graph with its inputs, each of which is changed by `finish`, as all results are.
    ///
    /// # Errors
    /// See [`evaluate`].
    pub fn new(graph: &'g Graph, inputs: &HashMap<String, Array>, finish: fn(&mut Array)) -> Result<Evaluation<'g>> {
        let assigned: HashSet<&str> = (graph.assigns.iter())
            .filter_map(|assign| Some(graph.input(assign.target)?.name.as_str()))
            .collect();
        if let Some(output) = graph.outputs.iter().find(|output| assigned.contains(&*output.name)) {
            return Err(Error::user(format!(
                "an output and an assigned state are both called `{}`; rename the output",
                output.name
            )));
        }
        let graph = lower(graph, &<dyn Op>::is_standard);
        graph.check_answers()?;
        graph.values.iter().try_for_each(|value| check_elements(&value.ty))?;
        let mut values: Vec<Option<Array>> = vec![None; graph.values.len()];
        for input in &graph.inputs {
            let Some(array) = inputs.get(&input.name) else {
                return Err(Error::user(format!("no value is given for the input `{}`", input.name)));
            };
            if array.ty != *graph.ty(input.value) {
                return Err(Error::user(format!(
                    "the input `{}` has type {}, the value given has type {}",
                    input.name,
                    graph.ty(input.value),
                    array.ty
                )));
            }
            let mut array = array.clone();
            finish(&mut array);
            values[input.value.index()] = Some(array);
        }
        let mut uses = vec![0usize; graph.values.len()];
        let results = graph.outputs.iter().map(|o| o.value);
        let results = results.chain(graph.assigns.iter().map(|a| a.value));
        for value in graph.nodes.iter().flat_map(|n| n.inputs.iter().copied()).chain(results) {
            uses[value.index()] += 1;
        }
        Ok(Evaluation {
            graph,
            values,
            uses,
            next: 0,
            finish,
        })
    }

    /// Evaluates nodes up to the next one of several ranks, whose operation is returned; none at the end.
    ///
    /// # Errors
    /// An operation that breaks its contract.
    pub fn run(&mut self) -> Result<Option<&dyn Op>> {
        while let Some(node) = self.graph.nodes.get(self.next) {
            if node.op.ranks().is_some_and(|ranks| ranks.count > 1) {
                return Ok(self.op());
            }
            let outputs = checked_eval(node.op.as_ref(), &self.arguments(), &self.types())?;
            self.set(outputs);
        }
        Ok(None)
    }

    /// The operation of the node that comes; none at the end.
    pub fn op(&self) -> Option<&dyn Op> {
        self.graph.nodes.get(self.next).map(|node| node.op.as_ref())
    }

    /// The inputs of the node that comes; none at the end.
    pub fn arguments(&self) -> Vec<&Array> {
        let node = self.graph.nodes.get(self.next);
        let inputs = node.into_iter().flat_map(|node| &node.inputs);
        inputs
            .map(|v| self.values[v.index()].as_ref().expect("defined before use"))
            .collect()
    }

    /// The types of the outputs of the node that comes; none at the end.
    pub fn types(&self) -> Vec<Type> {
        let node = self.graph.nodes.get(self.next);
        node.map(|node| self.graph.output_types(node)).unwrap_or_default()
    }

    /// Sets the outputs of the node that comes, and goes on to the next one.
    pub fn set(&mut self, outputs: Vec<Array>) {
        let Some(node) = self.graph.nodes.get(self.next) else {
            return;
        };
        for (&id, mut array) in node.outputs.iter().zip(outputs) {
            (self.finish)(&mut array);
            self.values[id.index()] = Some(array);
        }
        for input in &node.inputs {
            self.uses[input.index()] -= 1;
            if self.uses[input.index()] == 0 && self.graph.input(*input).is_none() {
                self.values[input.index()] = None;
            }
        }
        self.next += 1;
    }

    /// The outputs and the new values of states, by name.
    pub fn results(&self) -> HashMap<String, Array> {
        let graph = &*self.graph;
        let value = |id: ValueId| self.values[id.index()].clone().expect("defined");
        let outputs = graph.outputs.iter().map(|o| (o.name.clone(), value(o.value)));
        let states = graph.assigns.iter().map(|a| {
            let state = graph.input(a.target).expect("assigns target inputs");
            (state.name.clone(), value(a.value))
        });
        outputs.chain(states).collect()
    }
}

/// The outputs of [`Op::eval`], which have these types and all elements of them.
fn checked_eval(op: &dyn Op, args: &[&Array], types: &[Type]) -> Result<Vec<Array>> {
    let outputs = op.eval(args, types);
    let is_whole = |array: &Array| array.data.len() == array.ty.numel();
    if outputs.iter().map(|array| &array.ty).eq(types) && outputs.iter().all(is_whole) {
        return Ok(outputs);
    }
    Err(Error::user(format!(
        "the operation `{}` breaks the contract of `eval`: it gives other arrays than {types:?}; correct the operation",
        op.name()
    )))
}

/// Applies one operation to arrays as [`evaluate_exactly`] does.
///
/// # Errors
/// The operation's sentence when the types do not fit; a result of 2^31 elements or more.
pub fn evaluate_op(op: &dyn Op, inputs: &[&Array]) -> Result<Vec<Array>> {
    let types: Vec<Type> = inputs.iter().map(|a| a.ty.clone()).collect();
    let outputs = op.infer_checked(&types)?;
    if op.ranks().is_some_and(|ranks| ranks.count > 1) {
        return Err(of_several_ranks(op));
    }
    outputs.iter().try_for_each(check_elements)?;
    if op.is_standard() {
        return checked_eval(op, inputs, &outputs);
    }
    let trace = Trace::new();
    let names: Vec<String> = (0..inputs.len().max(outputs.len())).map(|i| i.to_string()).collect();
    let count = {
        let declared = types.iter().zip(&names);
        let tensors: Vec<_> = declared
            .map(|(ty, name)| trace.input(name, ty.dtype, &ty.shape))
            .collect();
        let Some(results) = op.decompose(&tensors) else {
            return checked_eval(op, inputs, &outputs);
        };
        results.iter().zip(&names).for_each(|(y, name)| trace.output(name, *y));
        results.len()
    };
    let named = names.iter().cloned().zip(inputs.iter().map(|a| (*a).clone())).collect();
    let mut results = evaluate_exactly(&trace.finish(), &named)?;
    Ok(names[..count].iter().filter_map(|name| results.remove(name)).collect())
}
