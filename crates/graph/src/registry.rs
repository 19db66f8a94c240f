//! The registry: operations by name, for the text form.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::attrs::Attrs;
use crate::named::Build;
use crate::op::Op;

/// The operations that [`parse`](crate::parse) knows.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    pub(crate) builders: HashMap<String, Build>,
}

impl Registry {
    /// No operations.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds an operation.
    ///
    /// # Errors
    /// If an operation of this name is registered already; [`Registry::standard`] has all standard ones.
    pub fn register(&mut self, name: &str, build: Build) -> Result<()> {
        if self.builders.contains_key(name) {
            return Err(Error::user(format!(
                "an operation called `{name}` is registered already; choose another name"
            )));
        }
        self.builders.insert(name.to_string(), build);
        Ok(())
    }

    /// The names of all operations, in alphabetical order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.builders.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// The operation of this name with these attributes.
    ///
    /// # Errors
    /// A sentence that names the unknown operation, or the attribute that is missing or wrong.
    pub fn build(&self, name: &str, attrs: &Attrs) -> Result<Arc<dyn Op>> {
        let build = self
            .builders
            .get(name)
            .ok_or_else(|| Error::user(format!("there is no operation `{name}`")))?;
        let op = build(attrs).map_err(|e| e.at(name))?;
        let known = op.attrs();
        match attrs.0.iter().find(|(name, _)| known.get(name).is_none()) {
            Some((unknown, _)) => Err(Error::user(format!("{name}: there is no attribute `{unknown}`"))),
            None => Ok(op),
        }
    }
}
