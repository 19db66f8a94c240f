//! The function by which a model embeds texts, as one graph with padding.

use super::layers::Layer;
use super::{Embedder, Pooling};
use lessen_graph::{DType, Tensor, concat};
use lessen_nn::{BatchShape, Cx, Model};
use lessen_train::Session;
use std::sync::PoisonError;

/// The function by which a model embeds texts.
pub(crate) struct EmbeddingFunction {
    model: Model,
    ways: Vec<Pooling>,
    layers: Vec<Layer>,
    normalize: bool,
}

impl Embedder {
    /// Its function, the session with the parameters, and what there is to say of it.
    pub(crate) fn into_function(self) -> (Session, EmbeddingFunction, Vec<String>) {
        let mut notes = self.notes;
        if !self.pooling.include_prompt {
            notes.push("the tokens of a prompt are pooled by the file, and not by lessen embed".to_string());
        }
        let function = EmbeddingFunction {
            model: self.model,
            ways: self.pooling.ways,
            layers: self.layers,
            normalize: self.normalize,
        };
        let loaded = self.loaded.into_inner().unwrap_or_else(PoisonError::into_inner);
        (loaded.session, function, notes)
    }
}

impl EmbeddingFunction {
    /// The model whose states are pooled.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Adds the last states of texts with padding, `last_hidden_state` (`f32[B, T, W]`), and their vectors,
    /// `sentence_embedding`.
    #[track_caller]
    pub fn trace(&self, cx: Cx, batch: BatchShape) -> Vec<(&'static str, Tensor)> {
        let Some(states) = self.model.states(cx, batch) else {
            cx.trace().fail("a model of images has no states of texts");
        };
        let mask = cx.input("mask", DType::Bool, &batch.tokens());
        let pooled: Vec<Tensor> = self.ways.iter().map(|way| pool(cx, *way, states, mask)).collect();
        let pooled = concat(&pooled, -1);
        let vectors = self.layers.iter().fold(pooled, |x, layer| layer.apply(cx, x));
        let vectors = if self.normalize {
            let length = (vectors * vectors).sum_axes(&[1]).sqrt();
            vectors / length.maximum(length.scalar_like(1e-12)).unsqueeze(-1)
        } else {
            vectors
        };
        vec![("last_hidden_state", states), ("sentence_embedding", vectors)]
    }
}

/// The states `[B, T, W]` of real tokens as one vector for each text, `[B, W]`.
#[track_caller]
fn pool(cx: Cx, way: Pooling, states: Tensor, mask: Tensor) -> Tensor {
    let real = mask.cast(states.dtype());
    if way == Pooling::Max {
        let shape = states.shape();
        let seen = mask.unsqueeze(-1).broadcast_to(&shape);
        let hidden = states.scalar_like(f64::from(f32::MIN));
        return seen.select(states, hidden).max_axes(&[1]);
    }
    let places = cx.trace().iota(states.dtype(), &mask.shape(), 1);
    let count = real.sum_axes(&[1]).unsqueeze(-1);
    let least_one = |x: Tensor| x.maximum(x.scalar_like(1.0));
    let weights = match way {
        Pooling::First => first(places, real),
        Pooling::Last => {
            let last = (places * real).max_axes(&[1]).unsqueeze(-1);
            places.eq(last).cast(states.dtype()) * real
        }
        Pooling::MeanSqrtLength => real / least_one(count).sqrt(),
        Pooling::WeightedMean => {
            let weights = (places + 1.0) * real;
            weights / least_one(weights.sum_axes(&[1]).unsqueeze(-1))
        }
        Pooling::Mean | Pooling::Max => real / least_one(count),
    };
    (states * weights.unsqueeze(-1)).sum_axes(&[1])
}

/// 1 at the first real token, whether padding is before or after the text.
#[track_caller]
fn first(places: Tensor, real: Tensor) -> Tensor {
    let far = real.scalar_like(1e9);
    let own = real.gt(real.scalar_like(0.0)).select(places, far);
    let first = own.min_axes(&[1]).unsqueeze(-1);
    places.eq(first).cast(real.dtype()) * real
}
