//! The models that a Llama can be, its configuration for them, and why it can be no other.

use std::path::Path;

use lessen_base::{Error, Result};
use lessen_nn::checkpoint::ModelFolder;
use lessen_nn::models::gpt_neox::{GPTNeoXForCausalLM, GptNeoxConfig};
use lessen_nn::models::llama::{LlamaConfig, LlamaFamily, LlamaForCausalLM};
use lessen_nn::{Model, NormKind};
use serde_json::{Map, Value};

/// Fields that say nothing of what is computed, and stay.
const KEPT: [&str; 9] = [
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "pad_token_id",
    "rope_parameters",
    "tokenizer_class",
    "torch_dtype",
    "transformers_version",
    "use_cache",
];

/// A model that may be written as a Llama.
pub(super) enum Source<'a> {
    /// GPT-NeoX whose branches follow each other, and whose heads are rotated as a whole.
    GptNeox(&'a GPTNeoXForCausalLM),
    /// OLMo.
    Olmo(&'a LlamaForCausalLM),
}

impl<'a> Source<'a> {
    /// The model in a folder, if a Llama computes the same but for its norms.
    ///
    /// # Errors
    /// Any other model; the sentence says what a Llama does not have.
    pub(super) fn of(model: &'a Model, folder: &Path) -> Result<Source<'a>> {
        let no = |why: String| Err(refused(folder, &why));
        if ModelFolder::from(folder).has_adapters() {
            return Err(Error::user(format!(
                "{} is a folder of adapters, which --as llama does not read; merge them into their model first, with \
                 `lessen export`",
                folder.display()
            )));
        }
        let class = model.architecture().name();
        let source = match model {
            Model::GPT2LMHeadModel(_) => {
                return no(format!(
                    "the positions of a {class} are learned, and those of a Llama rotary"
                ));
            }
            Model::GPTJForCausalLM(_) => {
                return no(format!(
                    "attention and feed-forward layers of a {class} read the same, and those of a Llama follow each other"
                ));
            }
            Model::GPTNeoXForCausalLM(model) if model.config.use_parallel_residual => {
                return no(format!(
                    "the field `use_parallel_residual` of this {class} is true, and the branches of a Llama follow each \
                     other"
                ));
            }
            Model::GPTNeoXForCausalLM(model) => {
                if let Some(width) = model.config.attention.rotary.width {
                    return no(format!(
                        "the field `rotary_pct` of this {class} says that {width} of the {} elements of a head are rotated, \
                         and a Llama rotates all",
                        model.config.head_width()
                    ));
                }
                Source::GptNeox(model)
            }
            Model::LlamaForCausalLM(model) if model.config.family == LlamaFamily::Olmo => Source::Olmo(model),
            Model::LlamaForCausalLM(_) => {
                return Err(Error::user(format!(
                    "the model in {} is a {class}, which has no LayerNorm; there is nothing to convert",
                    folder.display()
                )));
            }
            Model::Bert(_) | Model::LessenEncoder(_) | Model::LessenLinear(_) => {
                return no(format!("a {class} reads texts as a whole, and a Llama continues them"));
            }
            Model::Vit(_) | Model::ImageClassifier(_) | Model::OnnxClassifier(_) => {
                return no(format!("a {class} reads images, and a Llama texts"));
            }
        };
        let config = model.config_json();
        let own = config
            .keys()
            .find(|field| field.starts_with("lessen_") && *field != "lessen_norm");
        match own {
            Some(field) => no(format!(
                "transformers does not know the field `{field}` of this {class}"
            )),
            None => Ok(source),
        }
    }
}

impl Source<'_> {
    /// Attention heads of each layer.
    pub(super) fn heads(&self) -> usize {
        match self {
            Source::GptNeox(model) => model.config.num_attention_heads,
            Source::Olmo(model) => model.config.num_attention_heads,
        }
    }

    /// The same model with a head of its own.
    pub(super) fn untied(&self) -> Model {
        match *self {
            Source::GptNeox(model) => {
                let mut model = model.clone();
                model.config.tie_word_embeddings = false;
                model.into()
            }
            Source::Olmo(model) => {
                let mut model = model.clone();
                model.config.tie_word_embeddings = false;
                model.into()
            }
        }
    }

    /// The Llama that computes the same.
    pub(super) fn llama(&self) -> LlamaConfig {
        let config = match *self {
            Source::GptNeox(model) => of_gpt_neox(&model.config),
            Source::Olmo(model) => LlamaConfig {
                family: LlamaFamily::Llama,
                fields: kept(&model.config.fields),
                ..model.config.clone()
            },
        };
        LlamaConfig {
            tie_word_embeddings: false,
            norm: NormKind::Layer,
            ..config
        }
    }
}

/// A Llama's configuration of a GPT-NeoX. Only dropout of the residual stream is lost, which a Llama does not have.
fn of_gpt_neox(c: &GptNeoxConfig) -> LlamaConfig {
    LlamaConfig {
        family: LlamaFamily::Llama,
        vocab_size: c.vocab_size,
        hidden_size: c.hidden_size,
        intermediate_size: c.intermediate_size,
        num_hidden_layers: c.num_hidden_layers,
        num_attention_heads: c.num_attention_heads,
        num_key_value_heads: c.num_attention_heads,
        head_dim: c.head_width(),
        hidden_act: c.hidden_act,
        max_position_embeddings: c.max_position_embeddings,
        initializer_range: c.initializer_range,
        rms_norm_eps: c.layer_norm_eps,
        attention_bias: true,
        mlp_bias: true,
        tie_word_embeddings: false,
        attention_dropout: c.attention_dropout,
        attention: c.attention,
        loss: c.loss,
        norm: NormKind::Layer,
        quantization: None,
        fields: kept(&c.fields),
    }
}

/// The fields that stay.
fn kept(fields: &Map<String, Value>) -> Map<String, Value> {
    let kept = fields.iter().filter(|(field, _)| KEPT.contains(&field.as_str()));
    kept.map(|(field, value)| (field.clone(), value.clone())).collect()
}

/// The error of a folder that cannot be written as a Llama.
pub(super) fn refused(folder: &Path, why: &str) -> Error {
    Error::user(format!(
        "{} cannot be written as a Llama: {why}; leave out --as llama",
        folder.display()
    ))
}
