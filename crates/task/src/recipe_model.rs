//! The model of a recipe.

use crate::goal::{Goal, OutputLayer};
use crate::models::{self, Sizes, attention_over};
use crate::recipe::config::Config;
use crate::recipe::value::Origin;
use lessen_base::{Error, Result};
use lessen_nn::checkpoint::ModelFolder;
use lessen_nn::models::bert::Head;
use lessen_nn::models::vision::MixedArchitecture;
use lessen_nn::{Architecture, AttentionConfig, Bits, Model, Quantization, Ranges};
use std::fs;
use std::path::Path;

/// Settings that a checkpoint decides, so that no flag may change them.
pub(crate) const FIXED: [&str; 10] = [
    "model.layers",
    "model.width",
    "model.heads",
    "model.kv_heads",
    "model.reversible",
    "model.buckets",
    "model.ngrams",
    "model.shared",
    "model.ffn",
    "model.patch",
];

/// The model of a recipe: in the dimensions of the checkpoint to start from, else in the dimensions of the recipe.
///
/// # Errors
/// A checkpoint that cannot be read or does not go with data and settings.
pub fn build(config: &Config, goal: &dyn Goal, sizes: Sizes) -> Result<Model> {
    let mut model = match config.init() {
        Some(folder) => from_checkpoint(config, folder, goal)?,
        None => {
            let classes = goal.class_names().len().max(1);
            models::from_scratch(config, Sizes { classes, ..sizes }, head_of(goal))
        }
    };
    set_architecture(config, &mut model)?;
    if let Some(dropout) = config.model.dropout {
        model.set_dropout(dropout);
    }
    goal.set_classes(&mut model);
    model.set_loss(config.train.loss);
    if config.model.init.is_some() && model.image().is_some() {
        model.fit(sizes.image)?;
    }
    if let Some(norm) = config.model.norm {
        model.set_norm(norm);
    }
    set_layers(config, &mut model)?;
    Ok(model)
}

/// Sets how batch normalization measures spreads, and how layers are quantized, as the recipe says.
///
/// # Errors
/// Keys that do not go together or with the model.
pub(crate) fn set_layers(config: &Config, model: &mut Model) -> Result<()> {
    if let Some(spread) = config.model.batch_norm {
        let in_key = |error: Error| Error::user(format!("{}: {error}", config.place("model.batch_norm")));
        model.set_spread(spread).map_err(in_key)?;
    }
    quantize(config, model)
}

/// Gives a model the blocks and bits of the recipe's description.
///
/// # Errors
/// A description that cannot be read, and a model whose blocks none says.
pub(crate) fn set_architecture(config: &Config, model: &mut Model) -> Result<()> {
    let Some(path) = &config.model.architecture else {
        return Ok(());
    };
    let wrong = |what: String| Error::user(format!("{} {what}", config.place("model.architecture")));
    match model {
        Model::ImageClassifier(own) if own.config.network.takes_architecture() && config.model.init.is_none() => {
            let text = fs::read_to_string(path).map_err(|error| {
                wrong(format!(
                    "cannot be read ({error}); name the architecture.json of a search"
                ))
            })?;
            let read = MixedArchitecture::parse(&text).map_err(|error| wrong(format!("is wrong: {error}")))?;
            own.config = own.config.clone().with_architecture(read);
            Ok(())
        }
        _ => Err(wrong(
            "is for model.kind = \"mixed-mobilenet\" from scratch; leave it out, or name that kind".to_string(),
        )),
    }
}

/// Quantizes the layers of a model as the recipe says. A model with fixed ranges becomes one of floats.
///
/// # Errors
/// Keys that do not go together, and names of layers that the model does not have.
fn quantize(config: &Config, model: &mut Model) -> Result<()> {
    let (keys, train) = (&config.model, &config.train);
    let own = model.quantization().filter(|own| own.ranges != Ranges::Fixed).cloned();
    model.set_quantization(own.clone())?;
    let wrong = |key: &str, what: String| Err(Error::user(format!("{} {what}", config.place(key))));
    let Some(bits) = keys.quantize else {
        for (key, is_given) in [
            ("model.quantize_ends", keys.quantize_ends.is_some()),
            ("model.quantize_except", keys.quantize_except.is_some()),
            ("train.qat_ranges", train.qat_ranges.is_some() && own.is_none()),
            ("train.qat_start", train.qat_start > 0 && own.is_none()),
        ] {
            if is_given {
                return wrong(
                    key,
                    "needs model.quantize beside it; give both, or leave it out".to_string(),
                );
            }
        }
        let changed = own.map(|own| with_start(own, config)).transpose()?;
        return model.set_quantization(changed);
    };
    if config.lora.rank > 0 {
        return wrong(
            "model.quantize",
            "does not go with lora.rank, whose adapters stay beside weights as they are; leave one of them out"
                .to_string(),
        );
    }
    let layers = model.layers();
    let in_key = |error: Error| Error::user(format!("{}: {error}", config.place("model.quantize")));
    if let Some(except) = &keys.quantize_except {
        let checked = except.check("the layers of the model", &layers);
        checked.map_err(|error| Error::user(format!("{}: {error}", config.place("model.quantize_except"))))?;
    }
    let mut how = Quantization::new(bits, Ranges::default());
    let ends = keys.quantize_ends.unwrap_or(Bits::EIGHT);
    let is_head = |layer: &String| model.is_head(&format!("{layer}.weight"));
    let head: Vec<&String> = layers.iter().filter(|layer| is_head(layer)).collect();
    let last = if head.is_empty() {
        layers.last().into_iter().collect()
    } else {
        head
    };
    for layer in layers.first().into_iter().chain(last) {
        how.layers.insert(layer.clone(), ends);
    }
    for layer in layers
        .iter()
        .filter(|layer| keys.quantize_except.as_ref().is_some_and(|names| names.contains(layer)))
    {
        how.layers.insert(layer.clone(), Bits::FLOAT);
    }
    let how = with_start(how, config)?;
    model.set_quantization(Some(how)).map_err(in_key)
}

/// A quantization with ranges and start of the recipe.
///
/// # Errors
/// A start beyond what is counted.
fn with_start(own: Quantization, config: &Config) -> Result<Quantization> {
    let train = &config.train;
    let start = train.qat_start.saturating_mul(train.accumulate as u64);
    if start >= Quantization::MOST_BATCHES {
        return Err(Error::user(format!(
            "{} is beyond {} batches; choose fewer steps",
            config.place("train.qat_start"),
            Quantization::MOST_BATCHES
        )));
    }
    Ok(Quantization {
        ranges: train.qat_ranges.unwrap_or(own.ranges),
        start: if train.qat_start > 0 { start } else { own.start },
        ..own
    })
}

fn from_checkpoint(config: &Config, folder: ModelFolder<'_>, goal: &dyn Goal) -> Result<Model> {
    for name in FIXED {
        if let origin @ Origin::Flag(_) = config.settings.origin(name) {
            let shown = folder.path().display();
            return Err(Error::user(format!(
                "{origin} cannot change the checkpoint {shown}; leave out one of the two"
            )));
        }
    }
    let mut model = match goal.output_layer() {
        OutputLayer::LanguageModel => {
            // The error about a family without such a class names GPT-2's.
            let class = Architecture::language_model(&Model::family(folder)?);
            Model::from_dir_as(folder, class.unwrap_or(Architecture::GPT2LMHeadModel))?
        }
        OutputLayer::Head(head) => Model::from_dir_with(folder, head)?,
    };
    check_nodes(config, &model)?;
    if let Some(activation) = config.model.activation {
        model.set_activation(activation);
    }
    let (own, attention) = (model.attention(), attention_over(&config.model, model.attention()));
    check_positions(config, &model, attention)?;
    if attention.position.is_limited() && !own.position.is_limited() {
        model.extend_positions(config.data.max_length);
    }
    model
        .set_attention(attention)
        .map_err(|error| Error::user(format!("{}: {error}", config.place("model.position"))))?;
    Ok(model)
}

/// Refuses settings of layers for the network of an ONNX file, whose layers are the nodes of the file.
///
/// # Errors
/// The key.
fn check_nodes(config: &Config, model: &Model) -> Result<()> {
    let Model::OnnxClassifier(own) = model else {
        return Ok(());
    };
    let keys = &config.model;
    let refused = [
        ("model.activation", keys.activation.is_some()),
        ("model.norm", keys.norm.is_some()),
        ("model.batch_norm", keys.batch_norm.is_some()),
        ("model.quantize", keys.quantize.is_some()),
        (
            "model.dropout",
            keys.dropout.is_some() && !own.config.network.has_dropout(),
        ),
        ("lora.rank", config.lora.rank > 0),
    ];
    match refused.into_iter().find(|(_, is_given)| *is_given) {
        Some((key, _)) => Err(Error::user(format!(
            "{} is for layers of Lessen's own, and {} is the network of an ONNX file, which has its own nodes; leave it out",
            config.place(key),
            keys.init.as_deref().unwrap_or(Path::new("")).display()
        ))),
        None => Ok(()),
    }
}

/// The head of an encoder from scratch for a goal.
pub(crate) fn head_of(goal: &dyn Goal) -> Head {
    match goal.output_layer() {
        OutputLayer::Head(head) => head,
        OutputLayer::LanguageModel => Head::SequenceClassification,
    }
}

/// Refuses other positions than the checkpoint's in a BERT: its norms follow the sum of words and positions, so that
/// positions cannot be taken away or added.
///
/// # Errors
/// The key.
fn check_positions(config: &Config, model: &Model, wanted: AttentionConfig) -> Result<()> {
    let own = model.attention().position;
    let is_bert = matches!(model.architecture(), Architecture::Bert(..));
    if wanted.position == own || !is_bert {
        return Ok(());
    }
    let dir = config.model.init.as_deref().unwrap_or(Path::new("")).display();
    Err(Error::user(format!(
        "{} cannot replace the positions ({own}) of the checkpoint {dir}, a post-LN BERT; leave it out, or train from \
         scratch without model.init",
        config.place("model.position")
    )))
}

/// Refuses a training phase that changes settings of the checkpoint to start from.
///
/// # Errors
/// The first such key.
pub(crate) fn check_unchanged(init: &Path, before: &Config, now: &Config) -> Result<()> {
    for name in FIXED {
        if before.settings.get(name) != now.settings.get(name) {
            let (place, shown) = (now.place(name), init.display());
            return Err(Error::user(format!(
                "{place} cannot change the checkpoint {shown}; leave it out of the phase"
            )));
        }
    }
    Ok(())
}
