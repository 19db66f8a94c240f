//! The values of a session's parameters.

use super::Session;
use crate::array::as_f32;
use lessen_base::{Error, Result};
use lessen_device::{DeviceModel, Host};
use lessen_graph::{DType, bf16_bits};
use lessen_nn::{ParamSpec, Weight, Weights};

/// Gives elements of a parameter other values, rounded to the dtype in which it is held.
fn set_part(model: &DeviceModel, name: &str, first: usize, values: &[f32]) -> Result<()> {
    match model.state_type(name).map(|ty| ty.dtype) {
        Some(DType::BF16) => {
            let rounded: Vec<u16> = values.iter().map(|&value| bf16_bits(value)).collect();
            model.upload_part(name, first, Host::BF16(&rounded))
        }
        _ => model.upload_part(name, first, Host::F32(values)),
    }
}

/// Elements that are copied to the device at once.
const BLOCK: usize = 1 << 16;

impl Session {
    /// Gives parameters the initial values that they were declared with.
    ///
    /// # Errors
    /// A device that fails.
    pub fn draw(&mut self, is_drawn: impl Fn(&str) -> bool, seed: u64) -> Result<()> {
        let drawn = self.params.iter().filter(|param| is_drawn(&param.name));
        for ParamSpec { name, shape, init, .. } in drawn {
            let (mut values, count) = (init.sequence(seed, name), shape.iter().product::<usize>());
            for first in (0..count).step_by(BLOCK) {
                let part: Vec<f32> = values.by_ref().take(BLOCK.min(count - first)).collect();
                set_part(&self.model, name, first, &part)?;
            }
        }
        Ok(())
    }

    /// The parameters' values.
    ///
    /// # Errors
    /// A device that fails.
    pub fn weights(&self) -> Result<Weights> {
        let mut weights = Weights::new();
        for ParamSpec { name, shape, .. } in &self.params {
            let mut data = Vec::new();
            self.model
                .download(name, &mut |host| data = as_f32(host).into_owned())?;
            let shape = shape.clone();
            weights.insert(name.clone(), Weight { shape, data });
        }
        Ok(weights)
    }

    /// Gives parameters other values; those that `weights` lacks keep theirs. Where norms subtract no mean, parameters
    /// are recentred for it.
    ///
    /// # Errors
    /// A name that the model does not have, or a wrong shape; no parameter has changed then.
    pub fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        for (name, weight) in weights {
            let fits = |param: &ParamSpec| param.name == *name && param.shape == weight.shape;
            if !self.params.iter().any(fits) {
                return Err(Error::user(format!(
                    "the model has no parameter `{name}` of shape {:?}",
                    weight.shape
                )));
            }
        }
        let mut all = weights.iter();
        all.try_for_each(|(name, weight)| self.set_part(name, 0, &weight.data))?;
        self.recentre()
    }

    /// Gives elements of a parameter from number `first` on other values, before [`Session::convert_norms`].
    ///
    /// # Errors
    /// A parameter that the model does not have, or that ends sooner.
    pub fn set_part(&mut self, name: &str, first: usize, values: &[f32]) -> Result<()> {
        set_part(&self.model, name, first, values)
    }

    /// The name of a parameter with a value that is NaN or infinite.
    ///
    /// # Errors
    /// A device that fails.
    pub fn broken_parameter(&self) -> Result<Option<&str>> {
        for param in &self.params {
            let mut broken = false;
            self.model.download(&param.name, &mut |host| {
                broken = host.elements().any(|value| !value.is_finite());
            })?;
            if broken {
                return Ok(Some(&param.name));
            }
        }
        Ok(None)
    }
}
