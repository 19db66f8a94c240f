//! Operations by name: those of this crate, and others that a program registers for the text form.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use lessen_base::{Error, Result};

use crate::attrs::Attrs;
use crate::named::Build;
use crate::op::Op;
use crate::ops;

/// The types of this crate's operations, by name.
static STANDARD: LazyLock<HashMap<&str, TypeId>> =
    LazyLock::new(|| ops::standard().map(|op| (op.name, (op.type_id)())).collect());

/// The operations that [`parse`](crate::parse) knows.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    builders: HashMap<String, Build>,
}

impl Registry {
    /// No operations.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// All operations of this crate.
    pub fn standard() -> Registry {
        Registry {
            builders: ops::standard()
                .map(|op| (op.name.to_string(), op.build))
                .collect(),
        }
    }

    /// Adds an operation.
    ///
    /// # Errors
    /// If the name is taken: by a standard operation or by one that was registered before.
    pub fn register(&mut self, name: &str, build: Build) -> Result<()> {
        if STANDARD.contains_key(name) || self.builders.contains_key(name) {
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

impl dyn Op {
    /// Whether the operation is one of this crate's: every device runs it, and the evaluator knows it.
    pub fn is_standard(&self) -> bool {
        STANDARD.get(self.name()) == Some(&self.concrete_type())
    }

    /// Checks that an operation from outside does not bear the name of a standard one.
    pub(crate) fn check_not_reserved(&self) -> Result<()> {
        if self.is_standard() || !STANDARD.contains_key(self.name()) {
            return Ok(());
        }
        Err(Error::user(format!(
            "the operation {self:?} bears the name of the standard operation `{}`; rename it",
            self.name()
        )))
    }
}
