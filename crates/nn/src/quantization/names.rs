//! Names of the states that quantized layers have.

use lessen_base::{Error, Result};

/// The field of `config.json` for how a model is trained to be quantized.
pub(crate) const OWN: &str = "lessen_quantize";

/// The name of the buffer with the fixed scale of a layer's inputs, below the name of the layer.
pub const INPUT_SCALE: &str = "input_scale";

/// The name of the buffer with the range of a layer's inputs.
pub const INPUT_RANGE: &str = "input_range";

/// The name of the parameter that this range is multiplied by.
pub const INPUT_FACTOR: &str = "input_factor";

/// The name of the buffer with the number of batches that were counted.
pub(crate) const BATCHES: &str = "quantization.batches";

/// Whether a parameter or buffer of this name is read only while a model is trained for integers, or evaluated as it
/// was trained.
pub(crate) fn is_of_training(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    name == BATCHES || [INPUT_RANGE, INPUT_FACTOR].contains(&last)
}

/// Checks the fixed scale of a layer's inputs; other parameters pass.
///
/// # Errors
/// A scale that is not positive, or whose products with integers of 8 bits are not finite.
pub fn check_scale(name: &str, values: &[f32]) -> Result<()> {
    let is_scale = |scale: &f32| *scale > 0.0 && (128.0 * scale).is_finite();
    let is_of_input = name.rsplit('.').next() == Some(INPUT_SCALE);
    match values.iter().find(|scale| is_of_input && !is_scale(scale)) {
        Some(scale) => Err(Error::user(format!(
            "the tensor `{name}` is {scale}, and scales are positive numbers whose products with integers are finite; quantize \
             the model again"
        ))),
        None => Ok(()),
    }
}
