//! One section of a model: its nodes are traced into a program as far as they can be, and run while they are traced.

mod repeated;
mod values;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_device::Backend;
use lessen_graph::{Array, DType, Tensor, TraceRef};

use super::branch::inlined;
use super::constants::Constants;
use super::interpreter::Interpreter;
use super::program::{StateSource, is_float_of_programs};
use super::scope::Scope;
use super::section::{Guard, Item};
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostTensor, HostValue};
use lessen_onnx::import::{Call, CodeStates, Codes, Held, HeldInputs, Restored, Value, moves_elements, operator};
use lessen_onnx::{Model, Node};

/// The most elements of integers that are known while a program is traced.
const MOST_KNOWN: usize = 1 << 22;

/// A section while it is built.
pub(super) struct Builder<'a, 'm, B: Backend + ?Sized> {
    model: &'a Model,
    constants: &'a Constants,
    interpreter: &'a Interpreter<'m, B>,
    scope: &'a Scope<'a>,
    /// Names that have got values that are the same in every run that comes here.
    fixed: Vec<String>,
    /// Names of a body's arrays whose extents may be others in the next turn.
    unsteady: HashSet<String>,
    trace: TraceRef,
    /// Values of the program.
    pending: HashMap<String, (Tensor, Element)>,
    /// The states of the program, by the values that they are of.
    states: HashMap<String, (Tensor, Element, StateSource)>,
    computed: HashMap<String, Arc<Array>>,
    /// States of codes, and floats that are restored from integers by the names of the floats.
    codes: CodeStates,
    restored: HashMap<String, Arc<Restored>>,
    held: HashMap<String, Arc<Held>>,
    inputs: HeldInputs,
    items: Vec<Item>,
}

/// What became of a node.
enum Done {
    /// It is traced, or was computed.
    Yes,
    /// It needs elements of a value of the program, which has to run first.
    NeedsProgram,
    /// It stands for other nodes.
    Becomes(Vec<Arc<Node>>),
}

/// A section that is built; its graph is in the trace.
pub(super) struct Built {
    pub items: Vec<Item>,
    pub guards: Vec<Guard>,
    /// Names that have got values that are the same in every run that comes here.
    pub fixed: Vec<String>,
    /// Names of a body's arrays whose extents may be others in the next turn.
    pub unsteady: HashSet<String>,
    /// Large constants that were made while it was traced, and the other states.
    pub constants: HashMap<String, Arc<Array>>,
    pub states: HashMap<String, StateSource>,
    /// Names of values that the program gives, with their types in the file; none where nothing is traced.
    pub outputs: Vec<(String, Element)>,
    /// The nodes that are left.
    pub rest: Vec<Arc<Node>>,
}

impl<'a, 'm, B: Backend + ?Sized> Builder<'a, 'm, B> {
    /// A builder of a section with these values, of which some are unsteady.
    pub(super) fn new(
        interpreter: &'a Interpreter<'m, B>,
        scope: &'a Scope<'a>,
        unsteady: HashSet<String>,
        trace: TraceRef,
    ) -> Builder<'a, 'm, B> {
        Builder {
            model: interpreter.model,
            constants: interpreter.constants,
            interpreter,
            scope,
            fixed: Vec::new(),
            unsteady,
            trace,
            pending: HashMap::new(),
            states: HashMap::new(),
            computed: HashMap::new(),
            codes: CodeStates::new(),
            restored: HashMap::new(),
            held: HashMap::new(),
            inputs: HeldInputs::new(),
            items: Vec::new(),
        }
    }

    /// Goes through nodes until one of them needs the program's results.
    ///
    /// # Errors
    /// A node that cannot be run, with its name.
    pub(super) fn build(mut self, nodes: &[Arc<Node>], is_wanted: &dyn Fn(&str) -> bool) -> Result<Built> {
        let mut left: Vec<Arc<Node>> = nodes.iter().rev().cloned().collect();
        while let Some(node) = left.pop() {
            match self.node(&node)? {
                Done::Yes => {}
                Done::NeedsProgram => {
                    left.push(node);
                    break;
                }
                Done::Becomes(inner) => left.extend(inner.into_iter().rev()),
            }
        }
        left.reverse();
        self.finish(left, is_wanted)
    }

    fn finish(self, rest: Vec<Arc<Node>>, is_wanted: &dyn Fn(&str) -> bool) -> Result<Built> {
        let read: HashSet<&str> = rest.iter().flat_map(|node| node.reads()).collect();
        let mut outputs = Vec::new();
        let mut names: Vec<&String> = self.pending.keys().collect();
        names.sort_unstable();
        for name in names {
            if read.contains(name.as_str()) || is_wanted(name) {
                let (tensor, element) = self.pending[name];
                self.trace.output(name, tensor);
                outputs.push((name.clone(), element));
            }
        }
        let guards = self.held.values().map(|held| Guard {
            name: held.name.clone(),
            element: held.tensor.element(),
            shape: held.tensor.shape().to_vec(),
            elements: held.is_read().then(|| HostValue::Tensor(held.tensor.clone())),
        });
        let guards = guards.collect();
        let codes = self.codes.into_values();
        let codes = codes.map(|(name, _, array)| (name, StateSource::Computed(array)));
        Ok(Built {
            items: self.items,
            guards,
            fixed: self.fixed,
            unsteady: self.unsteady,
            constants: self.computed,
            states: self
                .states
                .into_iter()
                .map(|(name, (.., source))| (name, source))
                .chain(codes)
                .collect(),
            outputs,
            rest,
        })
    }

    fn node(&mut self, node: &Arc<Node>) -> Result<Done> {
        if matches!(node.proto.op_type.as_str(), "Loop" | "Scan") && node.proto.domain.is_empty() && self.repeats(node)
        {
            return Ok(Done::Yes);
        }
        let is_pending = |name: &str| self.pending.contains_key(name);
        if node.captured.iter().any(|name| is_pending(name)) {
            return Ok(Done::NeedsProgram);
        }
        if node.proto.op_type == "If" && node.proto.domain.is_empty() {
            return self.branch(node);
        }
        if self.is_traceable(node)? && self.traced(node).is_ok() {
            return Ok(Done::Yes);
        }
        if node.reads().any(is_pending_in(&self.pending)) {
            return Ok(Done::NeedsProgram);
        }
        self.interpreter.node(node, self.scope)?;
        let is_fixed = node.reads().all(|name| self.scope.is_fixed(name)) && node.captured.is_empty();
        let outputs = node.proto.output.iter().filter(|name| !name.is_empty());
        if is_fixed {
            for name in outputs {
                self.fix(name, self.scope.get(name)?);
            }
            self.note_restored(node)?;
        } else {
            if self.is_turn() && !self.keeps_extents(node) {
                self.unsteady.extend(outputs.cloned());
            }
            self.items.push(Item::Node(node.clone()));
        }
        Ok(Done::Yes)
    }

    /// A node with branches becomes the nodes of the branch that its condition chooses.
    fn branch(&mut self, node: &Arc<Node>) -> Result<Done> {
        let Some(condition) = node.input(0) else {
            return Err(self.error(&format!("the node {} has no condition", node.shown())));
        };
        if self.pending.contains_key(condition) {
            return Ok(Done::NeedsProgram);
        }
        let value = self.scope.get(condition)?;
        let truth = value.tensor().and_then(|tensor| match tensor.data() {
            Data::Bool(v) => v.first().copied(),
            _ => None,
        });
        let Some(truth) = truth else {
            let sentence = format!(
                "the condition `{condition}` of the node {} is no truth value",
                node.shown()
            );
            return Err(self.error(&sentence));
        };
        if !self.scope.is_fixed(condition) {
            self.items.push(Item::Decision(condition.to_string(), value));
        }
        let branch = inlined(node, truth)?;
        for (name, tensor) in branch.initializers {
            self.fix(&name, tensor.into());
        }
        Ok(Done::Becomes(branch.nodes))
    }

    /// Gives a name the same value in every run that comes here.
    fn fix(&mut self, name: &str, value: HostValue) {
        self.scope.fix(name, value);
        self.fixed.push(name.to_string());
    }

    /// Whether the section is of a body's turns.
    fn is_turn(&self) -> bool {
        !self.scope.is_outermost()
    }

    /// An error, with the name of the file where no node around says it.
    fn error(&self, sentence: &str) -> Error {
        match self.is_turn() {
            true => Error::user(sentence),
            false => self.model.error(sentence),
        }
    }

    /// Whether a node is of floats that programs have, so that it is worth tracing.
    fn is_traceable(&self, node: &Arc<Node>) -> Result<bool> {
        if operator(node).is_err() || !node.captured.is_empty() {
            return Ok(false);
        }
        let to = node
            .attribute("to")
            .and_then(|to| Element::of(i32::try_from(to.i).ok()?));
        if node.proto.op_type == "Cast" && to.is_none() {
            return Ok(false);
        }
        let (mut has_float, mut all_fixed, mut has_pending) = (false, true, false);
        for name in node.proto.input.iter().filter(|name| !name.is_empty()) {
            if let Some((_, element)) = self.pending.get(name) {
                has_pending = true;
                has_float |= is_float_of_programs(*element);
                all_fixed = false;
                continue;
            }
            all_fixed &= self.scope.is_fixed(name);
            let element = if self.scope.has(name) {
                match self.scope.get(name)?.tensor() {
                    Some(tensor) => tensor.element(),
                    None => return Ok(false),
                }
            } else {
                match self.model.initializers.get(name) {
                    Some(tensor) => Some(tensor.element),
                    None => self.constants.get(name)?.and_then(|value| value.tensor()?.element()),
                }
            };
            match element {
                Some(element) => has_float |= element.is_float(),
                None => return Ok(false),
            }
        }
        Ok(has_pending || (has_float && !all_fixed))
    }

    /// Traces a node.
    fn traced(&mut self, node: &Arc<Node>) -> Result<()> {
        let mut inputs = Vec::with_capacity(node.proto.input.len());
        let mut elements = Vec::new();
        for position in 0..node.proto.input.len() {
            let Some(name) = node.input(position) else {
                inputs.push(None);
                continue;
            };
            let (value, element) = self.value(name)?;
            inputs.push(Some(value));
            elements.push(element);
        }
        let operator = operator(node)?;
        let _inside = self.trace.enter_scope(&node.shown());
        let fixed = |name: &str| match self.scope.is_fixed(name) {
            true => self.scope.get(name).ok(),
            false => None,
        };
        let mut call = Call {
            node,
            opset: self.model.version(node),
            trace: self.trace,
            inputs,
            constants: Some(&mut self.computed),
            held: Some(&mut self.inputs),
            codes: Some(&mut self.codes),
            moves_elements: moves_elements(node),
            elements: &elements,
            fixed: Some(&fixed),
            source: &self.model.source,
        };
        let outputs = self.trace.attempt_described(|| operator(&mut call))??;
        let wanted = node.proto.output.iter().filter(|name| !name.is_empty()).count();
        if outputs.len() < node.proto.output.len() && wanted > outputs.len() {
            return Err(Error::user("an output is not traced"));
        }
        let to = node
            .attribute("to")
            .and_then(|to| Element::of(i32::try_from(to.i).ok()?));
        let mut floats = elements.iter().copied().filter(|element| element.is_float());
        let first = floats.next();
        let is_mixed =
            floats.any(|element| Some(element) != first && first.is_some_and(is_narrow) | is_narrow(element));
        let float = to.or(first);
        // Several results may be of several types, such as a norm's statistics, unless they are parts of an input.
        let is_parted = wanted == 1 || elements_of(&outputs) == call.inputs.iter().flatten().map(count).next();
        if is_mixed || (float.is_some_and(is_narrow) && !is_parted) {
            return Err(Error::user("results of several types are not traced"));
        }
        let signs = call.inputs.iter().flatten().filter_map(|value| match value {
            Value::Codes(codes) => Some(codes.is_signed),
            _ => None,
        });
        let signs: HashSet<bool> = signs.collect();
        let moves_codes = !signs.is_empty() && moves_elements(node);
        if moves_codes && (signs.len() > 1 || call.inputs.iter().flatten().any(is_traced_number)) {
            return Err(Error::user("integers of several types are not traced"));
        }
        let is_signed = signs.contains(&true);
        let moves_integers = elements.first() == Some(&Element::Int(4)) && moves_elements(node);
        let mut given = Vec::new();
        for (name, value) in node.proto.output.iter().zip(outputs) {
            if name.is_empty() {
                continue;
            }
            match value {
                Value::Traced(tensor) => {
                    let traced = match (tensor.dtype(), float) {
                        (DType::F32, Some(Element::F16)) => (tensor.rounded_to_half(), Element::F16),
                        (DType::F32, Some(Element::BF16)) => (tensor.cast(DType::BF16).cast(DType::F32), Element::BF16),
                        (DType::F32, _) => (tensor, Element::F32),
                        (DType::F64, _) => (tensor, Element::F64),
                        (DType::Bool, _) => (tensor, Element::Bool),
                        (DType::U8, _) if moves_codes => (tensor, Codes { tensor, is_signed }.element()),
                        (DType::I32, _) if moves_integers => (tensor, Element::Int(4)),
                        _ => return Err(Error::user("integers are not traced")),
                    };
                    given.push((name, Some(traced), None));
                }
                Value::Known(array) if array.ty.dtype.is_float() && float.is_some_and(is_narrow) => {
                    return Err(Error::user("numbers of 16 bits that are known are not traced"));
                }
                Value::Known(array) => given.push((name, None, Some(of_known(&array)?))),
                Value::Held(held) => given.push((name, None, Some(HostTensor::clone(&held.tensor)))),
                Value::Codes(codes) => given.push((name, Some((codes.tensor, codes.element())), None)),
                Value::Integers(tensor) => given.push((name, Some((tensor, Element::Int(4))), None)),
                Value::Restored(_) => return Err(Error::user("constants are not traced")),
            }
        }
        for (name, traced, known) in given {
            if let Some(traced) = traced {
                self.pending.insert(name.clone(), traced);
            }
            if let Some(known) = known {
                self.fix(name, known.into());
            }
        }
        Ok(())
    }
}

/// The number of elements of a value.
fn count(value: &Value) -> usize {
    match value {
        Value::Traced(tensor) => tensor.ty().numel(),
        Value::Known(array) => array.ty.numel(),
        Value::Held(held) => held.tensor.len(),
        Value::Codes(codes) => codes.tensor.ty().numel(),
        Value::Integers(tensor) => tensor.ty().numel(),
        Value::Restored(restored) => restored.values.len(),
    }
}

/// Whether a value is computed by the program, and no codes.
fn is_traced_number(value: &Value) -> bool {
    matches!(value, Value::Traced(_) | Value::Integers(_))
}

/// The number of elements of several values together.
fn elements_of(values: &[Value]) -> Option<usize> {
    values.iter().map(count).try_fold(0usize, usize::checked_add)
}

/// Whether a type is computed with more bits than it has, and its results are rounded.
fn is_narrow(element: Element) -> bool {
    element.is_float() && !matches!(element, Element::F32 | Element::F64)
}

fn is_pending_in<'p, T>(pending: &'p HashMap<String, T>) -> impl Fn(&str) -> bool + 'p {
    |name| pending.contains_key(name)
}

/// Numbers that a tracer knows: extents, which are integers of 64 bits.
fn of_known(array: &Array) -> Result<HostTensor> {
    let element = match array.ty.dtype {
        DType::F32 => Element::F32,
        DType::F64 => Element::F64,
        DType::Bool => Element::Bool,
        _ => Element::Int(8),
    };
    HostTensor::new(&array.ty.shape, Data::of_f64(element, array.data.iter().copied()))
}
