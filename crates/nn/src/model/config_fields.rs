//! The fields of `config.json` of each family that transformers has, and their effects on the logits.

use serde_json::Value;

use crate::architecture::Architecture;
use crate::config::Fields;
use crate::field_effect::FieldEffect::{Followed, Only, Refused, WithoutEffect};
use crate::field_effect::{KnownField, is_empty};
use crate::models::bert::Family;
use crate::models::llama::LlamaFamily;
use crate::quantization_config::check_config;
use lessen_base::Result;

/// Beginning of the names of fields that Lessen writes for settings that transformers does not have.
pub(crate) const OWN: &str = "lessen_";

/// The field with the kind of attention of each layer.
const LAYERS: &str = "layer_types";

/// Makes the fields of a family of their effects, each with the names of its fields.
macro_rules! known_fields {
    ($(#[$doc:meta])* $name:ident: $($effect:expr => $($field:expr),+;)+) => {
        $(#[$doc])*
        const $name: &[KnownField] = &[$($(($field, $effect)),+),+];
    };
}

known_fields! {
    /// The fields of all families.
    COMMON:
    Followed => "architectures", "model_type", "id2label", "label2id", "num_labels", "problem_type",
        "initializer_range", "eos_token_id";
    Only("false") => "is_encoder_decoder";
    Followed => "quantization_config";
    Refused => "pruned_heads", "tie_encoder_decoder", "cross_attention_hidden_size";
    WithoutEffect => "bos_token_id", "sep_token_id", "pad_token_id", "decoder_start_token_id", "dtype",
        "torch_dtype", "transformers_version", "use_cache", "chunk_size_feed_forward", "output_attentions",
        "output_hidden_states", "output_past", "return_dict", "attn_implementation", "auto_map",
        "finetuning_task", "task_specific_params", "gradient_checkpointing", "torchscript", "tokenizer_class",
        "prefix", "use_bfloat16", "tf_legacy_loss", "tie_weights_", "unsloth_fixed", "unsloth_version",
        "sentence_transformers", "transformers.js_config";
}

known_fields! {
    /// The fields of generation that older versions of transformers write, too; they say nothing of the logits.
    GENERATION:
    WithoutEffect => "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample",
        "early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty",
        "forced_bos_token_id", "forced_eos_token_id", "length_penalty", "max_length", "min_length",
        "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences", "output_scores",
        "remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "suppress_tokens",
        "temperature", "top_k", "top_p", "typical_p";
}

known_fields! {
    /// The fields of BERT and RoBERTa.
    BERT:
    Followed => "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
        "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout",
        "max_position_embeddings", "type_vocab_size", "layer_norm_eps", "pad_token_id", "tie_word_embeddings";
    Only("\"absolute\"") => "position_embedding_type";
    Only("false") => "is_decoder", "add_cross_attention";
    WithoutEffect => "directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
        "pooler_size_per_head", "pooler_type";
}

known_fields! {
    /// The fields of DistilBERT.
    DISTILBERT:
    Followed => "vocab_size", "dim", "hidden_size", "n_layers", "num_hidden_layers", "n_heads",
        "num_attention_heads", "hidden_dim", "activation", "dropout", "attention_dropout", "qa_dropout",
        "seq_classif_dropout", "max_position_embeddings", "pad_token_id", "tie_word_embeddings";
    Only("false") => "sinusoidal_pos_embds";
    WithoutEffect => "is_decoder";
}

known_fields! {
    /// The fields of MPNet.
    MPNET:
    Followed => "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
        "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings",
        "layer_norm_eps", "relative_attention_num_buckets", "tie_word_embeddings";
}

known_fields! {
    /// The fields of GPT-2 and GPT-J.
    GPT:
    Followed => "vocab_size", "n_positions", "max_position_embeddings", "n_embd", "hidden_size", "n_layer",
        "num_hidden_layers", "n_head", "num_attention_heads", "n_inner", "activation_function", "resid_pdrop",
        "embd_pdrop", "attn_pdrop", "layer_norm_epsilon", "tie_word_embeddings";
    WithoutEffect => "n_ctx", "rotary", "summary_type", "summary_use_proj", "summary_activation",
        "summary_proj_to_labels", "summary_first_dropout";
}

known_fields! {
    /// The fields of GPT-2 alone.
    GPT2:
    Only("true") => "scale_attn_weights";
    Only("false") => "scale_attn_by_inverse_layer_idx", "add_cross_attention";
    WithoutEffect => "reorder_and_upcast_attn";
}

known_fields! {
    /// The fields of GPT-J alone.
    GPTJ:
    Followed => "rotary_dim";
    WithoutEffect => "scale_attn_weights";
}

known_fields! {
    /// The fields of GPT-NeoX.
    GPT_NEOX:
    Followed => "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
        "hidden_act", "attention_dropout", "hidden_dropout", "max_position_embeddings", "layer_norm_eps",
        "tie_word_embeddings", "use_parallel_residual", "attention_bias", "rotary_pct", "rotary_emb_base",
        "rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor";
    WithoutEffect => "classifier_dropout", "is_decoder";
}

known_fields! {
    /// The fields of Llama, Mistral, Qwen2 and OLMo.
    LLAMAS:
    Followed => "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "hidden_act", "max_position_embeddings", "tie_word_embeddings",
        "attention_dropout", "rope_theta", "rope_scaling", "rope_parameters";
}

known_fields! {
    /// The fields of Llama alone.
    LLAMA:
    Followed => "rms_norm_eps", "attention_bias", "mlp_bias";
    Only("1") => "pretraining_tp";
}

known_fields! {
    /// The fields of Mistral alone.
    MISTRAL:
    Followed => "rms_norm_eps";
    Only("null") => "sliding_window";
    WithoutEffect => "attention_bias", "mlp_bias", "pretraining_tp";
}

known_fields! {
    /// The fields of Qwen2 alone.
    QWEN2:
    Followed => "rms_norm_eps";
    Only("false") => "use_sliding_window";
    Only("[\"full_attention\", …]") => LAYERS;
    WithoutEffect => "sliding_window", "max_window_layers", "attention_bias", "mlp_bias", "pretraining_tp";
}

known_fields! {
    /// The fields of OLMo alone.
    OLMO:
    Followed => "attention_bias";
    Only("null") => "clip_qkv";
    WithoutEffect => "rms_norm_eps", "mlp_bias", "pretraining_tp";
}

known_fields! {
    /// The fields of ViT and DeiT.
    VIT:
    Followed => "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
        "hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps", "image_size", "patch_size",
        "num_channels", "qkv_bias";
    WithoutEffect => "encoder_stride", "pooler_act", "pooler_output_size";
}

/// Families, and other spellings of fields with the names that these have there.
type Spellings = (&'static [&'static str], &'static [(&'static str, &'static str)]);

/// Other spellings of fields, which count where both are there, as in transformers.
const SPELLINGS: [Spellings; 2] = [
    (
        &["gpt2", "gptj"],
        &[
            ("hidden_size", "n_embd"),
            ("max_position_embeddings", "n_positions"),
            ("num_attention_heads", "n_head"),
            ("num_hidden_layers", "n_layer"),
        ],
    ),
    (
        &["distilbert"],
        &[
            ("hidden_size", "dim"),
            ("num_attention_heads", "n_heads"),
            ("num_hidden_layers", "n_layers"),
        ],
    ),
];

/// The fields of a family and their effects, without those of Lessen's own; none for Lessen's own families. A field of
/// the family counts before one of all families.
pub fn config_fields(architecture: Architecture) -> Option<Vec<KnownField>> {
    let own: [&[KnownField]; 2] = match architecture {
        Architecture::Bert(Family::DistilBert, _) => [DISTILBERT, &[]],
        Architecture::Bert(Family::MPNet, _) => [MPNET, &[]],
        Architecture::Bert(..) => [BERT, &[]],
        Architecture::GPT2LMHeadModel => [GPT, GPT2],
        Architecture::GPTJForCausalLM => [GPT, GPTJ],
        Architecture::GPTNeoXForCausalLM => [GPT_NEOX, &[]],
        Architecture::Llama(LlamaFamily::Llama) => [LLAMAS, LLAMA],
        Architecture::Llama(LlamaFamily::Mistral) => [LLAMAS, MISTRAL],
        Architecture::Llama(LlamaFamily::Qwen2) => [LLAMAS, QWEN2],
        Architecture::Llama(LlamaFamily::Olmo) => [LLAMAS, OLMO],
        Architecture::Vit(_) => [VIT, &[]],
        Architecture::LessenEncoder
        | Architecture::LessenLinear
        | Architecture::ImageClassifier
        | Architecture::OnnxClassifier => return None,
    };
    let mut all: Vec<KnownField> = Vec::new();
    for field in own.into_iter().chain([COMMON, GENERATION]).flatten() {
        if !all.iter().any(|(name, _)| *name == field.0) {
            all.push(*field);
        }
    }
    Some(all)
}

/// Whether a field, one of Lessen's own or of the family's, decides what a model of this class computes.
pub(crate) fn is_followed(architecture: Architecture, field: &str) -> bool {
    let is_one = |known: &[KnownField], effect| known.iter().any(|own| (own.0, own.1) == (field, effect));
    match config_fields(architecture) {
        _ if field.starts_with(OWN) => true,
        Some(known) => is_one(&known, Followed),
        None => !is_one(COMMON, WithoutEffect),
    }
}

/// The same fields in the spelling of the family.
pub(super) fn spelled(fields: Fields, architecture: Architecture) -> Fields {
    let own = SPELLINGS
        .iter()
        .find(|(families, _)| families.contains(&architecture.model_type()));
    let Some((_, spellings)) = own else { return fields };
    fields.changed(|map| {
        for (other, name) in *spellings {
            if let Some(value) = map.shift_remove(*other).filter(|value| !value.is_null()) {
                map.insert((*name).to_string(), value);
            }
        }
    })
}

/// Refuses fields that Lessen does not follow.
///
/// # Errors
/// A field that is unknown, unless it is null, false or empty, and one with another value than Lessen computes.
pub(super) fn check(fields: &Fields, architecture: Architecture) -> Result<()> {
    let Some(known) = config_fields(architecture) else {
        return Ok(());
    };
    for (field, value) in fields.all() {
        if is_empty(value) || field.starts_with('_') || field.starts_with(OWN) {
            continue;
        }
        match known.iter().find(|(name, _)| *name == field) {
            Some((_, Refused)) => {
                return Err(fields.error(field, format!("is {value}, and Lessen does not compute such a model")));
            }
            Some((name, _)) if *name == LAYERS => {
                let whole = Value::from("full_attention");
                if value
                    .as_array()
                    .is_none_or(|layers| layers.iter().any(|layer| *layer != whole))
                {
                    return Err(fields.error(field, format!("is {value}, and Lessen has only full_attention")));
                }
            }
            // The class itself refuses other values, with its own words.
            Some(_) => {}
            None if value.is_string() => {}
            None => {
                let what = format!(
                    "is {value}, and Lessen does not know whether it changes what a {} model computes; remove it if it does \
                     not",
                    architecture.model_type()
                );
                return Err(fields.error(field, what));
            }
        }
    }
    for field in ["bos_token_id", "eos_token_id", "pad_token_id"] {
        let Some(value) = fields.get(field) else { continue };
        let ids = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        if !ids.iter().all(Value::is_i64) {
            let what = format!("must be the number of a token, or a list of them, it is {value}");
            return Err(fields.error(field, what));
        }
    }
    if let (Some(count), Some(Value::Object(names))) = (fields.get("num_labels"), fields.get("id2label"))
        && count.as_u64() != Some(names.len() as u64)
    {
        let what = format!(
            "is {count}, but `id2label` has {} classes; remove one of the two",
            names.len()
        );
        return Err(fields.error("num_labels", what));
    }
    if let (Some(older), Some(newer)) = (fields.get("rope_scaling"), fields.get("rope_parameters"))
        && older != newer
    {
        let what = format!("is {older}, and `rope_parameters`, its newer spelling, is {newer}; remove one of the two");
        return Err(fields.error("rope_scaling", what));
    }
    check_config(fields)?;
    match fields.get("is_encoder_decoder") {
        Some(Value::Bool(true)) => fields.must_be("is_encoder_decoder", &Value::Bool(false)),
        _ => Ok(()),
    }
}
