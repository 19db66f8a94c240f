//! Bodies of loops as sections, which are kept from turn to turn and from run to run.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use lessen_base::Result;
use lessen_device::Backend;

use super::branch::of_proto;
use super::interpreter::{Interpreter, Repeats, Turns};
use super::scope::Scope;
use super::section::Section;
use super::way::follow;
use lessen_onnx::host::{Body, HostValue};
use lessen_onnx::{Element, Node};

/// The most bodies of a session; the one that was used longest ago is dropped for another one.
const MOST_BODIES: usize = 16;

/// A body for some of its values.
struct Kept {
    /// The node that repeats it.
    owner: Arc<Node>,
    /// Values that are the same in every turn, with their names in the body.
    bound: Vec<(String, HostValue)>,
    section: Section,
}

/// Bodies that have been repeated; the one that was used last comes first.
#[derive(Default)]
pub(super) struct Bodies {
    all: RefCell<Vec<Kept>>,
}

/// The turns of a node while it is computed.
struct Running<'a> {
    bodies: &'a Bodies,
    kept: Kept,
    /// Types and extents of the inputs of the last turn; none where one was no array.
    types: Option<Vec<InputType>>,
    count: usize,
}

/// The type and the extents of an input of a turn.
type InputType = (Option<Element>, Vec<usize>);

impl<B: Backend + ?Sized> Repeats<B> for Bodies {
    fn begin<'a>(
        &'a self,
        owner: &Arc<Node>,
        body: &Body<'_>,
        inputs: &[HostValue],
        around: &Scope<'_>,
    ) -> Option<Box<dyn Turns<B> + 'a>> {
        let same = body.same.as_ref()?;
        let mut bound = Vec::new();
        for (number, (input, value)) in body.graph.input.iter().zip(inputs).enumerate() {
            let given = owner.input(number).filter(|_| same.contains(input.name.as_str()));
            if given.is_some_and(|given| around.is_fixed(given)) {
                bound.push((input.name.clone(), value.clone()));
            }
        }
        for name in owner
            .captured
            .iter()
            .filter(|name| around.has(name) && around.is_fixed(name))
        {
            bound.push((name.clone(), around.get(name).ok()?));
        }
        let mut bodies = self.all.borrow_mut();
        let is_kept = |kept: &Kept| Arc::ptr_eq(&kept.owner, owner) && are_same(&kept.bound, &bound);
        let kept = match bodies.iter().position(is_kept) {
            Some(number) => bodies.remove(number),
            None => Kept {
                section: Section::new(
                    body.graph
                        .node
                        .iter()
                        .map(|node| of_proto(node.clone(), owner))
                        .collect(),
                    HashSet::new(),
                ),
                owner: owner.clone(),
                bound,
            },
        };
        drop(bodies);
        Some(Box::new(Running {
            bodies: self,
            kept,
            types: None,
            count: 0,
        }))
    }
}

impl Running<'_> {
    /// Whether the next turn is computed by programs: the first one, the second one, before which placeholders may have
    /// become arrays, and each one whose inputs have the types and extents of those of the turn before.
    fn admit(&mut self, inputs: &[HostValue]) -> bool {
        let is_like = |(input, (element, shape)): (&HostValue, &InputType)| {
            let tensor = input.tensor();
            tensor.is_some_and(|tensor| tensor.element() == *element && tensor.shape() == shape)
        };
        self.count += 1;
        let before = self.types.as_ref();
        if before.is_some_and(|before| inputs.iter().zip(before).all(is_like)) {
            return true;
        }
        let types = inputs.iter().map(|input| {
            let tensor = input.tensor()?;
            Some((tensor.element(), tensor.shape().to_vec()))
        });
        self.types = types.collect();
        self.count <= 2 && self.types.is_some()
    }
}

impl<B: Backend + ?Sized> Turns<B> for Running<'_> {
    fn next(
        &mut self,
        interpreter: &Interpreter<'_, B>,
        body: &Body<'_>,
        inputs: &[HostValue],
        around: &Scope<'_>,
    ) -> Result<Option<Vec<HostValue>>> {
        if !self.admit(inputs) {
            return Ok(None);
        }
        let scope = around.inner(body.initializers.clone());
        for (input, value) in body.graph.input.iter().zip(inputs) {
            match self.kept.bound.iter().any(|(name, _)| *name == input.name) {
                true => scope.fix(&input.name, value.clone()),
                false => scope.set(&input.name, value.clone()),
            }
        }
        let outputs = || body.graph.output.iter();
        let is_wanted = |name: &str| outputs().any(|output| output.name == name);
        follow(interpreter, &mut self.kept.section, &scope, &is_wanted)?;
        let outputs = outputs().map(|output| scope.get(&output.name));
        outputs.collect::<Result<_>>().map(Some)
    }

    fn end(self: Box<Self>, interpreter: &Interpreter<'_, B>) {
        let mut bodies = self.bodies.all.borrow_mut();
        bodies.insert(0, self.kept);
        if bodies.len() > MOST_BODIES
            && let Some(last) = bodies.pop()
        {
            last.section.unload(&mut **interpreter.device.borrow_mut());
        }
    }
}

/// Whether names stand for the very same arrays.
fn are_same(one: &[(String, HostValue)], other: &[(String, HostValue)]) -> bool {
    let is_same = |(one, other): (&(String, HostValue), &(String, HostValue))| {
        let arrays = one.1.tensor().zip(other.1.tensor());
        one.0 == other.0 && arrays.is_some_and(|(one, other)| Arc::ptr_eq(one, other))
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}
