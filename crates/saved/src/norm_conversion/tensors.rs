//! The tensors of a Llama, by the parameters of a model with LayerNorm that they are made of.

use super::source::Source;

/// The parts of a tensor of a Llama.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Made {
    /// A number everywhere.
    Full(f32),
    /// A parameter, or zeros where it is a bias that the model lacks.
    Of {
        /// Its name.
        parameter: String,
        /// The matrix, and the shift of the norm before it, whose product is added.
        shift: Option<[String; 2]>,
        /// The number of the part of each head: queries, keys or values.
        part: Option<usize>,
    },
}

impl Made {
    fn of(parameter: &str) -> Made {
        Made::Of {
            parameter: parameter.to_string(),
            shift: None,
            part: None,
        }
    }
}

impl Source<'_> {
    /// The parts of the Llama's tensor with this name.
    pub(super) fn made(&self, name: &str) -> Made {
        match self {
            Source::GptNeox(_) => of_gpt_neox(name),
            Source::Olmo(_) if name.ends_with("norm.weight") => Made::Full(1.0),
            Source::Olmo(_) => Made::of(name),
        }
    }

    /// The shift of the last norm, where there is one: the product with the vocabulary has no bias.
    pub(super) fn last_shift(&self) -> Option<&'static str> {
        match self {
            Source::GptNeox(_) => Some("gpt_neox.final_layer_norm.bias"),
            Source::Olmo(_) => None,
        }
    }

    /// The product with the vocabulary, and the table of tokens that it is where both are tied.
    pub(super) fn head(&self) -> [&'static str; 2] {
        match self {
            Source::GptNeox(_) => ["embed_out.weight", "gpt_neox.embed_in.weight"],
            Source::Olmo(_) => ["lm_head.weight", "model.embed_tokens.weight"],
        }
    }
}

/// Shifts of norms become part of the biases after them; the second factor of the gated feed-forward layers is 1.
fn of_gpt_neox(name: &str) -> Made {
    let in_layer = name.strip_prefix("model.layers.").and_then(|rest| {
        let (layer, rest) = rest.split_once('.')?;
        let (module, kind) = rest.rsplit_once('.')?;
        Some((layer, module, kind))
    });
    let Some((layer, module, kind)) = in_layer else {
        return Made::of(match name {
            "model.embed_tokens.weight" => "gpt_neox.embed_in.weight",
            "model.norm.weight" => "gpt_neox.final_layer_norm.weight",
            _ => "embed_out.weight",
        });
    };
    let (module, part, norm) = match module {
        "self_attn.q_proj" => ("attention.query_key_value", Some(0), Some("input_layernorm")),
        "self_attn.k_proj" => ("attention.query_key_value", Some(1), Some("input_layernorm")),
        "self_attn.v_proj" => ("attention.query_key_value", Some(2), Some("input_layernorm")),
        "self_attn.o_proj" => ("attention.dense", None, None),
        "mlp.gate_proj" => ("mlp.dense_h_to_4h", None, Some("post_attention_layernorm")),
        "mlp.up_proj" => return Made::Full(if kind == "bias" { 1.0 } else { 0.0 }),
        "mlp.down_proj" => ("mlp.dense_4h_to_h", None, None),
        norm => (norm, None, None),
    };
    let own = |module: &str, kind: &str| format!("gpt_neox.layers.{layer}.{module}.{kind}");
    Made::Of {
        parameter: own(module, kind),
        shift: norm
            .filter(|_| kind == "bias")
            .map(|norm| [own(module, "weight"), own(norm, "bias")]),
        part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        assert_eq!(
            of_gpt_neox("model.layers.12.self_attn.k_proj.bias"),
            Made::Of {
                parameter: "gpt_neox.layers.12.attention.query_key_value.bias".into(),
                shift: Some([
                    "gpt_neox.layers.12.attention.query_key_value.weight".into(),
                    "gpt_neox.layers.12.input_layernorm.bias".into()
                ]),
                part: Some(1),
            }
        );
        assert_eq!(of_gpt_neox("model.layers.0.mlp.up_proj.bias"), Made::Full(1.0));
        assert_eq!(
            of_gpt_neox("model.layers.0.input_layernorm.weight"),
            Made::of("gpt_neox.layers.0.input_layernorm.weight")
        );
    }
}
