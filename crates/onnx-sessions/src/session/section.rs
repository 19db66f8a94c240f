//! What a session has learned: steps that ran, and the values for which they are right.
//!
//! ```text
//! Section: nodes that are left ──▶ Alternative: host steps, guards, at most one program ──▶ next Section
//!                           └──▶ another Alternative, for other values
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use lessen_base::Result;
use lessen_device::Backend;

use super::interpreter::Interpreter;
use super::program::Program;
use super::scope::Scope;
use lessen_onnx::Element;
use lessen_onnx::Node;
use lessen_onnx::host::HostValue;

/// The most alternatives of a section; the one that was used longest ago is dropped for another one.
pub(super) const MOST_ALTERNATIVES: usize = 16;

/// A place in a model: what is left to do from there on.
pub(super) struct Section {
    /// The nodes that are left.
    pub nodes: Vec<Arc<Node>>,
    /// Names of a body's arrays whose extents may be others in the next turn.
    pub unsteady: HashSet<String>,
    /// What was done so far; the one that was used last comes first.
    pub alternatives: Vec<Alternative>,
}

/// A way to go on from a section.
pub(super) struct Alternative {
    pub items: Vec<Item>,
    /// Arrays that the program reads, as they must be for it.
    pub guards: Vec<Guard>,
    pub program: Option<Program>,
    /// Values that do not change from run to run and are read later.
    pub fixed: Vec<(String, HostValue)>,
    /// The rest of the model; none at its end.
    pub next: Option<Box<Section>>,
}

/// Something that an alternative does before its program.
pub(super) enum Item {
    /// A node that is computed in memory.
    Node(Arc<Node>),
    /// A value that decides what comes after it.
    Decision(String, HostValue),
}

/// An array that a program reads.
pub(super) struct Guard {
    pub name: String,
    pub element: Option<Element>,
    pub shape: Vec<usize>,
    /// Its elements, where these decided what was traced.
    pub elements: Option<HostValue>,
}

impl Guard {
    fn holds(&self, scope: &Scope<'_>) -> Result<bool> {
        let value = scope.get(&self.name)?;
        let Some(tensor) = value.tensor() else { return Ok(false) };
        let is_alike = tensor.element() == self.element && tensor.shape() == self.shape;
        Ok(is_alike && self.elements.as_ref().is_none_or(|elements| *elements == value))
    }
}

impl Section {
    /// A section of which nothing was done so far.
    pub(super) fn new(nodes: Vec<Arc<Node>>, unsteady: HashSet<String>) -> Section {
        Section {
            nodes,
            unsteady,
            alternatives: Vec::new(),
        }
    }

    /// Removes its programs from the device.
    pub(super) fn unload<B: Backend + ?Sized>(self, backend: &mut B) {
        let all = self.alternatives.into_iter();
        all.for_each(|alternative| alternative.unload(backend));
    }
}

impl Alternative {
    /// Does it once more, as far as it is right for the values of the scope; whether it was.
    pub(super) fn again<B: Backend + ?Sized>(
        &self,
        interpreter: &Interpreter<'_, B>,
        scope: &Scope<'_>,
    ) -> Result<bool> {
        for (name, value) in &self.fixed {
            scope.fix(name, value.clone());
        }
        for item in &self.items {
            match item {
                // Another alternative may do without the node, or says what is wrong with it.
                Item::Node(node) => {
                    if interpreter.node(node, scope).is_err() {
                        return Ok(false);
                    }
                }
                Item::Decision(name, value) => {
                    if scope.get(name)? != *value {
                        return Ok(false);
                    }
                }
            }
        }
        for guard in &self.guards {
            if !guard.holds(scope)? {
                return Ok(false);
            }
        }
        if let Some(program) = &self.program {
            program.run(&mut **interpreter.device.borrow_mut(), scope)?;
        }
        Ok(true)
    }

    /// Removes its programs from the device.
    pub(super) fn unload<B: Backend + ?Sized>(self, backend: &mut B) {
        if let Some(program) = self.program {
            program.unload(backend);
        }
        if let Some(next) = self.next {
            next.unload(backend);
        }
    }
}
