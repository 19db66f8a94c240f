//! The key that a wrong name means: misspelt names, and names in other programs.

/// Names of keys in other programs.
pub(crate) const OTHER_NAMES: &[(&str, &[&str])] = &[
    (
        "model.layers",
        &["n_layers", "num_layers", "n_layer", "num_hidden_layers", "blocks"],
    ),
    (
        "model.width",
        &["hidden", "hidden_size", "d_model", "n_embd", "dim", "embed_dim"],
    ),
    (
        "model.heads",
        &["n_heads", "num_heads", "n_head", "num_attention_heads"],
    ),
    ("model.ffn", &["intermediate_size", "d_ff", "n_inner", "mlp"]),
    (
        "model.kv_heads",
        &["num_key_value_heads", "n_kv_heads", "num_kv_heads", "n_head_kv"],
    ),
    ("model.attention", &["attention_type", "attn", "softmax_variant"]),
    (
        "model.position",
        &[
            "position_embedding",
            "position_embedding_type",
            "pos_emb",
            "positional_encoding",
        ],
    ),
    ("model.norm", &["norm_type", "normalization", "layer_norm"]),
    (
        "model.activation",
        &["hidden_act", "activation_function", "act_fn", "nonlinearity"],
    ),
    (
        "model.dropout",
        &["dropout_rate", "dropout_prob", "hidden_dropout_prob"],
    ),
    ("model.vocab", &["vocab_size", "vocabulary"]),
    ("model.classes", &["num_labels", "num_classes"]),
    (
        "data.max_length",
        &["seq_len", "max_len", "sequence_length", "block_size", "context_length"],
    ),
    (
        "image.size",
        &["image_size", "img_size", "input_size", "resolution", "crop_size"],
    ),
    ("image.augment", &["augmentation", "augmentations", "transforms"]),
    ("data.text", &["text_column", "text_column_name", "text_field"]),
    (
        "data.label",
        &[
            "label_column",
            "label_column_name",
            "label_field",
            "target",
            "label_columns",
        ],
    ),
    ("data.problem", &["problem_type"]),
    (
        "data.dev",
        &["validation_file", "dev_file", "valid_file", "validation_data"],
    ),
    ("data.test", &["test_file", "test_data"]),
    (
        "data.held_out",
        &[
            "dev_share",
            "dev_split",
            "validation_split",
            "validation_share",
            "val_split",
        ],
    ),
    ("data.group", &["group_by_length"]),
    ("data.group_by", &["group_column", "groups", "group_split"]),
    ("data.time_by", &["time_column", "time_split", "date_column"]),
    ("data.stride", &["doc_stride", "overlap"]),
    ("data.answer_length", &["max_answer_length"]),
    ("data.null_threshold", &["null_score_diff_threshold"]),
    ("train.tokens", &["max_tokens", "tokens_per_batch", "batch_tokens"]),
    ("train.batch", &["batch_size", "per_device_train_batch_size"]),
    (
        "train.accumulate",
        &["gradient_accumulation_steps", "accumulation_steps"],
    ),
    ("train.steps", &["max_steps", "num_steps"]),
    ("train.epochs", &["num_epochs", "num_train_epochs"]),
    ("train.lr", &["learning_rate"]),
    ("train.loss", &["criterion", "loss_function", "loss_fn"]),
    ("train.schedule", &["scheduler", "lr_scheduler_type"]),
    ("train.warmup", &["warmup_steps", "warmup_ratio"]),
    ("train.freeze", &["frozen", "freeze_layers", "frozen_parameters"]),
    (
        "train.layer_decay",
        &["layerwise_lr_decay", "llrd", "layer_wise_lr_decay"],
    ),
    ("train.label_smoothing", &["label_smoothing_factor", "smoothing"]),
    ("train.class_weights", &["class_weight", "loss_weights"]),
    ("train.ema", &["ema_decay", "moving_average"]),
    ("lora.rank_stabilized", &["use_rslora", "rslora"]),
    ("train.patience", &["early_stopping_patience", "early_stopping"]),
    ("train.best", &["metric_for_best_model", "best_metric"]),
    ("train.keep", &["save_total_limit", "keep_checkpoints"]),
    ("lora.rank", &["lora_r", "lora_rank"]),
    ("lora.targets", &["target_modules", "lora_target_modules"]),
    ("lora.alpha", &["lora_alpha"]),
    ("lora.whole", &["modules_to_save"]),
    ("train.clip_norm", &["max_grad_norm", "grad_clip", "gradient_clipping"]),
    ("train.eval_every", &["eval_steps", "eval_interval"]),
    ("train.checkpoint_every", &["save_steps", "save_every"]),
    ("optimizer.kind", &["optimizer", "optim"]),
    ("optimizer.epsilon", &["eps", "adam_epsilon"]),
    ("optimizer.initial_accumulator", &["initial_accumulator_value"]),
    ("optimizer.beta2_decay", &["decay_rate"]),
];

/// Similarity of a name to that of a key, at most 1.
fn likeness(name: &str, key: &str) -> f64 {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_string();
    let whole = strsim::normalized_damerau_levenshtein(name, key);
    // A key without or in the wrong section means the same key elsewhere.
    whole.max(0.9 * strsim::normalized_damerau_levenshtein(&last(name), &last(key)))
}

/// The key that a wrong name most likely means: the most similar one, by its own name or by its names in other
/// programs.
pub fn nearest(name: &str, keys: impl Iterator<Item = &'static str>) -> &'static str {
    let own = keys.map(|key| (key, likeness(name, key)));
    let others = OTHER_NAMES.iter().flat_map(|(key, others)| {
        let section = key.split('.').next().unwrap_or_default();
        let score = move |other| likeness(name, &format!("{section}.{other}"));
        others.iter().map(move |other| (*key, score(other)))
    });
    let (mut nearest, mut most) = ("", -1.0);
    for (key, score) in own.chain(others) {
        if score > most {
            (nearest, most) = (key, score);
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use crate::recipe::keys::CORE;

    #[test]
    fn the_nearest_key_is_found() {
        for (wrong, right) in [
            ("train.stps", "train.steps"),
            ("lr", "train.lr"),
            ("training.batch", "train.batch"),
            ("model.drop_out", "model.dropout"),
            ("batch", "train.batch"),
            ("optimizer.kid", "optimizer.kind"),
            ("data.maxlength", "data.max_length"),
            ("data.seed", "train.seed"),
            ("train.learning_rate", "train.lr"),
            ("learning_rate", "train.lr"),
            ("lerning_rate", "train.lr"),
            ("learningrate", "train.lr"),
            ("hidden", "model.width"),
            ("model.hidden_size", "model.width"),
            ("d_model", "model.width"),
            ("batch_size", "train.batch"),
            ("data.batch_size", "train.batch"),
            ("n_layers", "model.layers"),
            ("model.num_layers", "model.layers"),
            ("model.n_heads", "model.heads"),
            ("seq_len", "data.max_length"),
            ("max_len", "data.max_length"),
            ("dropout_rate", "model.dropout"),
            ("weight_decy", "train.weight_decay"),
            ("grad_clip", "train.clip_norm"),
            ("warmup_steps", "train.warmup"),
            ("optimizer", "optimizer.kind"),
        ] {
            assert_eq!(CORE.find(wrong).unwrap_err(), right, "{wrong}");
        }
        assert_eq!(CORE.find("train.lr").unwrap().name, "train.lr");
    }
}
