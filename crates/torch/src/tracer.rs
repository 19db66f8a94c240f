//! Traces an exported program into a context.
//!
//! Operators that change a tensor in place give it a new value. Where the tensor is a view of another one that is read
//! later, or has views that are, both would have to change, and the operator is refused with its line.

use lessen_base::{Error, Result};
use lessen_graph::{Array, DType, Type, numel};
use lessen_nn::{Cx, Init};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::call::{Call, Surroundings};
use crate::operators::{operator, unknown};
use crate::program::{Argument, ExportedInput, ExportedNode, ExportedProgram, InputRole};
use crate::value::Value;
use crate::window::Window;

/// What a program is traced with.
#[derive(Clone, Copy)]
pub struct TraceValues<'a> {
    /// The types of the batch's parts, in the order of the program's data.
    pub batch: &'a [Type],
    /// Values of buffers, constants and parameters by name, for those that are constant here.
    pub constants: &'a BTreeMap<String, Arc<Array>>,
    /// Parameters and buffers that are states of the graph.
    pub states: &'a BTreeSet<String>,
}

/// What tracing a program gives.
pub struct Traced {
    /// The results, in order.
    pub outputs: Vec<Value>,
    /// Whole numbers by which a run moves buffers that count, by name.
    pub counters: BTreeMap<String, f64>,
    /// How parts of the program were traced where there are several ways.
    pub notes: Vec<String>,
}

/// The data input with a part of the batch.
pub fn data_name(target: &str) -> String {
    format!("batch.{target}")
}

/// A value with its place among those that share memory.
struct Slot {
    value: Value,
    /// The slot whose memory it shares, its own if none.
    root: usize,
    /// The part of another slot that it is, if it is one.
    window: Option<(usize, Window)>,
}

/// A trace of a program.
pub struct Tracer<'p> {
    shared: Surroundings,
    slots: Vec<Slot>,
    names: HashMap<&'p str, usize>,
}

/// Traces a program into a context.
///
/// # Errors
/// An operator that Lessen does not have or that has other arguments than it takes, with the user's line.
pub fn trace(program: &ExportedProgram, cx: Cx, values: TraceValues<'_>) -> Result<Traced> {
    let mut tracer = Tracer {
        shared: Surroundings::new(cx),
        slots: Vec::new(),
        names: HashMap::new(),
    };
    let mut batch = values.batch.iter();
    for input in &program.inputs {
        let value = tracer.input(input, &mut batch, values)?;
        tracer.define(&input.name, value, None);
    }
    let begun: Vec<Value> = tracer.slots.iter().map(|slot| slot.value.clone()).collect();
    let last = last_reads(program);
    for (index, node) in program.nodes.iter().enumerate() {
        tracer
            .node(index, node, &last)
            .map_err(|error| error.at(format!("`{}`{}", node.operator, node.place())))?;
    }
    let outputs = program.outputs.iter().map(|output| tracer.argument(output));
    let outputs = outputs.collect::<Result<_>>()?;
    let counters = tracer.assign_buffers(program, &begun)?;
    Ok(Traced {
        outputs,
        counters,
        notes: tracer.shared.notes,
    })
}

/// The last node that reads each name; results of the program are read at the end.
fn last_reads(program: &ExportedProgram) -> HashMap<&str, usize> {
    fn names<'a>(argument: &'a Argument, found: &mut Vec<&'a str>) {
        match argument {
            Argument::Node { node } => found.push(node),
            Argument::List(all) => all.iter().for_each(|own| names(own, found)),
            _ => {}
        }
    }
    let mut last = HashMap::new();
    let mut found = Vec::new();
    for (index, node) in program.nodes.iter().enumerate() {
        node.arguments
            .iter()
            .for_each(|(_, argument)| names(argument, &mut found));
        last.extend(found.drain(..).map(|name| (name, index)));
    }
    program.outputs.iter().for_each(|output| names(output, &mut found));
    last.extend(found.drain(..).map(|name| (name, usize::MAX)));
    last
}

impl<'p> Tracer<'p> {
    fn input<'t>(
        &mut self,
        input: &ExportedInput,
        batch: &mut impl Iterator<Item = &'t Type>,
        values: TraceValues<'_>,
    ) -> Result<Value> {
        let (target, shape, cx) = (&input.target, &input.shape, self.shared.cx);
        let is_state = values.states.contains(target);
        Ok(Value::Tensor(match input.role {
            InputRole::Data => {
                let Some(ty) = batch.next() else {
                    return Err(Error::user(format!("the batch lacks `{target}`")));
                };
                cx.input(&data_name(target), ty.dtype, &ty.shape)
            }
            InputRole::Parameter if is_state => cx.param(target, shape, Init::Zeros),
            InputRole::Buffer if is_state => cx.buffer(target, shape, Init::Zeros),
            _ => match values.constants.get(target) {
                Some(array) => cx.trace().constant(Array::clone(array)),
                None => {
                    return Err(Error::internal(format!("the value of `{target}` is not given")));
                }
            },
        }))
    }

    fn define(&mut self, name: &'p str, value: Value, root: Option<usize>) {
        let own = self.slots.len();
        self.slots.push(Slot {
            value,
            root: root.unwrap_or(own),
            window: None,
        });
        self.names.insert(name, own);
    }

    fn argument(&self, argument: &Argument) -> Result<Value> {
        Ok(match argument {
            Argument::Absent => Value::Absent,
            Argument::Bool(truth) => Value::Bool(*truth),
            Argument::Int(number) => Value::Int(*number),
            Argument::Float(number) => Value::Float(*number),
            Argument::Text(text) => Value::Text(text.clone()),
            Argument::List(all) => Value::List(all.iter().map(|own| self.argument(own)).collect::<Result<_>>()?),
            Argument::Node { node } => self.slots[self.slot(node)?].value.clone(),
            Argument::Special { float } => Value::Float(float.parse().unwrap_or(f64::NAN)),
            Argument::DType { dtype } => match DType::from_name(dtype) {
                Some(dtype) => Value::DType(dtype),
                None => {
                    return Err(Error::user(format!(
                        "tensors of the dtype {dtype} are not traced; use float32, bfloat16, int64 or bool"
                    )));
                }
            },
        })
    }

    fn slot(&self, name: &str) -> Result<usize> {
        let found = self.names.get(name).copied();
        found.ok_or_else(|| Error::internal(format!("the program reads `{name}` before it is computed")))
    }

    fn node(&mut self, index: usize, node: &'p ExportedNode, last: &HashMap<&str, usize>) -> Result<()> {
        let Some(operator) = operator(&node.operator) else {
            return Err(Error::user(unknown(&node.operator)));
        };
        let mut arguments = Vec::with_capacity(node.arguments.len());
        for (name, argument) in &node.arguments {
            arguments.push((name.as_str(), self.argument(argument)?));
        }
        let trace = self.shared.cx.trace();
        let scope = trace.enter_scope(&node.name);
        let mut call = Call {
            surroundings: &mut self.shared,
            node,
            arguments,
        };
        call.surroundings.window = None;
        let value = trace.attempt_described(|| operator(&mut call))??;
        drop(scope);
        let argument = |wanted: Option<&str>| {
            let mut arguments = node.arguments.iter();
            let found = arguments.find(|(name, _)| wanted.is_none_or(|wanted| name == wanted));
            match found {
                Some((_, Argument::Node { node })) => self.slot(node).map(Some),
                _ => Ok(None),
            }
        };
        match &node.writes {
            Some(written) => {
                let Some(slot) = argument(Some(written))? else {
                    return Err(Error::user("it changes something that is no tensor of the program"));
                };
                self.write(slot, value, (index, last))?;
                self.names.insert(&node.name, slot);
            }
            None => {
                let parent = argument(None)?.filter(|_| node.is_view);
                let root = parent.map(|slot| self.slots[slot].root);
                self.define(&node.name, value, root);
                let own = self.slots.len() - 1;
                self.slots[own].window = parent.zip(self.shared.window);
            }
        }
        Ok(())
    }

    /// Gives a tensor a new value in place; where it is a part of others, they get it, too.
    fn write(&mut self, slot: usize, value: Value, (index, last): (usize, &HashMap<&str, usize>)) -> Result<()> {
        let mut changed = vec![slot];
        while let Some((parent, _)) = self.slots[changed[changed.len() - 1]].window {
            changed.push(parent);
        }
        let root = self.slots[slot].root;
        let is_stale = |(name, own): (&&'p str, &usize)| {
            let is_read = last.get(*name).is_some_and(|last| *last > index);
            !changed.contains(own) && self.slots[*own].root == root && is_read
        };
        if self.names.iter().any(is_stale) {
            return Err(Error::user(
                "it changes a view in place, or a tensor that has views which are read later; write it without the \
                 underscore, into a new tensor",
            ));
        }
        let mut new = value;
        for slot in changed {
            let own = &mut self.slots[slot];
            if let (Value::Tensor(old), Value::Tensor(tensor)) = (&own.value, &new) {
                new = Value::Tensor(tensor.cast(old.dtype()).broadcast_to(&old.shape()));
            }
            own.value = new.clone();
            if let Some((parent, window)) = own.window
                && let (Value::Tensor(part), Value::Tensor(whole)) = (&new, &self.slots[parent].value)
            {
                new = Value::Tensor(window.replaced(*whole, *part));
            }
        }
        Ok(())
    }

    /// Assigns buffers that operators have changed, and returns by how much buffers of whole numbers grow.
    fn assign_buffers(&mut self, program: &ExportedProgram, begun: &[Value]) -> Result<BTreeMap<String, f64>> {
        let mut counters = BTreeMap::new();
        let trace = self.shared.cx.trace();
        for (position, input) in program.inputs.iter().enumerate() {
            let (Value::Tensor(old), Value::Tensor(new)) = (&begun[position], &self.slots[position].value) else {
                continue;
            };
            let (old, new) = (*old, *new);
            if old.id() == new.id() || input.role == InputRole::Data {
                continue;
            }
            let name = &input.target;
            match input.role {
                InputRole::Buffer if input.dtype == DType::F32 => {
                    let new = new.stop_gradient();
                    if self.shared.cx.training() {
                        trace.in_phase(lessen_graph::Phase::Update, || trace.change(old, |_| new));
                    }
                }
                InputRole::Buffer if numel(&input.shape) == 1 => {
                    let (Some(old), Some(new)) = (self.shared.known.of(old), self.shared.known.of(new)) else {
                        return Err(Error::user(format!(
                            "the buffer `{name}` of whole numbers changes with the batch; keep it as floats"
                        )));
                    };
                    counters.insert(name.clone(), new.item() - old.item());
                }
                InputRole::Buffer | InputRole::Constant => {}
                _ => {
                    return Err(Error::user(format!(
                        "the parameter `{name}` is changed in place by the module; leave that to the optimizer"
                    )));
                }
            }
        }
        Ok(counters)
    }
}
