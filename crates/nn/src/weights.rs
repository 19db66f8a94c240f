//! Parameter values by name.

use std::collections::BTreeMap;

use crate::params::ParamSpec;

/// The value of a parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Weight {
    /// Shape.
    pub shape: Vec<usize>,
    /// Elements in row-major order.
    pub data: Vec<f32>,
}

/// Parameter values, ordered by name.
pub type Weights = BTreeMap<String, Weight>;

/// Returns the initial values of all these parameters; each depends on the seed and its name alone.
pub fn initialize(params: &[ParamSpec], seed: u64) -> Weights {
    let mut weights = Weights::new();
    initialize_missing(&mut weights, params, seed);
    weights
}

/// Adds initial values for the parameters that have no value; they equal the values of [`initialize`].
pub fn initialize_missing(weights: &mut Weights, params: &[ParamSpec], seed: u64) {
    for param in params {
        weights.entry(param.name.clone()).or_insert_with(|| {
            let count = param.shape.iter().product();
            Weight {
                shape: param.shape.clone(),
                data: param.init.values(seed, &param.name, count),
            }
        });
    }
}
