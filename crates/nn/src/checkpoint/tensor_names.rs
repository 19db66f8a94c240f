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

/// The names that a parameter, or an adapter's matrix, may have in a folder of adapters: its own, that in a model
/// without a head, and `lm_head` for `embed_out` (GPT-NeoX in transformers 5).
pub(super) fn variants(param: &str) -> impl Iterator<Item = String> {
    let newer = param.strip_prefix("embed_out.").map(|rest| format!("lm_head.{rest}"));
    let plain = without_prefix(param).map(str::to_string);
    std::iter::once(param.to_string()).chain(plain).chain(newer)
}

/// Names of the matrices of an adapter of a table of embeddings, under the name of its layer.
pub(super) const EMBEDDING_MATRICES: [&str; 2] = ["lora_embedding_A", "lora_embedding_B"];

/// The table of embeddings that a tensor, by the name of its parameter, is an adapter of; none for other tensors.
pub(super) fn embedding_layer(name: &str) -> Option<&str> {
    let layer = |matrix: &&str| name.strip_suffix(*matrix)?.strip_suffix('.');
    EMBEDDING_MATRICES.iter().find_map(layer)
}

/// Whether a tensor is the weight of a layer that has an adapter beside it.
pub(super) fn is_beside_adapter(tensor: &str) -> bool {
    tensor.contains(".base_layer.")
}
