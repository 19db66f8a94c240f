//! States in files: the name and type that a file has of each.

use lessen_base::{Error, Result};
use lessen_graph::Type;
use lessen_nn::checkpoint::TensorFile;
use lessen_nn::names::{in_files, is_reserved};

/// A state, and its name in a file.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FiledState {
    /// Name of the state on the device.
    pub state: String,
    /// Name of the state's tensor in the file.
    pub tensor: String,
    pub ty: Type,
}

impl FiledState {
    /// A parameter in a file of parameters, which bears its own name there.
    pub fn of_param(name: &str, shape: &[usize]) -> FiledState {
        FiledState {
            state: name.to_string(),
            tensor: name.to_string(),
            ty: Type::f32(shape),
        }
    }

    /// A state in a file with states of training.
    pub fn of_training(name: &str, ty: &Type) -> FiledState {
        FiledState {
            state: name.to_string(),
            tensor: in_files(name).into_owned(),
            ty: ty.clone(),
        }
    }
}

/// Gives states of the model function the names that they have in an older file, where such a name looks like a name of
/// training and no state of training is called so.
pub(crate) fn with_names_of(file: &TensorFile, mut states: Vec<FiledState>) -> Vec<FiledState> {
    let names = file.names();
    let of_training: Vec<String> = states
        .iter()
        .filter(|own| is_reserved(&own.state))
        .map(|own| own.tensor.clone())
        .collect();
    for own in &mut states {
        let is_missing = own.tensor != own.state && !names.contains(&own.tensor);
        if is_missing && !is_reserved(&own.state) && !of_training.contains(&own.state) {
            own.tensor.clone_from(&own.state);
        }
    }
    states
}

/// Returns the states that a file has in the same type.
pub(crate) fn found(file: &TensorFile, states: &[FiledState]) -> Vec<FiledState> {
    let has = |own: &&FiledState| {
        file.entries()
            .any(|entry| entry.name == own.tensor && entry.ty == own.ty)
    };
    states.iter().filter(has).cloned().collect()
}

/// Refuses a file that lacks a state or parameter of `states`, or has it in another type.
///
/// # Errors
/// A sentence that names the state or parameter.
pub(crate) fn check(file: &TensorFile, states: &[FiledState]) -> Result<()> {
    for FiledState { tensor, ty: own, .. } in states {
        match file.entries().find(|entry| entry.name == *tensor) {
            Some(entry) if entry.ty == *own => {}
            Some(entry) => {
                let ty = entry.ty;
                return Err(Error::user(format!(
                    "`{tensor}` is {ty} in the checkpoint and {own} in the model; take the model that was saved"
                )));
            }
            None => {
                return Err(Error::user(format!(
                    "the checkpoint has no `{tensor}`; take the model that was saved"
                )));
            }
        }
    }
    Ok(())
}
