//! The keys of a recipe: name, kind, default and meaning, in one table.

/// What values a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Switch,
    /// A whole number, at least this.
    Count(u64),
    /// A number between these two, both included.
    Number(f64, f64),
    /// Any text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl Kind {
    /// What to write, for messages: `a whole number, at least 1`.
    pub fn expected(self) -> String {
        match self {
            Kind::Switch => "true or false".to_string(),
            Kind::Count(0) => "a whole number".to_string(),
            Kind::Count(least) => format!("a whole number, at least {least}"),
            Kind::Number(low, high) if high < f64::MAX => format!("a number from {low} to {high}"),
            Kind::Number(low, _) => format!("a number, at least {low}"),
            Kind::Text => "a text".to_string(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
        }
    }
}

/// A key that recipes and `--set` may give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Section and name, such as `train.lr`.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// The value where nobody gives one, as TOML; none where the key may stay open.
    pub default: Option<&'static str>,
    /// What it means.
    pub meaning: &'static str,
}

const fn key(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
    Key {
        name,
        kind,
        default: Some(default),
        meaning,
    }
}

const fn open(name: &'static str, kind: Kind, meaning: &'static str) -> Key {
    Key {
        name,
        kind,
        default: None,
        meaning,
    }
}

const SHARE: Kind = Kind::Number(0.0, 1.0);
const NOT_NEGATIVE: Kind = Kind::Number(0.0, f64::MAX);

/// All keys, section by section.
pub const KEYS: &[Key] = &[
    open(
        "model.init",
        Kind::Text,
        "Hugging Face folder to start from (--init); its sizes replace those below",
    ),
    key(
        "model.kind",
        Kind::Choice(&["gpt2", "bert", "encoder"]),
        "\"gpt2\"",
        "language model or classifier",
    ),
    key("model.layers", Kind::Count(1), "2", "Transformer blocks"),
    key("model.width", Kind::Count(1), "128", "size of the hidden states"),
    key(
        "model.heads",
        Kind::Count(1),
        "4",
        "attention heads; they share the width",
    ),
    key(
        "model.ffn",
        Kind::Count(1),
        "512",
        "inner size of the feed-forward layers",
    ),
    open(
        "model.dropout",
        SHARE,
        "share of dropped values, also of a checkpoint's model (default: the checkpoint's, else 0.1)",
    ),
    key(
        "model.vocab",
        Kind::Count(1),
        "4096",
        "tokens that `plan` assumes when it is given no data",
    ),
    key(
        "model.classes",
        Kind::Count(2),
        "2",
        "classes that `plan` assumes when it is given no data",
    ),
    open("data.path", Kind::Text, "file or folder of the data (--data)"),
    key(
        "data.format",
        Kind::Choice(&["adder", "labelled", "glue", "text"]),
        "\"labelled\"",
        "what the data is",
    ),
    open(
        "data.task",
        Kind::Text,
        "task of GLUE, such as CoLA (default: the name of the data's folder)",
    ),
    open(
        "data.tokenizer",
        Kind::Text,
        "folder of a tokenizer, or `characters` (default: the checkpoint's, else `characters`)",
    ),
    key(
        "data.min_count",
        Kind::Count(1),
        "1",
        "a character that occurs more seldom counts as unknown",
    ),
    key(
        "data.max_length",
        Kind::Count(1),
        "128",
        "tokens of an example; longer ones are cut",
    ),
    key(
        "data.held_out",
        SHARE,
        "0.1",
        "share of a single text file that is kept for validation",
    ),
    key(
        "data.shuffle",
        Kind::Switch,
        "true",
        "another order of the examples in every epoch",
    ),
    key("train.batch", Kind::Count(1), "32", "examples in a batch"),
    key(
        "train.accumulate",
        Kind::Count(1),
        "1",
        "batches whose gradients make one step",
    ),
    key(
        "train.steps",
        Kind::Count(0),
        "0",
        "steps to train (--steps); 0 means as many as the epochs take",
    ),
    key(
        "train.epochs",
        Kind::Count(1),
        "1",
        "times to see all the data, when no steps are given",
    ),
    key("train.lr", NOT_NEGATIVE, "0.001", "learning rate, at its highest"),
    key(
        "train.schedule",
        Kind::Choice(&["constant", "linear", "cosine", "one-cycle"]),
        "\"constant\"",
        "course of the learning rate after the warm-up",
    ),
    key(
        "train.warmup",
        Kind::Count(0),
        "0",
        "steps in which the learning rate rises: from 0, with one-cycle from a 25th of its highest",
    ),
    key(
        "train.weight_decay",
        NOT_NEGATIVE,
        "0.0",
        "decay of matrices; biases, norms and other vectors have none",
    ),
    key(
        "train.clip_norm",
        NOT_NEGATIVE,
        "0.0",
        "longest gradient over all parameters; 0 is no limit",
    ),
    key(
        "train.seed",
        Kind::Count(0),
        "1",
        "decides initial parameters, order of the data and dropout",
    ),
    key(
        "train.eval_every",
        Kind::Count(0),
        "500",
        "steps between evaluations; 0 is at the end only",
    ),
    key(
        "train.checkpoint_every",
        Kind::Count(0),
        "500",
        "steps between checkpoints; 0 is at the end only",
    ),
    key(
        "optimizer.kind",
        Kind::Choice(&["adamw", "sgd"]),
        "\"adamw\"",
        "AdamW, or SGD with momentum",
    ),
    key(
        "optimizer.placement",
        Kind::Choice(&["separate", "backward-fused"]),
        "\"backward-fused\"",
        "update after backward, or each parameter as soon as its gradient is there; the results are the same",
    ),
    key(
        "optimizer.beta1",
        SHARE,
        "0.9",
        "AdamW: decay of the mean gradient",
    ),
    key(
        "optimizer.beta2",
        SHARE,
        "0.999",
        "AdamW: decay of the mean squared gradient",
    ),
    key(
        "optimizer.epsilon",
        NOT_NEGATIVE,
        "1e-8",
        "AdamW: added to the root of the mean squared gradient",
    ),
    key(
        "optimizer.momentum",
        SHARE,
        "0.9",
        "SGD: share of the last step that is kept",
    ),
];

/// What other programs call a key, so that whoever comes from them is sent to the right one.
const OTHER_NAMES: &[(&str, &[&str])] = &[
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
        "model.dropout",
        &["dropout_rate", "dropout_prob", "hidden_dropout_prob"],
    ),
    ("model.vocab", &["vocab_size", "vocabulary"]),
    ("model.classes", &["num_labels", "num_classes"]),
    (
        "data.max_length",
        &[
            "seq_len",
            "max_len",
            "sequence_length",
            "block_size",
            "context_length",
        ],
    ),
    ("train.batch", &["batch_size", "per_device_train_batch_size"]),
    (
        "train.accumulate",
        &["gradient_accumulation_steps", "accumulation_steps"],
    ),
    ("train.steps", &["max_steps", "num_steps"]),
    ("train.epochs", &["num_epochs", "num_train_epochs"]),
    ("train.lr", &["learning_rate"]),
    ("train.schedule", &["scheduler", "lr_scheduler_type"]),
    ("train.warmup", &["warmup_steps"]),
    (
        "train.clip_norm",
        &["max_grad_norm", "grad_clip", "gradient_clipping"],
    ),
    ("train.eval_every", &["eval_steps", "eval_interval"]),
    ("train.checkpoint_every", &["save_steps", "save_every"]),
    ("optimizer.kind", &["optimizer", "optim"]),
    ("optimizer.epsilon", &["eps", "adam_epsilon"]),
];

/// How much a name looks like that of a key, at most 1.
fn likeness(name: &str, key: &str) -> f64 {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_string();
    let whole = strsim::normalized_damerau_levenshtein(name, key);
    // A key without or in the wrong section means the same key elsewhere.
    whole.max(0.9 * strsim::normalized_damerau_levenshtein(&last(name), &last(key)))
}

/// The key of this name.
///
/// # Errors
/// The name of the key that looks most like it, by its own name or by what other programs call it.
pub fn find(name: &str) -> Result<&'static Key, &'static str> {
    let exact = KEYS.iter().find(|key| key.name == name);
    exact.ok_or_else(|| {
        let own = KEYS.iter().map(|key| (key.name, likeness(name, key.name)));
        let others = OTHER_NAMES.iter().flat_map(|(key, others)| {
            let section = key.split('.').next().unwrap_or_default();
            let score = move |other| likeness(name, &format!("{section}.{other}"));
            others.iter().map(move |other| (*key, score(other)))
        });
        let (mut nearest, mut most) = (KEYS[0].name, -1.0);
        for (key, score) in own.chain(others) {
            if score > most {
                (nearest, most) = (key, score);
            }
        }
        nearest
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(find(wrong).unwrap_err(), right, "{wrong}");
        }
        assert_eq!(find("train.lr").unwrap().name, "train.lr");
    }

    #[test]
    fn names_are_unique() {
        for (index, key) in KEYS.iter().enumerate() {
            assert!(
                KEYS[..index].iter().all(|other| other.name != key.name),
                "{}",
                key.name
            );
        }
        for (key, others) in OTHER_NAMES {
            assert!(find(key).is_ok(), "{key}");
            assert!(others.iter().all(|other| find(other) == Err(*key)), "{others:?}");
        }
    }
}
