//! Families of models from scratch. A family is a file of this folder and a line of
//! `transformers`: it says what its models learn, which keys they take, and makes
//! a model of the recipe's sizes.

mod bert;
mod encoder;
mod gpt2;
mod gpt_neox;
mod gptj;
mod linear;
mod llama;
mod network;
mod vit;

use crate::reader::Reader;
use crate::recipe::config::Config;
use crate::recipe::keys::{ModelKeys, ModelKind, Transformer, transformers};
use lessen_base::word::Word;
use lessen_data::Tokenizer;
use lessen_nn::models::bert::{Family, Head};
use lessen_nn::models::vit::VitFamily;
use lessen_nn::{AttentionConfig, FireConfig, Model};
use serde_json::{Map, Value, json};

macro_rules! registry {
    ($($(#[$doc:meta])* $variant:ident = $word:literal: $family:expr;)*) => {
        impl Transformer {
            fn family(self) -> Box<dyn ModelFamily> {
                match self {
                    $(Transformer::$variant => Box::new($family),)*
                }
            }
        }
    };
}

transformers!(registry);

/// The task of a family's models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelRole {
    /// They continue texts.
    ContinuesTexts,
    /// They encode texts for any of BERT's heads.
    EncodesTexts,
    /// They classify texts, as encoders with heads do, too.
    ClassifiesTexts,
    /// They classify images.
    ClassifiesImages,
}

impl ModelRole {
    /// Whether a model with this role learns data that asks for the role `wanted`.
    fn serves(self, wanted: ModelRole) -> bool {
        self == wanted || (self == ModelRole::EncodesTexts && wanted == ModelRole::ClassifiesTexts)
    }
}

/// A family of models.
pub trait ModelFamily {
    /// The task of its models.
    fn role(&self) -> ModelRole;

    /// The attention of a model with heads of this width whose recipe says nothing of it.
    fn attention(&self, head_width: usize) -> AttentionConfig {
        let _ = head_width;
        AttentionConfig::DEFAULT
    }

    /// The dropout of a model whose recipe says nothing of it.
    fn dropout(&self) -> f64 {
        0.0
    }

    /// Whether keys and values can have fewer heads than queries.
    fn takes_kv_heads(&self) -> bool {
        false
    }

    /// Whether layers can have two streams.
    fn can_be_reversible(&self) -> bool {
        false
    }

    /// Whether models are tables of tokens and pairs of tokens, whose number of rows for pairs is a key.
    fn takes_buckets(&self) -> bool {
        false
    }

    /// Whether models can have such tables beside their layers.
    fn takes_ngrams(&self) -> bool {
        false
    }

    /// Makes a model of the sizes in `scratch`.
    fn build(&self, scratch: FromScratch<'_>) -> Model;
}

/// The ingredients of a model from scratch.
pub struct FromScratch<'a> {
    /// The keys of the recipe.
    pub keys: &'a ModelKeys,
    /// The sizes that the data decides.
    pub sizes: Sizes,
    /// The attention of every layer.
    pub attention: AttentionConfig,
    /// The share of dropped values.
    pub dropout: f64,
    /// The head, of an encoder with heads.
    pub head: Head,
}

impl FromScratch<'_> {
    /// The fields of special tokens of a language model. Without them transformers would assume the special tokens of
    /// the family's own vocabulary.
    fn special_tokens(&self) -> Map<String, Value> {
        let fields = [
            ("bos_token_id", Value::Null),
            ("eos_token_id", Value::Null),
            ("pad_token_id", json!(self.sizes.padding_token())),
        ];
        Map::from_iter(fields.map(|(field, value)| (field.to_string(), value)))
    }
}

/// The sizes of a model that the data decides.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Tokens in the vocabulary.
    pub vocab: usize,
    /// The padding token.
    pub pad: i32,
    /// Tokens of an example.
    pub length: usize,
    /// Classes of examples; 1 where they have a number or none.
    pub classes: usize,
    /// Rows, columns and channels of an image.
    pub image: [usize; 3],
    /// Mean and standard deviation of the numbers that are learned of a table.
    pub output_scale: Option<[f64; 2]>,
}

impl Sizes {
    /// The sizes that the reader of examples decides; without a reader, the sizes that a plan assumes.
    pub fn of(config: &Config, reader: Option<&Reader>) -> Sizes {
        let tokenizer = reader.and_then(|reader| reader.tokenizer().ok());
        let array = reader.and_then(Reader::array);
        Sizes {
            vocab: tokenizer.map_or(config.model.vocab, Tokenizer::vocab_size),
            pad: tokenizer.map_or(0, Tokenizer::pad_id),
            length: config.data.max_length,
            classes: config.model.classes,
            image: array.unwrap_or_else(|| config.image.assumed()),
            output_scale: reader.and_then(|reader| reader.table().ok()?.target),
        }
    }

    fn padding_token(&self) -> usize {
        usize::try_from(self.pad).unwrap_or(0)
    }
}

impl ModelKind {
    /// The family.
    pub fn family(self) -> Box<dyn ModelFamily> {
        match self {
            ModelKind::Transformer(transformer) => transformer.family(),
            ModelKind::Network(network) => Box::new(network::ConvolutionalNetwork(network)),
        }
    }
}

/// The words of `model.kind` for models that learn data with this role.
pub fn words_of(role: ModelRole) -> Vec<&'static str> {
    words_where(|family| family.role().serves(role))
}

/// The words of `model.kind` for models of some families.
pub(crate) fn words_where(is_wanted: impl Fn(&dyn ModelFamily) -> bool) -> Vec<&'static str> {
    let kinds = ModelKind::WORDS.iter().filter_map(|word| ModelKind::from_word(word));
    let wanted = kinds.filter(|kind| is_wanted(kind.family().as_ref()));
    wanted.map(Word::word).collect()
}

/// The model that the recipe's own keys describe, with this head where it is an encoder with heads.
pub(crate) fn from_scratch(config: &Config, sizes: Sizes, head: Head) -> Model {
    let (keys, family) = (&config.model, config.model.kind.family());
    let mut model = family.build(FromScratch {
        keys,
        sizes,
        attention: attention_over(keys, family.attention(keys.width / keys.heads)),
        dropout: keys.dropout.unwrap_or(family.dropout()),
        head,
    });
    if let Some(activation) = keys.activation {
        model.set_activation(activation);
    }
    model
}

/// The attention that the recipe's keys make of another one.
pub(crate) fn attention_over(keys: &ModelKeys, own: AttentionConfig) -> AttentionConfig {
    AttentionConfig {
        weighting: keys.attention.unwrap_or(own.weighting),
        position: keys.position.unwrap_or(own.position),
        fire: FireConfig {
            width: keys.fire_width.unwrap_or(own.fire.width),
            layers: keys.fire_layers.unwrap_or(own.fire.layers),
            length: keys.fire_length.unwrap_or(own.fire.length),
            length_learned: keys.fire_length_learned.unwrap_or(own.fire.length_learned),
            shared: keys.fire_shared.unwrap_or(own.fire.shared),
        },
        ..own
    }
}
