//! The names that a tensor has had in checkpoints over the years.

/// Names under which a parameter may be found, the first that is there counting: its own, that of a
/// checkpoint of the headless model (without `bert.` or `transformer.`), that of BERTs converted from
/// TensorFlow (`gamma`, `beta`), and that of a tied layer.
pub(super) fn candidates(name: &str) -> Vec<String> {
    let mut names = vec![name.to_string()];
    if let Some(short) = name
        .strip_prefix("bert.")
        .or_else(|| name.strip_prefix("transformer."))
    {
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

/// A tensor that is the same as another one of the model.
pub(super) struct Tied {
    /// Its name.
    pub(super) copy: &'static str,
    /// The parameter that it is the same as.
    pub(super) source: &'static str,
    /// A parameter that only models have which compute with the copy.
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

/// Whether a tensor of a file says nothing: a constant that old versions of transformers saved, or a tied
/// copy.
pub(super) fn is_redundant(name: &str) -> bool {
    name.ends_with("position_ids")
        || name.ends_with(".attn.bias")
        || name.ends_with(".attn.masked_bias")
        || TIED.iter().any(|tied| tied.copy == name)
}
