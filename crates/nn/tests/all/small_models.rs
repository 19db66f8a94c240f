//! Small models of every class with every attention, a batch for them, and their losses and gradients.

use crate::support::Arrays;
use lessen_graph::{Array, DType, Trace, Type, evaluate_exactly};
use lessen_nn::models::bert::{Bert, BertConfig, Family, Head};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::models::gpt_neox::{GPTNeoXForCausalLM, GptNeoxConfig};
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::models::gptj::{GPTJForCausalLM, GptjConfig};
use lessen_nn::{AttentionConfig, BatchShape, Cx, FireConfig, Model, Position, Rotary, initialize, numbered_labels};

pub const WEIGHTINGS: [&str; 6] = [
    "softmax",
    "norm_softmax",
    "norm_softmax:gamma=inf,learned",
    "logit_norm:tau=0.5",
    "relu:keys",
    "sigmoid:2",
];

pub const BATCH: BatchShape = BatchShape::Padded { size: 2, length: 5 };

pub fn attention(weighting: &str, position: Position, fire_shared: bool) -> AttentionConfig {
    AttentionConfig {
        weighting: weighting.parse().unwrap(),
        position,
        fire: FireConfig {
            width: 3,
            shared: fire_shared,
            ..FireConfig::DEFAULT
        },
        ..AttentionConfig::DEFAULT
    }
}

/// FIRE with two hidden layers and a fixed length, below some of the positions.
pub fn deep_fire(weighting: &str) -> AttentionConfig {
    let own = attention(weighting, Position::Fire, true);
    AttentionConfig {
        fire: FireConfig {
            layers: 2,
            length: 1.5,
            length_learned: false,
            ..own.fire
        },
        ..own
    }
}

/// A small model of every class with this attention.
pub fn models(attention: AttentionConfig) -> Vec<Model> {
    let labels = numbered_labels(3);
    let encoder = EncoderConfig {
        vocab_size: 9,
        width: 8,
        layers: 2,
        heads: 4,
        kv_heads: Some(2),
        ffn: 6,
        max_length: 5,
        initializer_range: 0.5,
        attention,
        labels: labels.clone(),
        ..EncoderConfig::default()
    };
    let bert = BertConfig {
        vocab_size: 9,
        hidden_size: 8,
        num_hidden_layers: 2,
        num_attention_heads: 2,
        intermediate_size: 6,
        max_position_embeddings: 5,
        initializer_range: 0.5,
        attention,
        labels,
        ..BertConfig::default()
    };
    let gpt2 = Gpt2Config {
        vocab_size: 9,
        n_positions: 5,
        n_embd: 8,
        n_layer: 2,
        n_head: 2,
        n_inner: Some(6),
        initializer_range: 0.5,
        attention,
        ..Gpt2Config::default()
    };
    vec![
        LessenEncoder { config: encoder }.into(),
        Bert {
            config: bert.clone(),
            head: Head::SequenceClassification,
        }
        .into(),
        Bert {
            config: bert,
            head: Head::MaskedLM,
        }
        .into(),
        GPT2LMHeadModel { config: gpt2 }.into(),
    ]
}

/// [`models`], a model with biases of scores by distance, and models whose positions are rotary by default, here in
/// half of each head.
pub fn all_models(attention: AttentionConfig) -> Vec<Model> {
    let half = |interleaved| AttentionConfig {
        rotary: Rotary {
            width: Some(2),
            interleaved,
            ..attention.rotary
        },
        ..attention
    };
    let gpt_neox = GptNeoxConfig {
        vocab_size: 9,
        hidden_size: 8,
        intermediate_size: 6,
        num_hidden_layers: 2,
        num_attention_heads: 2,
        max_position_embeddings: 5,
        initializer_range: 0.5,
        attention: half(false),
        ..GptNeoxConfig::default()
    };
    let gptj = GptjConfig {
        vocab_size: 9,
        n_positions: 5,
        n_embd: 8,
        n_layer: 2,
        n_head: 2,
        n_inner: Some(6),
        initializer_range: 0.5,
        attention: half(true),
        ..GptjConfig::default()
    };
    let mpnet = BertConfig {
        vocab_size: 9,
        hidden_size: 8,
        num_hidden_layers: 2,
        num_attention_heads: 2,
        intermediate_size: 6,
        max_position_embeddings: 7,
        initializer_range: 0.5,
        attention,
        labels: numbered_labels(3),
        ..BertConfig::of(Family::MPNet)
    };
    let head = Head::SequenceClassification;
    let mut all = models(attention);
    all.push(Bert { config: mpnet, head }.into());
    all.push(GPTNeoXForCausalLM { config: gpt_neox }.into());
    all.push(GPTJForCausalLM { config: gptj }.into());
    all
}

/// Two texts of five and three tokens with labels of both kinds, and the model's first parameters.
pub fn given(model: &Model) -> Arrays {
    let mut given = Arrays::new();
    let texts = [3, 1, 4, 1, 5, 2, 6, 5, 0, 0];
    given.insert("tokens".into(), Array::i32(&[2, 5], &texts));
    given.insert("types".into(), Array::i32(&[2, 5], &[0, 0, 0, 1, 1, 0, 0, 0, 0, 0]));
    let mask = vec![1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0];
    given.insert("mask".into(), Array::new(Type::new(DType::Bool, &[2, 5]), mask));
    let labels = if model.labels().is_empty() {
        Array::i32(&[2, 5], &[1, 4, 1, 5, -100, 6, 5, -100, -100, -100])
    } else {
        Array::i32(&[2], &[2, 0])
    };
    given.insert("labels".into(), labels);
    for (name, weight) in initialize(&model.parameters(), 3) {
        let data = weight.data.iter().map(|&value| value.into()).collect();
        given.insert(name, Array::f32(&weight.shape, data));
    }
    given
}

/// The loss, and its derivative in each parameter under the parameter's name.
pub fn loss_and_gradients(model: &Model, given: &Arrays) -> Arrays {
    loss_and_gradients_of(model, BATCH, given)
}

/// [`loss_and_gradients`] of a batch of another layout.
pub fn loss_and_gradients_of(model: &Model, batch: BatchShape, given: &Arrays) -> Arrays {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let loss = model.forward(cx, batch).loss;
    trace.output("loss", loss);
    let params = cx.params();
    let tensors: Vec<_> = params.iter().map(|param| trace.tensor(param.value)).collect();
    for (param, gradient) in params.iter().zip(loss.grad(&tensors)) {
        trace.output(&param.name, gradient);
    }
    evaluate_exactly(&trace.finish(), given).unwrap()
}
