//! Alternative names of parameters in checkpoints.

use crate::architecture::Architecture;
use crate::config::Fields;
use crate::models::bert::{Family, Head};
use crate::models::vit::VitFamily;
use serde_json::Value;

/// Returns the names that a parameter may have, in order of precedence: its own name, the name without `bert.`, `vit.`,
/// `transformer.`, `gpt_neox.` or `model.` (checkpoints of models without a head), the name with `gamma` or `beta`
/// (BERT converted from TensorFlow), `lm_head` for `embed_out` (GPT-NeoX in the memory of transformers 5), and the name
/// of a tied copy.
pub(super) fn candidates(name: &str) -> Vec<String> {
    let mut names = vec![name.to_string()];
    names.extend(without_prefix(name).map(str::to_string));
    for (new, old) in [
        (".LayerNorm.weight", ".LayerNorm.gamma"),
        (".LayerNorm.bias", ".LayerNorm.beta"),
    ] {
        let older: Vec<String> = names
            .iter()
            .filter_map(|n| Some(n.strip_suffix(new)?.to_string() + old))
            .collect();
        names.extend(older);
    }
    names.extend((name == "embed_out.weight").then(|| "lm_head.weight".to_string()));
    let copies = tied().into_iter().filter(|tied| tied.source == name);
    names.extend(copies.map(|tied| tied.copy.to_string()));
    names
}

/// The name of a parameter in a model without a head.
pub(super) fn without_prefix(name: &str) -> Option<&str> {
    let mut prefixes = Family::ALL
        .into_iter()
        .map(|family| family.description().prefix)
        .chain(VitFamily::ALL.map(VitFamily::model_type))
        .chain(["transformer", "gpt_neox", "model"]);
    prefixes.find_map(|prefix| name.strip_prefix(prefix)?.strip_prefix('.'))
}

/// A tensor that the model ties to another.
#[derive(Clone)]
pub(super) struct Tied {
    /// Name of the copy.
    pub(super) copy: &'static str,
    /// The parameter that it equals.
    pub(super) source: String,
    /// A parameter that a model has only if it uses the copy.
    pub(super) user: &'static str,
}

/// The head that a model with this `config.json` ties to its token embeddings, if it does.
pub(super) fn tied_head(config: &Fields) -> Option<Tied> {
    let (source, default) = match Architecture::of(config).ok()? {
        Architecture::GPT2LMHeadModel => ("transformer.wte.weight".to_string(), true),
        Architecture::GPTJForCausalLM => ("transformer.wte.weight".to_string(), false),
        Architecture::GPTNeoXForCausalLM => ("gpt_neox.embed_in.weight".to_string(), false),
        Architecture::Llama(_) => ("model.embed_tokens.weight".to_string(), false),
        Architecture::Bert(family, Head::MaskedLM) => (family.description().words(), true),
        _ => return None,
    };
    let is_tied = config.get("tie_word_embeddings").and_then(Value::as_bool);
    let mut all = tied().into_iter();
    all.find(|tied| tied.source == source && is_tied.unwrap_or(default))
}

/// All tensors that models tie to others.
pub(super) fn tied() -> Vec<Tied> {
    let decoders = [
        ("lm_head.weight", "transformer.wte.weight"),
        ("lm_head.weight", "model.embed_tokens.weight"),
        ("embed_out.weight", "gpt_neox.embed_in.weight"),
    ];
    let tied = |(copy, words): (_, &'static str)| Tied {
        copy,
        source: words.to_string(),
        user: words,
    };
    let mut all: Vec<Tied> = decoders.map(tied).into();
    for description in Family::ALL.map(Family::description) {
        let names = &description.masked;
        all.push(Tied {
            copy: names.decoder,
            source: description.words(),
            user: names.bias,
        });
        all.extend(names.decoder_bias.map(|copy| Tied {
            copy,
            source: names.bias.to_string(),
            user: names.bias,
        }));
    }
    all
}

/// Endings of names of constants and of counts.
const CONSTANTS: [&str; 7] = [
    "position_ids",
    "token_type_ids",
    "attn.masked_bias",
    "attention.masked_bias",
    "rotary_emb.inv_freq",
    "rotary_emb.original_inv_freq",
    "num_batches_tracked",
];

/// Whether a tensor of a checkpoint carries no information: a constant that old versions of transformers save, a count
/// of batches, which PyTorch reads where statistics have no momentum, or a tied copy.
pub(super) fn is_redundant(name: &str, shape: &[usize]) -> bool {
    let is = |ending: &str| {
        let start = name.strip_suffix(ending);
        start.is_some_and(|start| start.is_empty() || start.ends_with('.'))
    };
    // A bias has one axis, the mask of later tokens has four.
    let is_mask = shape.len() != 1 && (is("attn.bias") || is("attention.bias"));
    is_mask || CONSTANTS.into_iter().any(is) || tied().iter().any(|tied| tied.copy == name)
}

/// Parts of names of tensors that belong to adapters, beside those that begin with `lora_`.
const OF_ADAPTERS: [&str; 4] = ["base_layer", "ia3_l", "modules_to_save", "original_module"];

/// Remedy for adapters that stand in the file of the weights.
pub(super) const MERGE: &str = "merge them with peft: `model.merge_and_unload().save_pretrained(DIR)`";

/// Whether a tensor belongs to an adapter, or to a layer that has one.
pub(super) fn is_of_adapter(name: &str) -> bool {
    name.split('.').any(|part| part.starts_with("lora_")) || has_part(name, &OF_ADAPTERS)
}

/// Whether one of these is a part of a name.
pub(super) fn has_part(name: &str, these: &[&str]) -> bool {
    name.split('.').any(|part| these.contains(&part))
}

/// The ending of names of codes of 4 bits.
const PACKED: &str = "_packed";

/// The name of a tensor's codes of 4 bits.
pub(super) fn packed(name: &str) -> String {
    format!("{name}{PACKED}")
}

/// The name of the tensor whose codes these are.
pub(super) fn unpacked(name: &str) -> Option<&str> {
    name.strip_suffix(PACKED)
}

/// The names of what lies beside a tensor's codes: scales and extents.
pub(super) fn beside_packed(name: &str) -> [String; 2] {
    [format!("{name}_scale"), format!("{name}_shape")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_known_by_parts_of_names() {
        for name in [
            "h.0.c_attn.lora_A.weight",
            "q.lora_B.default.weight",
            "q.base_layer.weight",
            "q.lora_magnitude_vector",
        ] {
            assert!(is_of_adapter(name), "{name}");
        }
        assert!(!is_of_adapter("explora_A.weight") && !is_of_adapter("h.0.attn.c_attn.weight"));
    }

    #[test]
    fn a_bias_is_no_mask() {
        assert!(is_redundant("h.0.attn.bias", &[1, 1, 8, 8]) && is_redundant("h.0.attn.masked_bias", &[]));
        assert!(!is_redundant("h.0.attn.bias", &[8]) && !is_redundant("h.0.attn.c_attn.bias", &[8]));
        assert!(is_redundant("rotary_emb.inv_freq", &[4]) && is_redundant("embeddings.position_ids", &[1, 8]));
    }
}
