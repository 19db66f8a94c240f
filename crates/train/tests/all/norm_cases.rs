//! Cases for the tests of norms: small models with LayerNorm, their batches, and settings of the training.

use crate::support::device;
use lessen_base::SplitMix64;
use lessen_device::Host;
use lessen_nn::models::bert::{Bert, BertConfig, Family, Head};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::models::llama::{LlamaConfig, LlamaFamily, LlamaForCausalLM};
use lessen_nn::models::vit::{Vit, VitConfig};
use lessen_nn::{AdamSettings, BatchShape, Model, NormKind, OptimizerConfig, numbered_labels};
use lessen_train::{HostArray, Trainer, TrainerOptions};

pub const SIZE: usize = 3;
pub const LENGTH: usize = 5;
pub const WORDS: usize = 13;
pub const WIDTH: usize = 8;
pub const PIXELS: usize = 4;
pub const CLASSES: usize = 3;
pub const STEPS: u64 = 20;

pub fn gpt2(dropout: f64) -> Model {
    let mut config = Gpt2Config {
        vocab_size: WORDS,
        n_positions: LENGTH,
        n_embd: WIDTH,
        n_layer: 2,
        n_head: 2,
        initializer_range: 0.3,
        ..Gpt2Config::default()
    };
    config.set_dropout(dropout);
    GPT2LMHeadModel { config }.into()
}

pub fn olmo() -> Model {
    let config = LlamaConfig {
        family: LlamaFamily::Olmo,
        rms_norm_eps: LlamaFamily::OLMO_EPS,
        attention_bias: true,
        // Norms without a scale follow the stream more closely, so that rounding grows faster from step to step.
        initializer_range: 0.2,
        ..llama()
    };
    LlamaForCausalLM { config }.into()
}

pub fn llama() -> LlamaConfig {
    LlamaConfig {
        vocab_size: WORDS,
        hidden_size: WIDTH,
        intermediate_size: WIDTH,
        num_hidden_layers: 3,
        num_attention_heads: 2,
        num_key_value_heads: 2,
        head_dim: WIDTH / 2,
        max_position_embeddings: LENGTH,
        initializer_range: 0.3,
        ..LlamaConfig::default()
    }
}

pub fn encoder() -> Model {
    let config = EncoderConfig {
        vocab_size: WORDS,
        width: WIDTH,
        layers: 2,
        heads: 2,
        ffn: 2 * WIDTH,
        max_length: LENGTH,
        dropout: 0.0,
        initializer_range: 0.3,
        labels: numbered_labels(CLASSES),
        ..EncoderConfig::default()
    };
    LessenEncoder { config }.into()
}

pub fn vit() -> Model {
    let config = VitConfig {
        hidden_size: WIDTH,
        num_hidden_layers: 2,
        num_attention_heads: 2,
        intermediate_size: 2 * WIDTH,
        hidden_dropout_prob: 0.0,
        attention_probs_dropout_prob: 0.0,
        initializer_range: 0.3,
        image_size: [PIXELS; 2],
        patch_size: [2; 2],
        labels: numbered_labels(CLASSES),
        ..VitConfig::default()
    };
    Vit { config }.into()
}

pub fn bert() -> Model {
    let mut config = BertConfig {
        vocab_size: WORDS,
        hidden_size: WIDTH,
        num_hidden_layers: 2,
        num_attention_heads: 2,
        intermediate_size: 2 * WIDTH,
        max_position_embeddings: LENGTH,
        labels: numbered_labels(CLASSES),
        ..BertConfig::of(Family::Bert)
    };
    config.set_dropout(0.0);
    let head = Head::SequenceClassification;
    Bert { config, head }.into()
}

pub fn shape(model: &Model) -> BatchShape {
    match model.image() {
        Some(image) => BatchShape::Images {
            size: SIZE,
            image,
            mixed: false,
        },
        None => BatchShape::Padded {
            size: SIZE,
            length: LENGTH,
        },
    }
}

/// The arrays of a batch; each model reads some of the arrays.
pub fn batch(model: &Model, number: u64) -> Vec<(&'static str, HostArray)> {
    let mut random = SplitMix64::keyed(5, number);
    let mut words = |count: usize, most: usize| (0..count).map(|_| random.below(most as u64) as i32).collect();
    let tokens = HostArray::I32(words(SIZE * LENGTH, WORDS));
    let labels = HostArray::I32(match model.decoder() {
        Some(_) => words(SIZE * LENGTH, WORDS),
        None => words(SIZE, CLASSES),
    });
    let types = HostArray::I32(vec![0; SIZE * LENGTH]);
    let mask = HostArray::Bool((0..SIZE * LENGTH).map(|i| u8::from(i % LENGTH < 3)).collect());
    let pixels = SIZE * PIXELS * PIXELS * 3;
    let images = HostArray::F32((0..pixels).map(|_| random.unit() as f32).collect());
    vec![
        ("tokens", tokens),
        ("labels", labels),
        ("types", types),
        ("mask", mask),
        ("images", images),
    ]
}

pub fn hosts<'a>(batch: &'a [(&'static str, HostArray)]) -> Vec<(&'a str, Host<'a>)> {
    batch.iter().map(|(name, array)| (*name, array.host())).collect()
}

/// Gradients that are zero but for rounding, such as the gradients of keys' biases, move nothing with this `eps`.
pub fn options(norm: NormKind) -> TrainerOptions {
    TrainerOptions {
        optimizer: OptimizerConfig::AdamW(AdamSettings {
            beta1: 0.9,
            beta2: 0.99,
            eps: 1e-4,
            weight_decay: 0.1,
        }),
        clip_norm: Some(0.5),
        norm,
        ..TrainerOptions::new(0.01)
    }
}

pub fn trainer(model: &Model, options: TrainerOptions, threads: usize) -> Trainer {
    Trainer::new(device(threads), options, |cx| model.forward(cx, shape(model)).loss).unwrap()
}
