//! Checks of settings that must go together.

use crate::formats::{self, HeldOut};
use crate::models::{ModelFamily, words_of, words_where};
use crate::recipe::config::Config;
use crate::recipe::keys::{DataFormat, SEPARATOR, THRESHOLD};
use crate::recipe::optimizer;
use crate::recipe::value::Origin;
use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_data::Problem;
use lessen_nn::{AttentionConfig, FireConfig, Ngrams};

/// Checks that the settings of a training phase go together.
///
/// # Errors
/// The first key that does not go with the others.
pub(super) fn check(config: &Config) -> Result<()> {
    let origin = |name: &str| config.settings.origin(name);
    let say = |name: &str, what: String| Err(Error::user(format!("{}: {name} {what}", origin(name))));
    let (model, train) = (&config.model, &config.train);
    check_ranges(config)?;
    if !model.width.is_multiple_of(model.heads) {
        let (width, heads) = (model.width, model.heads);
        return say(
            "model.heads",
            format!("= {heads} does not divide model.width = {width}; choose a divisor"),
        );
    }
    check_attention(config)?;
    for (name, size, most) in [
        // Work is done for each of them, so larger numbers would not end in reasonable time.
        ("model.layers", model.layers, 1 << 10),
        ("model.classes", model.classes, 1 << 16),
        ("train.accumulate", train.accumulate, 1 << 16),
        ("train.ranks", train.ranks, 1 << 16),
        // Beyond this no memory holds an array.
        ("model.patch", model.patch, 1 << 14),
        ("model.width", model.width, 1 << 28),
        ("model.ffn", model.ffn, 1 << 28),
        ("model.fire_width", model.fire_width.unwrap_or(1), 1 << 16),
        (
            "model.fire_layers",
            model.fire_layers.unwrap_or(1),
            FireConfig::MOST_LAYERS,
        ),
        ("model.vocab", model.vocab, 1 << 28),
        ("data.max_length", config.data.max_length, 1 << 28),
        ("train.batch", train.batch, 1 << 28),
        ("train.tokens", train.tokens, 1 << 28),
    ] {
        if size > most {
            return say(
                name,
                format!("= {size} is more than Lessen can do; choose at most {most}"),
            );
        }
    }
    if !train.accumulate.is_multiple_of(train.ranks.max(1)) {
        return Err(Error::user(format!(
            "{} does not divide train.accumulate = {}; set train.accumulate to a multiple of it, and train.batch or \
             train.tokens to the part of a step that a batch is to be",
            config.place("train.ranks"),
            train.accumulate
        )));
    }
    check_data(config)?;
    for (name, share, what) in [
        ("model.dropout", model.dropout, "drop everything"),
        ("lora.dropout", Some(config.lora.dropout), "drop everything"),
        ("train.ema", Some(train.ema), "never move from the first average"),
        (
            "train.label_smoothing",
            Some(train.label_smoothing),
            "leave nothing of the labels",
        ),
    ] {
        if share == Some(1.0) {
            return say(name, format!("= 1 would {what}; choose a number below 1"));
        }
    }
    if train.layer_decay == 0.0 {
        let what =
            "= 0 would train the last layers only; choose a number above 0, or name what stays with train.freeze";
        return say("train.layer_decay", what.to_string());
    }
    if let Some((name, mistake)) = optimizer::mistake(&config.optimizer) {
        return Err(Error::user(format!("{} {mistake}", config.place(name))));
    }
    check_kind(config)
}

/// Checks the ranges of fields that a caller of the library may have changed. The ranges of a recipe's values are
/// checked where the values are read.
fn check_ranges(config: &Config) -> Result<()> {
    let (model, data, train) = (&config.model, &config.data, &config.train);
    let counts = [
        ("model.layers", model.layers as u64),
        ("model.width", model.width as u64),
        ("model.heads", model.heads as u64),
        ("model.ffn", model.ffn as u64),
        ("model.patch", model.patch as u64),
        ("model.vocab", model.vocab as u64),
        ("model.classes", model.classes as u64),
        ("model.kv_heads", model.kv_heads.unwrap_or(1) as u64),
        ("model.fire_width", model.fire_width.unwrap_or(1) as u64),
        ("model.fire_layers", model.fire_layers.unwrap_or(1) as u64),
        ("data.max_length", data.max_length as u64),
        ("data.min_count", data.min_count as u64),
        ("train.batch", train.batch as u64),
        ("train.accumulate", train.accumulate as u64),
        ("train.epochs", train.epochs),
        ("train.keep", train.keep as u64),
    ];
    if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
        return Err(Error::user(format!("{name} = 0 is too small; choose at least 1")));
    }
    let numbers = [
        ("model.dropout", model.dropout.unwrap_or(0.0), 1.0),
        ("lora.dropout", config.lora.dropout, 1.0),
        ("lora.alpha", config.lora.alpha, f64::MAX),
        ("data.mask", data.mask, 1.0),
        ("data.held_out", data.held_out, 1.0),
        ("data.threshold", data.threshold, 1.0),
        ("image.mixup", config.image.mixup, f64::MAX),
        ("image.cutmix", config.image.cutmix, f64::MAX),
        ("train.lr", train.lr, f64::MAX),
        ("train.layer_decay", train.layer_decay, 1.0),
        ("train.label_smoothing", train.label_smoothing, 1.0),
        ("train.weight_decay", train.weight_decay, f64::MAX),
        ("train.ema", train.ema, 1.0),
        ("train.clip_norm", train.clip_norm, f64::MAX),
        ("train.checkpoint_minutes", train.checkpoint_minutes, f64::MAX),
        ("train.allow_error", train.allow_error, f64::MAX),
    ];
    match numbers
        .into_iter()
        .find(|(_, number, most)| !(0.0..=*most).contains(number))
    {
        Some((name, number, most)) => {
            let range = if most < f64::MAX {
                format!("a number from 0 to {most}")
            } else {
                "a finite number, at least 0".to_string()
            };
            Err(Error::user(format!(
                "{name} = {number} is out of range; choose {range}"
            )))
        }
        None => Ok(()),
    }
}

/// Checks the attention of a model from scratch.
fn check_attention(config: &Config) -> Result<()> {
    let model = &config.model;
    if model.init.is_some() {
        return Ok(());
    }
    let (family, kind) = (model.kind.family(), model.kind);
    let refuse = |key: &str, mistake: String| Err(Error::user(format!("{} {mistake}", config.place(key))));
    let with = |has: fn(&dyn ModelFamily) -> bool| words_where(has).join(" or ");
    if let Some(count) = model.kv_heads {
        if !family.takes_kv_heads() {
            let others = with(|family| family.takes_kv_heads());
            let mistake = format!(
                "is not for model.kind = {kind}, whose checkpoints hold keys and values of every head; leave it out, or \
                 choose {others}"
            );
            return refuse("model.kv_heads", mistake);
        }
        if !model.heads.is_multiple_of(count) {
            let mistake = format!("does not divide model.heads = {}; choose a divisor", model.heads);
            return refuse("model.kv_heads", mistake);
        }
    }
    if model.reversible == Some(true) && !family.can_be_reversible() {
        let others = with(|family| family.can_be_reversible());
        let mistake = format!("is not for model.kind = {kind}; leave it out, or choose {others}");
        return refuse("model.reversible", mistake);
    }
    check_pairs(config)?;
    let head_width = model.width / model.heads;
    let own = family.attention(head_width);
    let attention = AttentionConfig {
        position: model.position.unwrap_or(own.position),
        ..own
    };
    let checked = attention.check(head_width);
    checked.map_err(|error| Error::user(format!("{}: {error}", config.place("model.position"))))
}

/// Checks the tables of pairs of tokens of a model from scratch.
fn check_pairs(config: &Config) -> Result<()> {
    let (model, family) = (&config.model, config.model.kind.family());
    let takes: [fn(&dyn ModelFamily) -> bool; 2] = [|family| family.takes_buckets(), |family| family.takes_ngrams()];
    let keys = [("model.buckets", model.buckets), ("model.ngrams", model.ngrams)];
    for ((key, rows), takes) in keys.into_iter().zip(takes) {
        let Some(rows) = rows else { continue };
        let mistake = if !takes(family.as_ref()) {
            let (kind, others) = (model.kind, words_where(takes).join(" or "));
            format!("is not for model.kind = {kind}; leave it out, or choose {others}")
        } else if !Ngrams::takes_buckets(rows) {
            format!(
                "is no power of two up to {}; choose one, such as 65536, or 0",
                Ngrams::MOST_BUCKETS
            )
        } else {
            continue;
        };
        return Err(Error::user(format!("{} {mistake}", config.place(key))));
    }
    let has_table = family.takes_buckets() || (family.takes_ngrams() && model.ngrams.is_some());
    if model.shared == Some(true) && !has_table {
        return Err(Error::user(format!(
            "{} is for tables of tokens, which the model has not; leave it out, or choose model.kind = linear, or encoder \
             with model.ngrams",
            config.place("model.shared")
        )));
    }
    Ok(())
}

/// Checks that the keys of data suit the format.
fn check_data(config: &Config) -> Result<()> {
    let (data, format) = (&config.data, config.data.format.format());
    check_batching(config, format.has_lengths(data))?;
    check_own_keys(config)?;
    check_labels(config)?;
    format.check(config)?;
    let leaves = match (format.held_out(), data.held_out) {
        (HeldOut::Nothing, _) => None,
        (_, 1.0) => Some("learn from"),
        (HeldOut::Share, 0.0) => Some("validate with"),
        _ => None,
    };
    match leaves {
        Some(purpose) => Err(Error::user(format!(
            "{}: data.held_out = {} leaves nothing to {purpose}; choose a number between 0 and 1, such as 0.1",
            config.settings.origin("data.held_out"),
            data.held_out
        ))),
        None => Ok(()),
    }
}

/// Refuses keys that are for other formats alone.
fn check_own_keys(config: &Config) -> Result<()> {
    let format = config.data.format;
    let own = format.format().own_keys();
    for other in formats::ALL {
        let foreign = other.format().own_keys().iter().filter(|key| !own.contains(key));
        if let Some(key) = foreign.into_iter().find(|key| config.is_given(key)) {
            return Err(Error::user(format!(
                "{} is for data.format = {other}, and this is {format}; leave it out",
                config.place(key)
            )));
        }
    }
    Ok(())
}

/// Checks that the keys about labels suit the problem.
fn check_labels(config: &Config) -> Result<()> {
    let data = &config.data;
    if data.separator.is_empty() {
        return Err(Error::user(format!(
            "{} separates nothing; name what stands between labels, such as \",\"",
            config.place("data.separator")
        )));
    }
    let changed = if data.separator != SEPARATOR {
        Some("data.separator")
    } else if data.threshold != THRESHOLD {
        Some("data.threshold")
    } else {
        None
    };
    match changed {
        Some(key) if config.problem() != Problem::MultiLabel => Err(Error::user(format!(
            "{} is for texts with several labels, data.problem = \"multi_label_classification\"; leave it out",
            config.place(key)
        ))),
        _ => Ok(()),
    }
}

/// Checks the keys about batches, for examples of different lengths or of a single one.
fn check_batching(config: &Config, has_lengths: bool) -> Result<()> {
    let (train, length) = (&config.train, config.data.max_length);
    if config.data.group && (train.tokens > 0 || !has_lengths) {
        let reason = if has_lengths {
            "is so with train.tokens anyway"
        } else {
            "is for texts of different lengths, and all examples of this data have the same one"
        };
        return Err(Error::user(format!(
            "{} {reason}; leave it out",
            config.place("data.group")
        )));
    }
    if train.tokens == 0 {
        return Ok(());
    }
    if train.tokens < length {
        return Err(Error::user(format!(
            "{} is less than the {length} tokens of data.max_length, so that an example may not fit; choose at least that",
            config.place("train.tokens")
        )));
    }
    match [
        config.settings.origin("train.tokens"),
        config.settings.origin("train.batch"),
    ] {
        [Origin::Flag(tokens), Origin::Flag(batch)] => Err(Error::user(format!(
            "{tokens} and {batch} both say what a batch is; leave out one of the two"
        ))),
        _ => Ok(()),
    }
}

/// Checks that the model can learn the data.
fn check_kind(config: &Config) -> Result<()> {
    let fitting = words_of(config.data.format.format().learned_by());
    let (kind, format) = (config.model.kind, config.data.format);
    if fitting.contains(&kind.word()) {
        return Ok(());
    }
    for (name, what, words) in [
        ("data.format", "what the data is", DataFormat::WORDS.join(", ")),
        ("model.kind", "what learns it", fitting.join(", ")),
    ] {
        if config.settings.origin(name) == Origin::Default {
            return Err(Error::user(format!(
                "the recipe {} has no {name}; say {what} with {name}, one of {words}",
                config.recipe()
            )));
        }
    }
    Err(Error::user(format!(
        "{}: model.kind = {kind} cannot learn data.format = {format}; choose {}",
        config.settings.origin("model.kind"),
        fitting.join(" or ")
    )))
}
