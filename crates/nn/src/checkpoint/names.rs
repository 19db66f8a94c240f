//! Alternative names of parameters in checkpoints.

/// Returns the names that a parameter may have, in order of precedence: its own, the one without `bert.` or
/// `transformer.` (checkpoints of models without a head), the one with `gamma` or `beta` (BERT converted from
/// TensorFlow), and that of a tied copy.
pub(super) fn candidates(name: &str) -> Vec<String> {
    let mut names = vec![name.to_string()];
    if let Some(short) = name.strip_prefix("bert.").or_else(|| name.strip_prefix("transformer.")) {
        names.push(short.to_string());
    }
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
    names.extend(
        TIED.iter()
            .filter(|tied| tied.source == name)
            .map(|tied| tied.copy.to_string()),
    );
    names
}

/// A tensor that the model ties to another.
pub(super) struct Tied {
    /// Name of the copy.
    pub(super) copy: &'static str,
    /// The parameter that it equals.
    pub(super) source: &'static str,
    /// A parameter that a model has only if it uses the copy.
    pub(super) user: &'static str,
}

pub(super) const TIED: [Tied; 3] = [
    Tied {
        copy: "lm_head.weight",
        source: "transformer.wte.weight",
        user: "transformer.wte.weight",
    },
    Tied {
        copy: "cls.predictions.decoder.weight",
        source: "bert.embeddings.word_embeddings.weight",
        user: "cls.predictions.bias",
    },
    Tied {
        copy: "cls.predictions.decoder.bias",
        source: "cls.predictions.bias",
        user: "cls.predictions.bias",
    },
];

/// Whether a tensor of a checkpoint carries no information: a constant that old versions of transformers save, or a
/// tied copy.
pub(super) fn is_redundant(name: &str) -> bool {
    name.ends_with("position_ids")
        || name.ends_with(".attn.bias")
        || name.ends_with(".attn.masked_bias")
        || TIED.iter().any(|tied| tied.copy == name)
}
