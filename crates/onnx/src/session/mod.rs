//! Running a model on arrays in memory.

mod constants;
mod interpreter;
mod scope;

use std::sync::Arc;

use lessen_base::Result;

use self::constants::Constants;
use self::interpreter::Interpreter;
use self::scope::Scope;
use crate::host::HostValue;
use crate::model::Model;

/// A model that is ready to run.
pub struct Session {
    model: Arc<Model>,
    constants: Constants,
}

impl Session {
    /// A session of a model.
    ///
    /// # Errors
    /// Operators that are not known; the sentence names all of them.
    pub fn new(model: Arc<Model>) -> Result<Session> {
        Ok(Session {
            constants: Constants::new(model.clone()),
            model,
        })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The outputs of the model, in its order, for these inputs by name.
    ///
    /// # Errors
    /// Inputs that do not fit a node, with the node's name.
    pub fn run(&self, inputs: Vec<(String, HostValue)>) -> Result<Vec<(String, HostValue)>> {
        let scope = Scope::outermost(&self.constants);
        for (name, value) in inputs {
            scope.set(&name, value);
        }
        let interpreter = Interpreter::new(&self.model);
        for node in &self.model.nodes {
            interpreter.node(&node.proto, &scope)?;
        }
        let outputs = self.model.outputs.iter().map(|output| {
            let value = scope.get(&output.name)?;
            Ok((output.name.clone(), value))
        });
        outputs.collect()
    }
}
