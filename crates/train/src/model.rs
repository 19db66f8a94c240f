//! From a recipe to the model it describes, and to its first weights.

use crate::config::{Config, ModelKind};
use crate::corpus::Goal;
use crate::error::{Error, Result};
use lessen_data::Tokenizer;
use lessen_nn::models::bert::{BertConfig, BertForSequenceClassification};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::{
    Architecture, Model, Weights, checkpoint, initialize_missing, numbered_labels, reorder_classes,
    same_classes,
};
use serde_json::{Value, json};
use std::path::Path;

/// The sizes that the data decides.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Tokens in the vocabulary.
    pub vocab: usize,
    /// The token that fills up.
    pub pad: i32,
    /// Tokens of an example.
    pub length: usize,
}

/// Dropout of a model from scratch where nobody says anything else, as in BERT and GPT-2.
const DROPOUT: f64 = 0.1;

/// The settings that a checkpoint decides, so that nobody may set them beside it.
const FIXED: [&str; 4] = ["model.layers", "model.width", "model.heads", "model.ffn"];

/// The model of a recipe: in the dimensions of the checkpoint to start from, else in those of the recipe.
///
/// # Errors
/// A checkpoint that cannot be read or does not go with data and settings.
pub fn build(config: &Config, goal: &Goal, sizes: Sizes) -> Result<Model> {
    let mut model = match &config.model.init {
        Some(dir) => from_checkpoint(config, dir, goal)?,
        None => from_scratch(config, sizes),
    };
    if let Some(dropout) = config.model.dropout {
        model.set_dropout(dropout);
    }
    set_labels(&mut model, goal);
    let (vocab, longest) = (model.vocab_size(), model.max_length());
    if let Some(dir) = &config.model.init {
        let shown = dir.display();
        if sizes.vocab > vocab {
            return Err(Error::user(format!(
                "the tokenizer has {} tokens but the checkpoint {shown} only {vocab}; use the tokenizer that belongs to it",
                sizes.vocab
            )));
        }
        if sizes.length > longest {
            return Err(Error::user(format!(
                "{} is more than the {longest} positions of the checkpoint {shown}; set data.max_length to at most that",
                config.place("data.max_length")
            )));
        }
    }
    Ok(model)
}

fn from_checkpoint(config: &Config, dir: &Path, goal: &Goal) -> Result<Model> {
    for name in FIXED {
        if let origin @ crate::settings::Origin::Flag(_) = config.settings.origin(name) {
            let shown = dir.display();
            return Err(Error::user(format!(
                "{origin} cannot change the checkpoint {shown}; leave out one of the two"
            )));
        }
    }
    if !dir.is_dir() {
        let place = config.settings.origin("model.init");
        return Err(Error::user(format!(
            "{place}: there is no folder {}; check the path",
            dir.display()
        )));
    }
    let wanted = match goal {
        Goal::NextToken | Goal::Sum => Architecture::GPT2LMHeadModel,
        Goal::Classes(..) | Goal::Score(_) => {
            if Model::family(dir)? == Architecture::LessenEncoder.model_type() {
                Architecture::LessenEncoder
            } else {
                Architecture::BertForSequenceClassification
            }
        }
    };
    Ok(Model::from_dir_as(dir, wanted)?)
}

fn from_scratch(config: &Config, sizes: Sizes) -> Model {
    let m = &config.model;
    let Sizes { vocab, pad, length } = sizes;
    let dropout = m.dropout.unwrap_or(DROPOUT);
    let pad = usize::try_from(pad).unwrap_or(0);
    match m.kind {
        ModelKind::Gpt2 => {
            let mut config = Gpt2Config {
                vocab_size: vocab,
                n_positions: length,
                n_embd: m.width,
                n_layer: m.layers,
                n_head: m.heads,
                n_inner: Some(m.ffn),
                ..Gpt2Config::default()
            };
            // transformers would assume the tokens of GPT-2's own vocabulary.
            for (field, value) in [("bos_token_id", Value::Null), ("eos_token_id", Value::Null)] {
                config.fields.insert(field.to_string(), value);
            }
            config.fields.insert("pad_token_id".to_string(), json!(pad));
            config.set_dropout(dropout);
            GPT2LMHeadModel { config }.into()
        }
        ModelKind::Bert => {
            let mut config = BertConfig {
                vocab_size: vocab,
                hidden_size: m.width,
                num_hidden_layers: m.layers,
                num_attention_heads: m.heads,
                intermediate_size: m.ffn,
                max_position_embeddings: length.max(512),
                ..BertConfig::default()
            };
            config.fields.insert("pad_token_id".to_string(), json!(pad));
            config.set_dropout(dropout);
            BertForSequenceClassification { config }.into()
        }
        ModelKind::Encoder => {
            let config = EncoderConfig {
                vocab_size: vocab,
                width: m.width,
                layers: m.layers,
                heads: m.heads,
                ffn: m.ffn,
                max_length: length,
                dropout,
                pad_token_id: pad,
                ..EncoderConfig::default()
            };
            LessenEncoder { config }.into()
        }
    }
}

fn set_labels(model: &mut Model, goal: &Goal) {
    match goal {
        Goal::Classes(names, _) => {
            // Numbers are no names: a checkpoint that knows these classes may know more of them.
            let numbers = names
                .iter()
                .enumerate()
                .all(|(number, name)| *name == number.to_string());
            let named = same_classes(names, model.labels()).is_some();
            if named || !(numbers && model.labels().len() >= names.len()) {
                model.set_labels(names.clone());
            }
        }
        Goal::Score(_) => model.set_labels(numbered_labels(1)),
        Goal::NextToken | Goal::Sum => {}
    }
}

/// The first weights of a run: the checkpoint's where it has them, others drawn from the seed. Also the names and
/// shapes of those that were drawn although there is a checkpoint. A class that the checkpoint knows under another
/// number keeps its row of the classifier.
///
/// # Errors
/// A checkpoint with a damaged tensor, or outside the head with a missing or ill-shaped one.
pub fn first_weights(model: &Model, init: Option<&Path>, seed: u64) -> Result<(Weights, Vec<String>)> {
    let parameters = model.parameters();
    let (mut weights, missing) = match init {
        Some(dir) => {
            let mut loaded = checkpoint::load(dir, &parameters, &|name| model.is_head(name))?;
            let known = Model::from_dir_as(dir, model.architecture())?;
            if let Some(places) = same_classes(model.labels(), known.labels()) {
                reorder_classes(&mut loaded.weights, &places);
            }
            let drawn = parameters
                .iter()
                .filter(|param| loaded.missing.contains(&param.name));
            let shown = drawn.map(|param| format!("{} of shape {:?}", param.name, param.shape));
            (loaded.weights, shown.collect())
        }
        None => (Weights::new(), Vec::new()),
    };
    initialize_missing(&mut weights, &parameters, seed);
    Ok((weights, missing))
}

/// Writes a Hugging Face folder: the model's configuration, its weights and the tokenizer.
///
/// # Errors
/// A folder that cannot be written to.
pub fn save(dir: &Path, model: &Model, weights: &Weights, tokenizer: &Tokenizer) -> Result<()> {
    checkpoint::save(dir, &model.config_json(), weights)?;
    tokenizer.save(dir)?;
    Ok(())
}
