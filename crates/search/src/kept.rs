//! States of a session that outlive a process: read as numbers, and given back.

use crate::steps::momentum_of;
use lessen_base::{Error, Result};
use lessen_device::HostArray;
use lessen_nn::{ParamSpec, Weight, Weights};
use lessen_train::Session;

/// Names and shapes of weights and their momentum.
pub(crate) fn of_params(params: &[ParamSpec]) -> impl Iterator<Item = (String, Vec<usize>)> + '_ {
    params
        .iter()
        .flat_map(|param| [param.name.clone(), momentum_of(&param.name)].map(|name| (name, param.shape.clone())))
}

/// The numbers of the states of these names and shapes.
///
/// # Errors
/// A device that fails.
pub(crate) fn read(session: &Session, kept: impl IntoIterator<Item = (String, Vec<usize>)>) -> Result<Weights> {
    let weight = |(name, shape): (String, Vec<usize>)| {
        let state = session.state(&name)?;
        let data = state.host().as_f32().map(<[f32]>::to_vec);
        let data = data.ok_or_else(|| Error::internal(format!("the state `{name}` is not f32")))?;
        Ok((name, Weight { shape, data }))
    };
    kept.into_iter().map(weight).collect()
}

/// Gives the states of these names and shapes the saved numbers.
///
/// # Errors
/// Numbers of other shapes; nothing has changed then.
pub(crate) fn restore(
    session: &mut Session,
    kept: impl IntoIterator<Item = (String, Vec<usize>)>,
    saved: &Weights,
) -> Result<()> {
    let mut found = Vec::new();
    for (name, shape) in kept {
        let fits = |saved: &&Weight| saved.shape == shape && saved.data.len() == shape.iter().product::<usize>();
        let Some(own) = saved.get(&name).filter(fits) else {
            return Err(Error::user(format!(
                "the saved search has no `{name}` of shape {shape:?}; resume with the data and settings of the first command"
            )));
        };
        found.push((name, own));
    }
    for (name, own) in found {
        session.set_state(&name, &HostArray::F32(own.data.clone()))?;
    }
    Ok(())
}
