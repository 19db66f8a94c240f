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

/// The fields of all families.
const COMMON: &[KnownField] = &[
    ("architectures", Followed),
    ("model_type", Followed),
    ("id2label", Followed),
    ("label2id", Followed),
    ("num_labels", Followed),
    ("problem_type", Followed),
    ("initializer_range", Followed),
    ("eos_token_id", Followed),
    ("is_encoder_decoder", Only("false")),
    ("quantization_config", Followed),
    ("pruned_heads", Refused),
    ("tie_encoder_decoder", Refused),
    ("cross_attention_hidden_size", Refused),
    ("bos_token_id", WithoutEffect),
    ("sep_token_id", WithoutEffect),
    ("pad_token_id", WithoutEffect),
    ("decoder_start_token_id", WithoutEffect),
    ("dtype", WithoutEffect),
    ("torch_dtype", WithoutEffect),
    ("transformers_version", WithoutEffect),
    ("use_cache", WithoutEffect),
    ("chunk_size_feed_forward", WithoutEffect),
    ("output_attentions", WithoutEffect),
    ("output_hidden_states", WithoutEffect),
    ("output_past", WithoutEffect),
    ("return_dict", WithoutEffect),
    ("attn_implementation", WithoutEffect),
    ("auto_map", WithoutEffect),
    ("finetuning_task", WithoutEffect),
    ("task_specific_params", WithoutEffect),
    ("gradient_checkpointing", WithoutEffect),
    ("torchscript", WithoutEffect),
    ("tokenizer_class", WithoutEffect),
    ("prefix", WithoutEffect),
    ("use_bfloat16", WithoutEffect),
    ("tf_legacy_loss", WithoutEffect),
    ("tie_weights_", WithoutEffect),
    ("unsloth_fixed", WithoutEffect),
    ("unsloth_version", WithoutEffect),
    ("sentence_transformers", WithoutEffect),
    ("transformers.js_config", WithoutEffect),
];

/// The fields of generation that older versions of transformers write, too; they say nothing of the logits.
const GENERATION: &[KnownField] = &[
    ("bad_words_ids", WithoutEffect),
    ("begin_suppress_tokens", WithoutEffect),
    ("diversity_penalty", WithoutEffect),
    ("do_sample", WithoutEffect),
    ("early_stopping", WithoutEffect),
    ("encoder_no_repeat_ngram_size", WithoutEffect),
    ("exponential_decay_length_penalty", WithoutEffect),
    ("forced_bos_token_id", WithoutEffect),
    ("forced_eos_token_id", WithoutEffect),
    ("length_penalty", WithoutEffect),
    ("max_length", WithoutEffect),
    ("min_length", WithoutEffect),
    ("no_repeat_ngram_size", WithoutEffect),
    ("num_beam_groups", WithoutEffect),
    ("num_beams", WithoutEffect),
    ("num_return_sequences", WithoutEffect),
    ("output_scores", WithoutEffect),
    ("remove_invalid_values", WithoutEffect),
    ("repetition_penalty", WithoutEffect),
    ("return_dict_in_generate", WithoutEffect),
    ("suppress_tokens", WithoutEffect),
    ("temperature", WithoutEffect),
    ("top_k", WithoutEffect),
    ("top_p", WithoutEffect),
    ("typical_p", WithoutEffect),
];

/// The fields of BERT and RoBERTa.
const BERT: &[KnownField] = &[
    ("vocab_size", Followed),
    ("hidden_size", Followed),
    ("num_hidden_layers", Followed),
    ("num_attention_heads", Followed),
    ("intermediate_size", Followed),
    ("hidden_act", Followed),
    ("hidden_dropout_prob", Followed),
    ("attention_probs_dropout_prob", Followed),
    ("classifier_dropout", Followed),
    ("max_position_embeddings", Followed),
    ("type_vocab_size", Followed),
    ("layer_norm_eps", Followed),
    ("pad_token_id", Followed),
    ("tie_word_embeddings", Followed),
    ("position_embedding_type", Only("\"absolute\"")),
    ("is_decoder", Only("false")),
    ("add_cross_attention", Only("false")),
    ("directionality", WithoutEffect),
    ("pooler_fc_size", WithoutEffect),
    ("pooler_num_attention_heads", WithoutEffect),
    ("pooler_num_fc_layers", WithoutEffect),
    ("pooler_size_per_head", WithoutEffect),
    ("pooler_type", WithoutEffect),
];

/// The fields of DistilBERT.
const DISTILBERT: &[KnownField] = &[
    ("vocab_size", Followed),
    ("dim", Followed),
    ("hidden_size", Followed),
    ("n_layers", Followed),
    ("num_hidden_layers", Followed),
    ("n_heads", Followed),
    ("num_attention_heads", Followed),
    ("hidden_dim", Followed),
    ("activation", Followed),
    ("dropout", Followed),
    ("attention_dropout", Followed),
    ("qa_dropout", Followed),
    ("seq_classif_dropout", Followed),
    ("max_position_embeddings", Followed),
    ("pad_token_id", Followed),
    ("tie_word_embeddings", Followed),
    ("sinusoidal_pos_embds", Only("false")),
    ("is_decoder", WithoutEffect),
];

/// The fields of MPNet.
const MPNET: &[KnownField] = &[
    ("vocab_size", Followed),
    ("hidden_size", Followed),
    ("num_hidden_layers", Followed),
    ("num_attention_heads", Followed),
    ("intermediate_size", Followed),
    ("hidden_act", Followed),
    ("hidden_dropout_prob", Followed),
    ("attention_probs_dropout_prob", Followed),
    ("max_position_embeddings", Followed),
    ("layer_norm_eps", Followed),
    ("relative_attention_num_buckets", Followed),
    ("tie_word_embeddings", Followed),
];

/// The fields of GPT-2 and GPT-J.
const GPT: &[KnownField] = &[
    ("vocab_size", Followed),
    ("n_positions", Followed),
    ("max_position_embeddings", Followed),
    ("n_embd", Followed),
    ("hidden_size", Followed),
    ("n_layer", Followed),
    ("num_hidden_layers", Followed),
    ("n_head", Followed),
    ("num_attention_heads", Followed),
    ("n_inner", Followed),
    ("activation_function", Followed),
    ("resid_pdrop", Followed),
    ("embd_pdrop", Followed),
    ("attn_pdrop", Followed),
    ("layer_norm_epsilon", Followed),
    ("tie_word_embeddings", Followed),
    ("n_ctx", WithoutEffect),
    ("rotary", WithoutEffect),
    ("summary_type", WithoutEffect),
    ("summary_use_proj", WithoutEffect),
    ("summary_activation", WithoutEffect),
    ("summary_proj_to_labels", WithoutEffect),
    ("summary_first_dropout", WithoutEffect),
];

/// The fields of GPT-2 alone.
const GPT2: &[KnownField] = &[
    ("scale_attn_weights", Only("true")),
    ("scale_attn_by_inverse_layer_idx", Only("false")),
    ("add_cross_attention", Only("false")),
    ("reorder_and_upcast_attn", WithoutEffect),
];

/// The fields of GPT-J alone.
const GPTJ: &[KnownField] = &[("rotary_dim", Followed), ("scale_attn_weights", WithoutEffect)];

/// The fields of GPT-NeoX.
const GPT_NEOX: &[KnownField] = &[
    ("vocab_size", Followed),
    ("hidden_size", Followed),
    ("num_hidden_layers", Followed),
    ("num_attention_heads", Followed),
    ("intermediate_size", Followed),
    ("hidden_act", Followed),
    ("attention_dropout", Followed),
    ("hidden_dropout", Followed),
    ("max_position_embeddings", Followed),
    ("layer_norm_eps", Followed),
    ("tie_word_embeddings", Followed),
    ("use_parallel_residual", Followed),
    ("attention_bias", Followed),
    ("rotary_pct", Followed),
    ("rotary_emb_base", Followed),
    ("rope_theta", Followed),
    ("rope_scaling", Followed),
    ("rope_parameters", Followed),
    ("partial_rotary_factor", Followed),
    ("classifier_dropout", WithoutEffect),
    ("is_decoder", WithoutEffect),
];

/// The fields of Llama, Mistral, Qwen2 and OLMo.
const LLAMAS: &[KnownField] = &[
    ("vocab_size", Followed),
    ("hidden_size", Followed),
    ("intermediate_size", Followed),
    ("num_hidden_layers", Followed),
    ("num_attention_heads", Followed),
    ("num_key_value_heads", Followed),
    ("head_dim", Followed),
    ("hidden_act", Followed),
    ("max_position_embeddings", Followed),
    ("tie_word_embeddings", Followed),
    ("attention_dropout", Followed),
    ("rope_theta", Followed),
    ("rope_scaling", Followed),
    ("rope_parameters", Followed),
];

/// The fields of Llama alone.
const LLAMA: &[KnownField] = &[
    ("rms_norm_eps", Followed),
    ("attention_bias", Followed),
    ("mlp_bias", Followed),
    ("pretraining_tp", Only("1")),
];

/// The fields of Mistral alone.
const MISTRAL: &[KnownField] = &[
    ("rms_norm_eps", Followed),
    ("sliding_window", Only("null")),
    ("attention_bias", WithoutEffect),
    ("mlp_bias", WithoutEffect),
    ("pretraining_tp", WithoutEffect),
];

/// The fields of Qwen2 alone.
const QWEN2: &[KnownField] = &[
    ("rms_norm_eps", Followed),
    ("use_sliding_window", Only("false")),
    (LAYERS, Only("[\"full_attention\", …]")),
    ("sliding_window", WithoutEffect),
    ("max_window_layers", WithoutEffect),
    ("attention_bias", WithoutEffect),
    ("mlp_bias", WithoutEffect),
    ("pretraining_tp", WithoutEffect),
];

/// The fields of OLMo alone.
const OLMO: &[KnownField] = &[
    ("attention_bias", Followed),
    ("clip_qkv", Only("null")),
    ("rms_norm_eps", WithoutEffect),
    ("mlp_bias", WithoutEffect),
    ("pretraining_tp", WithoutEffect),
];

/// The fields of ViT and DeiT.
const VIT: &[KnownField] = &[
    ("hidden_size", Followed),
    ("num_hidden_layers", Followed),
    ("num_attention_heads", Followed),
    ("intermediate_size", Followed),
    ("hidden_act", Followed),
    ("hidden_dropout_prob", Followed),
    ("attention_probs_dropout_prob", Followed),
    ("layer_norm_eps", Followed),
    ("image_size", Followed),
    ("patch_size", Followed),
    ("num_channels", Followed),
    ("qkv_bias", Followed),
    ("encoder_stride", WithoutEffect),
    ("pooler_act", WithoutEffect),
    ("pooler_output_size", WithoutEffect),
];

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
