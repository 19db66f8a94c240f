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
            .filter(|(_, source)| *source == name)
            .map(|(copy, _)| copy.to_string()),
    );
    names
}

/// Tensors that are the same as another one of the model.
const TIED: [(&str, &str); 3] = [
    ("lm_head.weight", "transformer.wte.weight"),
    (
        "cls.predictions.decoder.weight",
        "bert.embeddings.word_embeddings.weight",
    ),
    ("cls.predictions.decoder.bias", "cls.predictions.bias"),
];

/// Whether a tensor of a file says nothing: a constant that old versions of transformers saved, or a tied
/// copy.
pub(super) fn is_redundant(name: &str) -> bool {
    name.ends_with("position_ids")
        || name.ends_with(".attn.bias")
        || name.ends_with(".attn.masked_bias")
        || TIED.iter().any(|(copy, _)| *copy == name)
}
