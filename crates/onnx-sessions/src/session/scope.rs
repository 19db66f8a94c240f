//! The names of a graph while it runs, and those around it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lessen_base::{Error, Result};

use super::constants::Constants;
use lessen_onnx::host::HostValue;

/// The names of a graph that runs.
pub(super) struct Scope<'s> {
    values: RefCell<HashMap<String, HostValue>>,
    /// Names of values that are the same in every run that comes here.
    fixed: RefCell<HashSet<String>>,
    /// The initializers of a branch or a body.
    initializers: Option<Arc<HashMap<String, HostValue>>>,
    /// The names around a branch or a body.
    around: Option<&'s Scope<'s>>,
    /// The initializers of the model, which all of its graphs may read.
    constants: Option<&'s Constants>,
}

impl<'s> Scope<'s> {
    /// The scope of the model's own graph.
    pub(super) fn outermost(constants: &'s Constants) -> Scope<'s> {
        Scope {
            values: RefCell::default(),
            fixed: RefCell::default(),
            initializers: None,
            around: None,
            constants: Some(constants),
        }
    }

    /// A scope of which all names are set.
    pub(super) fn empty() -> Scope<'s> {
        Scope {
            values: RefCell::default(),
            fixed: RefCell::default(),
            initializers: None,
            around: None,
            constants: None,
        }
    }

    /// The scope of a graph within this one, which begins with these initializers.
    pub(super) fn inner(&'s self, initializers: Arc<HashMap<String, HostValue>>) -> Scope<'s> {
        Scope {
            values: RefCell::default(),
            fixed: RefCell::default(),
            initializers: Some(initializers),
            around: Some(self),
            constants: None,
        }
    }

    /// Defines a name.
    pub(super) fn set(&self, name: &str, value: HostValue) {
        self.values.borrow_mut().insert(name.to_string(), value);
    }

    /// Defines a name whose value is the same in every run that comes here.
    pub(super) fn fix(&self, name: &str, value: HostValue) {
        self.set(name, value);
        self.fixed.borrow_mut().insert(name.to_string());
    }

    /// Whether it is that of the model's own graph.
    pub(super) fn is_outermost(&self) -> bool {
        self.around.is_none()
    }

    /// Whether a name is defined here or around, other than as an initializer of the model.
    pub(super) fn has(&self, name: &str) -> bool {
        self.defines(name) || self.around.is_some_and(|around| around.has(name))
    }

    fn defines(&self, name: &str) -> bool {
        let own = self.initializers.as_ref();
        self.values.borrow().contains_key(name) || own.is_some_and(|own| own.contains_key(name))
    }

    /// Whether a name stands for the same value in every run that comes here.
    pub(super) fn is_fixed(&self, name: &str) -> bool {
        if self.values.borrow().contains_key(name) {
            return self.fixed.borrow().contains(name);
        }
        self.defines(name)
            || self.around.is_some_and(|around| around.is_fixed(name))
            || self.constants.is_some_and(|constants| constants.has(name))
    }

    /// What a name stands for.
    ///
    /// # Errors
    /// A name that is not defined, an initializer that cannot be read.
    pub(super) fn get(&self, name: &str) -> Result<HostValue> {
        if let Some(value) = self.values.borrow().get(name) {
            return Ok(value.clone());
        }
        if let Some(value) = self.initializers.as_ref().and_then(|own| own.get(name)) {
            return Ok(value.clone());
        }
        let outer = match (self.around, self.constants) {
            (Some(around), _) => Some(around.get(name)?),
            (None, Some(constants)) => constants.get(name)?,
            (None, None) => None,
        };
        outer.ok_or_else(|| Error::user(format!("nothing defines the value `{name}`")))
    }
}
