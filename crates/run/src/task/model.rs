//! From a recipe to the model it describes, and to its first weights.

use super::class_names::are_numbers;
use super::goal::Goal;
use super::reader::Reader;
use super::{RunTask, fit};
use crate::recipe::config::Config;
use crate::recipe::keys::{DataFormat, ModelKind, Transformer};
use crate::recipe::value::Origin;
use lessen_base::{Error, Result};
use lessen_data::Tokenizer;
use lessen_data::images::Preprocessing;
use lessen_nn::checkpoint::ModelFolder;
use lessen_nn::models::bert::{Bert, BertConfig, Family, Head};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::models::gpt_neox::{GPTNeoXForCausalLM, GptNeoxConfig};
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::models::gptj::{GPTJForCausalLM, GptjConfig};
use lessen_nn::models::llama::{LlamaConfig, LlamaForCausalLM};
use lessen_nn::models::vision::{ImageClassifier, ImageClassifierConfig};
use lessen_nn::models::vit::{Vit, VitConfig, VitFamily};
use lessen_nn::{Architecture, AttentionConfig, Model, numbered_labels, same_classes};
use lessen_train::Trainer;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The sizes that the data decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Tokens in the vocabulary.
    pub vocab: usize,
    /// The padding token.
    pub pad: i32,
    /// Tokens of an example.
    pub length: usize,
    /// Rows, columns and channels of an image.
    pub image: [usize; 3],
}

impl Sizes {
    /// Those of what reads the examples; without one those that a plan assumes.
    pub(crate) fn of(config: &Config, reader: Option<&Reader>) -> Sizes {
        let tokenizer = reader.and_then(|reader| reader.tokenizer().ok());
        let preprocessing = reader.and_then(|reader| reader.preprocessing().ok());
        Sizes {
            vocab: tokenizer.map_or(config.model.vocab, Tokenizer::vocab_size),
            pad: tokenizer.map_or(0, Tokenizer::pad_id),
            length: config.data.max_length,
            image: preprocessing.map_or_else(|| config.image.assumed(), Preprocessing::shape),
        }
    }
}

/// Default dropout of a model of texts from scratch, as in BERT and GPT-2.
const DROPOUT: f64 = 0.1;

/// The settings that a checkpoint decides, so that no flag may set them beside it.
const FIXED: [&str; 7] = [
    "model.layers",
    "model.width",
    "model.heads",
    "model.kv_heads",
    "model.reversible",
    "model.ffn",
    "model.patch",
];

/// The model of a recipe: in the dimensions of the checkpoint to start from, else in those of the recipe.
///
/// # Errors
/// A checkpoint that cannot be read or does not go with data and settings.
pub(crate) fn build(config: &Config, goal: &Goal, sizes: Sizes) -> Result<Model> {
    let mut model = match config.init() {
        Some(folder) => from_checkpoint(config, folder, goal)?,
        None => from_scratch(config, sizes),
    };
    if let Some(dropout) = config.model.dropout {
        model.set_dropout(dropout);
    }
    set_labels(&mut model, goal);
    model.set_loss(config.train.loss);
    if let Some(norm) = config.model.norm {
        model.set_norm(norm);
    }
    Ok(model)
}

fn from_checkpoint(config: &Config, folder: ModelFolder<'_>, goal: &Goal) -> Result<Model> {
    for name in FIXED {
        if let origin @ Origin::Flag(_) = config.settings.origin(name) {
            let shown = folder.path().display();
            return Err(Error::user(format!(
                "{origin} cannot change the checkpoint {shown}; leave out one of the two"
            )));
        }
    }
    let mut model = match goal {
        Goal::NextToken | Goal::Sum => {
            // The error about a family without such a class names GPT-2's.
            let class = Architecture::language_model(&Model::family(folder)?);
            Model::from_dir_as(folder, class.unwrap_or(Architecture::GPT2LMHeadModel))?
        }
        Goal::MaskedTokens => Model::from_dir_with(folder, Head::MaskedLM)?,
        Goal::WordClasses(_) => Model::from_dir_with(folder, Head::TokenClassification)?,
        Goal::Answers => Model::from_dir_with(folder, Head::QuestionAnswering)?,
        Goal::Classes(..) | Goal::Labels(..) | Goal::Score(_) => {
            Model::from_dir_with(folder, Head::SequenceClassification)?
        }
    };
    if let Some(activation) = config.model.activation {
        model.set_activation(activation);
    }
    let (own, attention) = (model.attention(), attention_over(config, model.attention()));
    fit::check_positions_of_checkpoint(config, &model, attention)?;
    if attention.position.is_limited() && !own.position.is_limited() {
        model.extend_positions(config.data.max_length);
    }
    model
        .set_attention(attention)
        .map_err(|error| Error::user(format!("{}: {error}", config.place("model.position"))))?;
    Ok(model)
}

/// The attention that the recipe's keys make of another one.
fn attention_over(config: &Config, own: AttentionConfig) -> AttentionConfig {
    let m = &config.model;
    AttentionConfig {
        weighting: m.attention.unwrap_or(own.weighting),
        position: m.position.unwrap_or(own.position),
        fire_width: m.fire_width.unwrap_or(own.fire_width),
        fire_shared: m.fire_shared.unwrap_or(own.fire_shared),
        ..own
    }
}

/// Refuses a phase that changes what the checkpoint to start from decides.
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

impl ModelKind {
    /// The attention of a model from scratch, with heads of this width, whose recipe says nothing of it.
    pub(crate) fn attention(self, head_width: usize) -> AttentionConfig {
        match self {
            ModelKind::Transformer(Transformer::Llama) => LlamaConfig::ATTENTION,
            ModelKind::Transformer(Transformer::GptNeox) => GptNeoxConfig::attention(head_width),
            ModelKind::Transformer(Transformer::Gptj) => GptjConfig::attention(head_width),
            _ => AttentionConfig::DEFAULT,
        }
    }
}

/// The fields of special tokens of a language model from scratch: transformers would assume those of the family's own
/// vocabulary.
fn special_tokens(pad: usize) -> Map<String, Value> {
    let fields = [
        ("bos_token_id", Value::Null),
        ("eos_token_id", Value::Null),
        ("pad_token_id", json!(pad)),
    ];
    fields
        .map(|(field, value)| (field.to_string(), value))
        .into_iter()
        .collect()
}

/// The model that the recipe's own keys describe.
pub(crate) fn from_scratch(config: &Config, sizes: Sizes) -> Model {
    let mut model = match config.model.kind {
        ModelKind::Transformer(kind) => transformer(config, kind, sizes),
        ModelKind::Network(network) => {
            let config = ImageClassifierConfig::of(network, sizes.image);
            ImageClassifier { config }.into()
        }
    };
    if let Some(activation) = config.model.activation {
        model.set_activation(activation);
    }
    model
}

/// A Transformer of the sizes of the recipe's own keys.
fn transformer(config: &Config, kind: Transformer, sizes: Sizes) -> Model {
    let m = &config.model;
    let Sizes {
        vocab,
        pad,
        length,
        image,
    } = sizes;
    let dropout = m.dropout.unwrap_or(match kind {
        Transformer::Llama | Transformer::GptNeox | Transformer::Gptj | Transformer::Vit | Transformer::Deit => 0.0,
        _ => DROPOUT,
    });
    let pad = usize::try_from(pad).unwrap_or(0);
    let attention = attention_over(config, ModelKind::from(kind).attention(m.width / m.heads));
    match kind {
        Transformer::Gpt2 => {
            let mut config = Gpt2Config {
                vocab_size: vocab,
                n_positions: length,
                n_embd: m.width,
                n_layer: m.layers,
                n_head: m.heads,
                n_inner: Some(m.ffn),
                attention,
                ..Gpt2Config::default()
            };
            config.fields = special_tokens(pad);
            config.set_dropout(dropout);
            GPT2LMHeadModel { config }.into()
        }
        Transformer::Llama => {
            let config = LlamaConfig {
                vocab_size: vocab,
                hidden_size: m.width,
                intermediate_size: m.ffn,
                num_hidden_layers: m.layers,
                num_attention_heads: m.heads,
                num_key_value_heads: m.kv_heads.unwrap_or(m.heads),
                head_dim: m.width / m.heads,
                max_position_embeddings: length,
                attention_dropout: dropout,
                attention,
                fields: special_tokens(pad),
                ..LlamaConfig::default()
            };
            LlamaForCausalLM { config }.into()
        }
        Transformer::GptNeox => {
            let mut config = GptNeoxConfig {
                vocab_size: vocab,
                hidden_size: m.width,
                intermediate_size: m.ffn,
                num_hidden_layers: m.layers,
                num_attention_heads: m.heads,
                max_position_embeddings: length,
                attention,
                fields: special_tokens(pad),
                ..GptNeoxConfig::default()
            };
            config.set_dropout(dropout);
            GPTNeoXForCausalLM { config }.into()
        }
        Transformer::Gptj => {
            let default = GptjConfig::default();
            let mut config = GptjConfig {
                vocab_size: vocab,
                // transformers has no angles behind the last position.
                n_positions: match attention.position.is_limited() {
                    true => length,
                    false => length.max(default.n_positions),
                },
                n_embd: m.width,
                n_layer: m.layers,
                n_head: m.heads,
                n_inner: Some(m.ffn),
                attention,
                fields: special_tokens(pad),
                ..default
            };
            config.set_dropout(dropout);
            GPTJForCausalLM { config }.into()
        }
        Transformer::Bert | Transformer::Roberta | Transformer::DistilBert => {
            let family = match kind {
                Transformer::Roberta => Family::Roberta,
                Transformer::DistilBert => Family::DistilBert,
                _ => Family::Bert,
            };
            let mut bert = BertConfig {
                vocab_size: vocab,
                hidden_size: m.width,
                num_hidden_layers: m.layers,
                num_attention_heads: m.heads,
                intermediate_size: m.ffn,
                pad_token_id: pad,
                attention,
                ..BertConfig::of(family)
            };
            bert.max_position_embeddings = length.max(512) + bert.first_position();
            bert.set_dropout(dropout);
            let head = match config.data.format {
                DataFormat::Masked => Head::MaskedLM,
                DataFormat::Tagged => Head::TokenClassification,
                DataFormat::Squad => Head::QuestionAnswering,
                _ => Head::SequenceClassification,
            };
            Bert { config: bert, head }.into()
        }
        Transformer::Encoder => {
            let config = EncoderConfig {
                vocab_size: vocab,
                width: m.width,
                layers: m.layers,
                heads: m.heads,
                ffn: m.ffn,
                max_length: length,
                kv_heads: m.kv_heads.filter(|count| *count != m.heads),
                reversible: m.reversible.unwrap_or(false),
                attention,
                dropout,
                pad_token_id: pad,
                ..EncoderConfig::default()
            };
            LessenEncoder { config }.into()
        }
        Transformer::Vit | Transformer::Deit => {
            let [rows, columns, channels] = image;
            let mut config = VitConfig {
                family: match kind {
                    Transformer::Deit => VitFamily::Deit,
                    _ => VitFamily::Vit,
                },
                hidden_size: m.width,
                num_hidden_layers: m.layers,
                num_attention_heads: m.heads,
                intermediate_size: m.ffn,
                image_size: [rows, columns],
                patch_size: [m.patch; 2],
                num_channels: channels,
                attention,
                ..VitConfig::default()
            };
            config.set_dropout(dropout);
            Vit { config }.into()
        }
    }
}

fn set_labels(model: &mut Model, goal: &Goal) {
    model.set_multi_label(matches!(goal, Goal::Labels(..)));
    match goal {
        Goal::Labels(names, _) => {
            // Targets have a column for each class.
            if !(are_numbers(names) && model.labels().len() == names.len()) {
                model.set_labels(names.clone());
            }
        }
        Goal::Classes(names, _) | Goal::WordClasses(names) => {
            // Numbers are no names: a checkpoint that knows these classes may know more of them.
            let named = same_classes(names, model.labels()).is_some();
            if named || !(are_numbers(names) && model.labels().len() >= names.len()) {
                model.set_labels(names.clone());
            }
        }
        Goal::Score(_) => model.set_labels(numbered_labels(1)),
        Goal::NextToken | Goal::Sum | Goal::MaskedTokens | Goal::Answers => {}
    }
}

/// Writes a Hugging Face folder: the configuration of a task's model, its weights, the tokenizer and, of a model that
/// continues texts, how it does.
///
/// # Errors
/// A folder that cannot be written to, and a weight that the dtype does not reach.
pub(crate) fn save(dir: &Path, task: &RunTask, trainer: &mut Trainer, reader: &Reader) -> Result<()> {
    trainer.save(dir, &task.model.config_json(), task.config.train.save_dtype)?;
    reader.save(dir)?;
    task.generation().map_or(Ok(()), |generation| generation.save(dir))
}
