//! Models of every family are the same in a file, at sizes at which they were not traced.

use super::function::Function;
use super::{OnnxOptions, write};
use lessen_compile::Precision;
use lessen_cpu::CpuBackend;
use lessen_nn::models::bert::{Bert, BertConfig, Family, Head};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::models::gpt_neox::{GPTNeoXForCausalLM, GptNeoxConfig};
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::models::gptj::{GPTJForCausalLM, GptjConfig};
use lessen_nn::models::linear::{LessenLinear, LinearConfig};
use lessen_nn::models::llama::{LlamaConfig, LlamaForCausalLM};
use lessen_nn::models::vision::{ImageClassifier, ImageClassifierConfig, Network};
use lessen_nn::models::vit::{Vit, VitConfig, VitFamily};
use lessen_nn::{AttentionConfig, Model, Position};
use lessen_task::device::NewBackend;
use lessen_train::Session;

fn backend() -> NewBackend {
    NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)))
}

/// Writes a model with drawn parameters and returns the names of the file's inputs and outputs.
fn exported(model: impl Into<Model>, opset: i64) -> (Vec<String>, Vec<String>) {
    let model = model.into();
    let mut session = Session::for_inference(backend().open().unwrap(), model.parameters(), Precision::F32).unwrap();
    session.draw(|_| true, 3).unwrap();
    let (name, dir) = (format!("{:?}", model.architecture()), tempfile::tempdir().unwrap());
    let options = OnnxOptions {
        opset,
        ..OnnxOptions::default()
    };
    let function = Function::of_model(model, session);
    let file = write(function, &dir.path().join("model.onnx"), &options, &backend());
    let file = file.unwrap_or_else(|error| panic!("{name}: {error}"));
    (file.inputs, file.outputs)
}

fn bert(family: Family) -> BertConfig {
    BertConfig {
        vocab_size: 60,
        hidden_size: 16,
        num_hidden_layers: 2,
        num_attention_heads: 2,
        intermediate_size: 24,
        max_position_embeddings: 40,
        ..BertConfig::of(family)
    }
}

#[test]
fn encoders_with_all_heads() {
    for family in Family::ALL {
        let config = bert(family);
        let (inputs, outputs) = exported(
            Bert {
                config,
                head: Head::SequenceClassification,
            },
            17,
        );
        let types = usize::from(family == Family::Bert);
        assert_eq!(inputs, ["input_ids", "attention_mask", "token_type_ids"][..2 + types]);
        assert_eq!(outputs, ["logits"]);
    }
    for (head, expected) in [
        (Head::TokenClassification, &["logits"][..]),
        (Head::QuestionAnswering, &["start_logits", "end_logits"]),
        (Head::MaskedLM, &["logits"]),
    ] {
        let config = bert(Family::Bert);
        assert_eq!(exported(Bert { config, head }, 20).1, expected);
    }
}

#[test]
fn language_models() {
    let sizes = |attention: AttentionConfig| Gpt2Config {
        vocab_size: 50,
        n_positions: 40,
        n_embd: 16,
        n_layer: 2,
        n_head: 2,
        attention,
        ..Gpt2Config::default()
    };
    for position in Position::ALL {
        let config = sizes(AttentionConfig {
            position,
            ..AttentionConfig::DEFAULT
        });
        let (inputs, outputs) = exported(GPT2LMHeadModel { config }, 17);
        assert_eq!(
            (inputs, outputs),
            (vec!["input_ids".to_string()], vec!["logits".to_string()])
        );
    }
    let llama = LlamaConfig {
        vocab_size: 50,
        hidden_size: 16,
        intermediate_size: 24,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 4,
        max_position_embeddings: 40,
        ..LlamaConfig::default()
    };
    for opset in [17, 18, 23] {
        exported(LlamaForCausalLM { config: llama.clone() }, opset);
    }
    let config = GptNeoxConfig {
        vocab_size: 50,
        hidden_size: 16,
        intermediate_size: 24,
        num_hidden_layers: 1,
        num_attention_heads: 2,
        max_position_embeddings: 40,
        ..GptNeoxConfig::default()
    };
    exported(GPTNeoXForCausalLM { config }, 17);
    let config = GptjConfig {
        vocab_size: 50,
        n_positions: 40,
        n_embd: 16,
        n_layer: 1,
        n_head: 2,
        ..GptjConfig::default()
    };
    exported(GPTJForCausalLM { config }, 17);
}

#[test]
fn attention_by_other_weights_and_two_streams() {
    for (weighting, reversible) in [
        ("norm_softmax", false),
        ("logit_norm:tau=0.5,learned", false),
        ("relu:keys", true),
        ("sigmoid:keys", false),
    ] {
        let config = EncoderConfig {
            vocab_size: 40,
            width: 16,
            layers: 1,
            heads: 4,
            ffn: 24,
            kv_heads: Some(2),
            reversible,
            attention: AttentionConfig {
                weighting: weighting.parse().unwrap(),
                ..AttentionConfig::DEFAULT
            },
            ..EncoderConfig::default()
        };
        exported(LessenEncoder { config }, 17);
    }
}

#[test]
fn tokens_and_pairs_of_tokens() {
    for (buckets, shared) in [(0, false), (32, false), (32, true)] {
        let linear = LinearConfig {
            vocab_size: 40,
            buckets,
            shared,
            ..LinearConfig::default()
        };
        let encoder = EncoderConfig {
            vocab_size: 40,
            width: 16,
            layers: 1,
            heads: 4,
            ffn: 24,
            ngrams: Some(buckets),
            shared,
            ..EncoderConfig::default()
        };
        for model in [
            Model::from(LessenLinear { config: linear }),
            LessenEncoder { config: encoder }.into(),
        ] {
            let (inputs, outputs) = exported(model, 17);
            let names = ["input_ids", "attention_mask", "token_type_ids"];
            assert_eq!(inputs, names[..2 + usize::from(shared)]);
            assert_eq!(outputs, ["logits"]);
        }
    }
}

#[test]
fn models_of_images() {
    for family in [VitFamily::Vit, VitFamily::Deit] {
        let config = VitConfig {
            family,
            hidden_size: 16,
            num_hidden_layers: 1,
            num_attention_heads: 2,
            intermediate_size: 24,
            image_size: [16, 24],
            patch_size: [8, 8],
            ..VitConfig::default()
        };
        let (inputs, outputs) = exported(Vit { config }, 17);
        assert_eq!(
            (inputs, outputs),
            (vec!["pixel_values".to_string()], vec!["logits".to_string()])
        );
    }
    for name in ["convnet-3", "resnet20", "mlp"] {
        let network = Network::of(name).unwrap();
        let config = ImageClassifierConfig::of(network, [16, 16, 3]);
        exported(ImageClassifier { config }, 17);
    }
}
