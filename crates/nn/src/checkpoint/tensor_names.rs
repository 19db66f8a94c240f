//! Names of the tensors in a folder of adapters.

use super::names::without_prefix;

/// Prefix of the names of tensors.
const PREFIX: &str = "base_model.model.";

/// The name of the tensor of a parameter.
pub(super) fn tensor_of(param: &str) -> String {
    format!("{PREFIX}{param}")
}

/// The parameter that a tensor is of, by its name; none for other tensors. What `peft` puts between a layer and its
/// parameters is left out.
pub(super) fn parameter_of(tensor: &str) -> Option<String> {
    let name = tensor.strip_prefix(PREFIX)?;
    Some(name.replace(".base_layer.", ".").replace(".modules_to_save.", "."))
}

/// Whether a tensor is the copy of a layer from before training, which `peft` saves beside biases.
pub(super) fn is_left_over(tensor: &str) -> bool {
    tensor.contains(".original_module.")
}

/// The names that a parameter may have in a folder of adapters: its own, and that in a model without a head.
pub(super) fn variants(param: &str) -> impl Iterator<Item = &str> {
    std::iter::once(param).chain(without_prefix(param))
}
