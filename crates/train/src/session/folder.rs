//! Sessions of saved parameters.

use super::{Function, Session};
use crate::plans::traced;
use crate::reading::Reading;
use lessen_base::{Error, Result};
use lessen_compile::{Backend, Options};
use lessen_graph::Tensor;
use lessen_nn::Context;
use lessen_nn::checkpoint::TensorFile;
use std::path::Path;

/// The file with the parameters in a checkpoint.
pub(crate) const PARAMETERS: &str = "model.safetensors";

impl Session {
    /// The parameters of a folder with `model.safetensors`, such as a checkpoint, and a function over them: `trace`
    /// declares the parameters that it uses and returns its results by name. Others in the file are left out.
    ///
    /// # Errors
    /// Shapes that do not fit each other, with the line of the function; a file that cannot be read or lacks a
    /// parameter; a model that the machine's memory cannot hold.
    pub fn open(
        backend: Box<dyn Backend>,
        dir: &Path,
        trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
    ) -> Result<(Session, Function)> {
        let (graph, params) = traced(&Reading::default(), trace)?;
        let names: Vec<String> = params.iter().map(|param| param.name.clone()).collect();
        let mut file = TensorFile::open(&dir.join(PARAMETERS))?;
        let mut session = Session::zeros(backend, params)?;
        session
            .check_states(&file, &names)
            .map_err(|error| error.at(dir.display()))?;
        session.load_states(&mut file, &names)?;
        let function = session.add(&graph, &Options::default())?;
        Ok((session, function))
    }

    /// Refuses a file that lacks one of these states or parameters, or has it in another type.
    pub(crate) fn check_states(&self, file: &TensorFile, names: &[String]) -> Result<()> {
        for name in names {
            let (own, found) = (self.entry(name).ty, file.entries().find(|entry| entry.name == *name));
            match found {
                Some(entry) if entry.ty == own => {}
                Some(entry) => {
                    let ty = entry.ty;
                    return Err(Error::user(format!(
                        "`{name}` is {ty} in the checkpoint and {own} in the model; take the model that was saved"
                    )));
                }
                None => {
                    return Err(Error::user(format!(
                        "the checkpoint has no `{name}`; take the model that was saved"
                    )));
                }
            }
        }
        Ok(())
    }
}
