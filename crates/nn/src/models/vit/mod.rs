//! ViT (Dosovitskiy et al. 2021) and DeiT (Touvron et al. 2021): a pre-norm Transformer encoder over the patches of an
//! image and a learned token, from which classes are told. Parameters are named as in transformers' checkpoints.
//!
//! DeiT has a second learned token, for distillation. As in transformers' `DeiTForImageClassification`, classes are
//! told from the first one. A checkpoint of DeiT that was trained without distillation is a [`VitFamily::Vit`], as in
//! transformers.

mod config;

use crate::activation::Activation;
use crate::attention::AttentionConfig;
use crate::loss::Loss;
use crate::models::class::{ModelClass, is_of, settings_in_config};
use crate::norm_kind::NormKind;
use lessen_graph::{Tensor, concat};
use serde_json::{Map, Value};

use super::BatchShape;
use crate::attention::SharedAttention;
use crate::context::Cx;
use crate::layers::{Attend, layer_norm, linear, multi_head, patch_embedding, projection};
use crate::observations::activate;

pub use self::config::{VitConfig, VitFamily, VitSize};

/// A ViT or DeiT with a classification head, or with one class a regression head.
#[derive(Clone, PartialEq, Debug)]
pub struct Vit {
    /// Configuration.
    pub config: VitConfig,
}

impl Vit {}

/// The last state of the first token, `f32[B, hidden_size]`.
#[track_caller]
fn class_state(cx: Cx, c: &VitConfig, batch: BatchShape) -> Tensor {
    let x = cx.scope("embeddings", |cx| embeddings(cx, c, batch));
    // All sequences have the same length, so there is nothing to mask.
    let sequences = BatchShape::Padded {
        size: batch.size(),
        length: c.sequence(),
    };
    let x = cx.scope("encoder", |cx| {
        let shared = SharedAttention::new(cx, c.attention, c.num_attention_heads, sequences);
        (0..c.num_hidden_layers).fold(x, |x, i| cx.scope(&format!("layer.{i}"), |cx| layer(cx, c, x, shared)))
    });
    layer_norm(cx, "layernorm", sequences.first(cx, x), c.layer_norm_eps)
}

/// The learned tokens and the patches with their positions, `f32[B, T, hidden_size]`.
#[track_caller]
fn embeddings(cx: Cx, c: &VitConfig, batch: BatchShape) -> Tensor {
    let images = batch.images(cx);
    if images.shape()[1..] != c.image() {
        let sentence = format!("images {} for a model of {:?}", images.ty(), c.image());
        cx.trace().fail(sentence);
    }
    let learned = |name: &str| {
        let token = cx.param(name, &[1, 1, c.hidden_size], c.weight());
        token.broadcast_to(&[batch.size(), 1, c.hidden_size])
    };
    let mut parts: Vec<_> = c.family.tokens().iter().map(|name| learned(name)).collect();
    parts.push(cx.scope("patch_embeddings", |cx| {
        patch_embedding(cx, "projection", images, c.hidden_size, c.patch_size, c.weight())
    }));
    let x = concat(&parts, 1);
    let x = if c.attention.position.is_limited() {
        x + cx.param("position_embeddings", &[1, c.sequence(), c.hidden_size], c.weight())
    } else {
        x
    };
    cx.dropout(x, c.hidden_dropout_prob)
}

fn layer(cx: Cx, c: &VitConfig, x: Tensor, shared: SharedAttention) -> Tensor {
    let h = layer_norm(cx, "layernorm_before", x, c.layer_norm_eps);
    let y = cx.scope("attention", |cx| {
        let y = cx.scope("attention", |cx| {
            let [q, k, v] = ["query", "key", "value"].map(|name| {
                if c.qkv_bias {
                    linear(cx, name, h, c.hidden_size, c.weight())
                } else {
                    projection(cx, name, h, c.hidden_size, c.weight())
                }
            });
            let how = Attend {
                dropout: c.attention_probs_dropout_prob,
                ..Attend::default()
            };
            multi_head(cx, q, k, v, shared.of_layer(cx, how))
        });
        linear(cx, "output.dense", y, c.hidden_size, c.weight())
    });
    let x = x + cx.dropout(y, c.hidden_dropout_prob);

    let h = layer_norm(cx, "layernorm_after", x, c.layer_norm_eps);
    let inner = cx.scope("intermediate", |cx| {
        let inner = linear(cx, "dense", h, c.intermediate_size, c.weight());
        activate(cx, c.hidden_act, inner, |_| None)
    });
    let y = linear(cx, "output.dense", inner, c.hidden_size, c.weight());
    x + cx.dropout(y, c.hidden_dropout_prob)
}

impl ModelClass for Vit {
    /// Logits of the classes, `f32[B, classes]`. Declares `images` (`f32[B, H, W, C]`).
    ///
    /// # Panics
    /// If the batch has no images, or of another size; see [`Model::check_image`](crate::Model::check_image).
    fn logits(&self, cx: Cx, batch: BatchShape) -> Tensor {
        let c = &self.config;
        let state = cx.scope(c.family.model_type(), |cx| class_state(cx, c, batch));
        c.loss
            .normalize(linear(cx, "classifier", state, c.labels.len(), c.weight()))
    }

    fn config_json(&self) -> Map<String, Value> {
        self.config.to_json()
    }

    fn is_head(&self, name: &str) -> bool {
        is_of("classifier", name)
    }

    fn image(&self) -> Option<[usize; 3]> {
        Some(self.config.image())
    }

    settings_in_config!(classes);
    settings_in_config!(attention | c | c.hidden_size / c.num_attention_heads);
    settings_in_config!(activation hidden_act);
    settings_in_config!(loss and norm);

    fn set_dropout(&mut self, p: f64) {
        self.config.set_dropout(p);
    }
}
