//! Repetitions that one program computes: loops whose number of turns is known, and scans. All of a body's nodes are
//! traced, and its states keep their types.

use std::collections::HashSet;
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_device::Backend;
use lessen_graph::{DType, ScanOptions, Tensor};

use super::{Builder, Done};
use crate::session::branch::{Inner, identity};
use lessen_onnx::host::{Data, HostTensor};
use lessen_onnx::import::Value;
use lessen_onnx::{Element, Node};

/// The most turns of a repetition.
const MOST_TURNS: usize = 1 << 22;

/// A value of a program and its type in the file.
type Typed = (Tensor, Element);

/// What a body gives: its name there, and the name of the node's output, if that is wanted.
type Given = (String, Option<String>);

/// How a body is repeated.
struct Repetition {
    options: ScanOptions,
    /// Where states begin among inputs of the node, which is where they begin among those of the body.
    inputs: usize,
    /// Where states begin among outputs of the body.
    outputs: usize,
    states: usize,
    /// Names in the body of what has a slice for each turn, with all slices along the first axis.
    slices: Vec<(String, Typed)>,
    /// The axes along which results of turns are stacked; the first one where there are none.
    axes: Vec<i64>,
    /// The body's output that says whether there is another turn.
    condition: Option<String>,
}

/// The error of a repetition that is not traced.
fn unknown<T>(what: &str) -> Result<T> {
    Err(Error::user(format!("{what} is not traced")))
}

impl<B: Backend + ?Sized> Builder<'_, '_, B> {
    /// Traces a node that repeats its body, if that is possible; whether it was.
    pub(super) fn repeats(&mut self, node: &Arc<Node>) -> bool {
        let items = self.items.len();
        let read = self.held.values().filter(|held| held.is_read());
        let read: HashSet<String> = read.map(|held| held.name.clone()).collect();
        let pending = self.pending.clone();
        let outcome = self.repetition(node);
        // Values of a body are none of the graph around it.
        self.pending = pending;
        let Ok(results) = outcome else {
            self.items.truncate(items);
            for held in self
                .held
                .values_mut()
                .filter(|held| held.is_read() && !read.contains(&held.name))
            {
                *held = Arc::new(held.unread());
            }
            return false;
        };
        self.pending.extend(results);
        true
    }

    /// The results of a node that repeats its body, by name.
    fn repetition(&mut self, node: &Arc<Node>) -> Result<Vec<(String, Typed)>> {
        let body = Inner::of(node, "body")?;
        let how = match node.proto.op_type.as_str() {
            "Loop" => self.of_loop(node, &body)?,
            _ => self.of_scan(node, &body)?,
        };
        if body.outputs.len() < how.outputs + node.proto.output.len().max(how.states) {
            return unknown("a body with another number of outputs");
        }
        let (mut carries, mut next) = (Vec::new(), Vec::new());
        let mut outer = Vec::new();
        for number in 0..how.states {
            let Some(given) = node.input(how.inputs + number) else {
                return unknown("an absent state");
            };
            let taken = &body.inputs[how.inputs + number];
            let given_on = &body.outputs[how.outputs + number];
            let name = node.proto.output.get(number).filter(|name| !name.is_empty());
            if given_on == taken {
                // A state that stays as it is belongs to no turn.
                self.alias(given, taken, node)?;
                outer.extend(name.map(|name| (given, name)));
                continue;
            }
            carries.push((taken.clone(), self.typed(given)?));
            next.push((given_on.clone(), name.cloned()));
        }
        let results = body.outputs[how.outputs + how.states..].iter().cloned();
        let names = node
            .proto
            .output
            .iter()
            .skip(how.states)
            .map(Some)
            .chain(std::iter::repeat(None));
        let results: Vec<Given> = results
            .zip(names.map(|name| name.filter(|name| !name.is_empty()).cloned()))
            .collect();
        for (name, tensor) in &body.initializers {
            self.fix(name, tensor.clone().into());
        }
        let (carry_tensors, slice_tensors) = (tensors(&carries), tensors(&how.slices));
        let (trace, mut found) = (self.trace, unknown("a body"));
        let (last, all) = trace.attempt_described(|| {
            trace.scan(how.options, &carry_tensors, &slice_tensors, |of_carries, of_slices| {
                let inputs = carries.iter().zip(of_carries).chain(how.slices.iter().zip(of_slices));
                for ((name, (_, element)), own) in inputs {
                    self.pending.insert(name.clone(), (*own, *element));
                }
                match self.turn(&body.nodes, &carries, &next, &results, how.condition.as_deref()) {
                    Ok((carries, results, elements)) => {
                        found = Ok(elements);
                        (carries, results)
                    }
                    Err(why) => {
                        found = Err(why);
                        (of_carries.to_vec(), Vec::new())
                    }
                }
            })
        })?;
        let elements = found?;
        let mut named = Vec::new();
        for (((_, name), tensor), (_, (_, element))) in next.into_iter().zip(last).zip(&carries) {
            named.extend(name.map(|name| (name, (tensor, *element))));
        }
        for (number, (((_, name), tensor), element)) in results.into_iter().zip(all).zip(elements).enumerate() {
            let tensor = along(tensor, how.axes.get(number).copied().unwrap_or(0))?;
            named.extend(name.map(|name| (name, (tensor, element))));
        }
        for (given, name) in outer {
            self.alias(given, name, node)?;
            named.extend(self.pending.get(name).map(|typed| (name.clone(), *typed)));
        }
        Ok(named)
    }

    /// Traces one turn: the next carries, the results, and the types of results in the file.
    fn turn(
        &mut self,
        nodes: &[Arc<Node>],
        carries: &[(String, Typed)],
        next: &[Given],
        results: &[Given],
        condition: Option<&str>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>, Vec<Element>)> {
        self.body(nodes)?;
        if let Some(condition) = condition
            && !(self.scope.is_fixed(condition) && self.numbers(condition)?[..] == [1.0])
        {
            return unknown("a number of turns that is computed");
        }
        let mut of_carries = Vec::with_capacity(next.len());
        for ((name, _), (_, (carry, element))) in next.iter().zip(carries) {
            let (tensor, own) = self.typed(name)?;
            if own != *element || tensor.ty() != carry.ty() {
                return unknown("a state that changes its type");
            }
            of_carries.push(tensor);
        }
        let results = results.iter().map(|(name, _)| self.typed(name));
        let (results, elements) = results.collect::<Result<Vec<Typed>>>()?.into_iter().unzip();
        Ok((of_carries, results, elements))
    }

    /// Goes through the nodes of a body, none of which may need elements that a program computes.
    fn body(&mut self, nodes: &[Arc<Node>]) -> Result<()> {
        for node in nodes {
            match self.node(node)? {
                Done::Yes => {}
                Done::NeedsProgram => return unknown("a node that is computed in memory"),
                Done::Becomes(inner) => self.body(&inner)?,
            }
        }
        Ok(())
    }

    /// A loop whose number of turns is known.
    fn of_loop(&mut self, node: &Arc<Node>, body: &Inner) -> Result<Repetition> {
        let (Some(count), [iteration, goes_on, ..], [condition, ..]) =
            (node.input(0), &body.inputs[..], &body.outputs[..])
        else {
            return unknown("a number of turns that is computed");
        };
        let states = node.proto.input.len().saturating_sub(2);
        if body.inputs.len() != 2 + states {
            return unknown("a body with another number of inputs");
        }
        for number in 2..2 + states {
            // A state of integers is cheap to refuse before anything is traced.
            if let Some(name) = node.input(number)
                && body.outputs.get(number - 1) != body.inputs.get(number)
            {
                self.typed(name)?;
            }
        }
        if node
            .input(1)
            .map(|name| self.numbers(name))
            .transpose()?
            .is_some_and(|all| all[..] != [1.0])
        {
            return unknown("a loop without turns");
        }
        let turns = match self.numbers(count)?[..] {
            [count] if count >= 1.0 && count <= MOST_TURNS as f64 => count as usize,
            _ => return unknown("this number of turns"),
        };
        let graph = node.attribute("body").and_then(|attribute| attribute.g.as_ref());
        let axes = |input: usize| {
            let ty = graph.and_then(|graph| graph.input.get(input)?.r#type.as_ref()?.tensor_type.as_ref());
            ty.and_then(|ty| ty.shape.as_ref()).map_or(0, |shape| shape.dim.len())
        };
        let shape = |input: usize| vec![1; axes(input).min(1)];
        self.fix(goes_on, HostTensor::new(&shape(1), Data::Bool(vec![true]))?.into());
        let is_read = |name: &String| body.nodes.iter().any(|node| node.reads().any(|read| read == name));
        let slices = match is_read(iteration) || body.outputs.contains(iteration) {
            true => {
                let shape = [vec![turns], shape(0)].concat();
                let numbers = self.trace.iota(DType::I32, &shape, 0);
                vec![(iteration.clone(), (numbers, Element::Int(8)))]
            }
            false => Vec::new(),
        };
        Ok(Repetition {
            options: ScanOptions::from(turns),
            inputs: 2,
            outputs: 1,
            states,
            slices,
            axes: Vec::new(),
            condition: Some(condition.clone()),
        })
    }

    /// A scan, all of whose slices are taken and given in one order.
    fn of_scan(&mut self, node: &Arc<Node>, body: &Inner) -> Result<Repetition> {
        let ints = |name: &str| {
            node.attribute(name)
                .map_or(Vec::new(), |attribute| attribute.ints.clone())
        };
        let count = node.attribute("num_scan_inputs").map_or(0, |attribute| attribute.i);
        let states = usize::try_from(count).ok().filter(|count| *count > 0);
        let states = states.and_then(|count| node.proto.input.len().checked_sub(count));
        let is_whole = self.model.version(node) >= 9 && body.inputs.len() == node.proto.input.len();
        let Some(states) = states.filter(|_| is_whole) else {
            return unknown("a scan of this form");
        };
        let (axes, inputs) = (ints("scan_input_axes"), ints("scan_input_directions"));
        let slices = body.inputs.len() - states;
        let results = body.outputs.len().saturating_sub(states);
        let outputs = ints("scan_output_directions");
        let backwards = (0..slices).map(|i| inputs.get(i) == Some(&1));
        let backwards = backwards.chain((0..results).map(|i| outputs.get(i) == Some(&1)));
        let reverse = backwards.clone().next().unwrap_or(false);
        if backwards.into_iter().any(|other| other != reverse) {
            return unknown("a scan in several directions");
        }
        let mut all = Vec::with_capacity(slices);
        for number in 0..slices {
            let Some(name) = node.input(states + number) else {
                return unknown("an absent input");
            };
            let (tensor, element) = self.typed(name)?;
            let rank = tensor.rank();
            let axis = axes.get(number).copied().unwrap_or(0);
            let axis = usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).unwrap_or(rank);
            if axis >= rank {
                return unknown("a scan along this axis");
            }
            let order: Vec<usize> = std::iter::once(axis)
                .chain((0..rank).filter(|other| *other != axis))
                .collect();
            let tensor = if axis == 0 { tensor } else { tensor.permute(&order) };
            all.push((body.inputs[states + number].clone(), (tensor, element)));
        }
        let turns = all.first().map_or(0, |(_, (tensor, _))| tensor.dim(0));
        if !(1..=MOST_TURNS).contains(&turns) {
            return unknown("this number of turns");
        }
        Ok(Repetition {
            options: ScanOptions {
                reverse,
                ..ScanOptions::from(turns)
            },
            inputs: 0,
            outputs: 0,
            states,
            slices: all,
            axes: ints("scan_output_axes"),
            condition: None,
        })
    }

    /// Gives a value a second name.
    fn alias(&mut self, from: &str, to: &str, around: &Node) -> Result<()> {
        self.body(&[identity(from, to, around)])
    }

    /// A value of floats or truth values as one of the program, or any that the program computes.
    fn typed(&mut self, name: &str) -> Result<Typed> {
        if let Some(typed) = self.pending.get(name) {
            return Ok(*typed);
        }
        let (value, element) = self.value(name)?;
        if !element.is_float() && element != Element::Bool {
            return unknown("a state of integers");
        }
        let tensor = match value {
            Value::Traced(tensor) => Some(tensor),
            Value::Known(array) => Some(self.trace.constant(Arc::unwrap_or_clone(array))),
            Value::Held(held) => held.input(self.trace, &mut self.inputs),
            _ => None,
        };
        match tensor {
            Some(tensor) => Ok((tensor, element)),
            None => unknown("a state of this kind"),
        }
    }

    /// The numbers of a value that is known while the program is traced.
    fn numbers(&mut self, name: &str) -> Result<Vec<f64>> {
        match self.value(name)?.0 {
            Value::Known(array) => Ok(array.data.clone()),
            Value::Held(held) => match held.elements() {
                Some(tensor) => Ok(tensor.data().to_f64()),
                None => unknown("a number that changes from turn to turn"),
            },
            _ => unknown("a number that is computed"),
        }
    }
}

fn tensors(all: &[(String, Typed)]) -> Vec<Tensor> {
    all.iter().map(|(_, (tensor, _))| *tensor).collect()
}

/// An array whose first axis becomes this one.
fn along(tensor: Tensor, axis: i64) -> Result<Tensor> {
    let rank = tensor.rank();
    match usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }) {
        Ok(0) => Ok(tensor),
        Ok(axis) if axis < rank => {
            let order: Vec<usize> = (1..=axis).chain([0]).chain(axis + 1..rank).collect();
            Ok(tensor.permute(&order))
        }
        _ => unknown("results along this axis"),
    }
}
