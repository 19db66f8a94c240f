//! GPT-2 that continues a text token by token: keys and values of the past are kept in the states
//! `cache.LAYER.k` and `cache.LAYER.v`, both `f32[B, capacity, n_head, n_embd / n_head]`.
//!
//! [`GPT2LMHeadModel::prefill`] reads the prompt and [`GPT2LMHeadModel::decode`] each token after it; both
//! are graphs over the same states. An entry counts only at and before the position that is being computed,
//! so that whatever lies behind it, such as the padding of a prompt, is overwritten before anyone reads it.

use lessen_graph::{DType, Tensor};

use super::BatchShape;
use super::gpt2::{GPT2LMHeadModel, Gpt2Config, head, hidden_states};
use crate::context::{Context, StateSpec};
use crate::layers::{Attend, attend, positions};

impl GPT2LMHeadModel {
    /// The states that hold the past of `size` texts of at most `capacity` tokens. They need no particular
    /// first values.
    pub fn cache_states(&self, size: usize, capacity: usize) -> Vec<StateSpec> {
        let c = &self.config;
        let shape = vec![size, capacity, c.n_head, c.n_embd / c.n_head];
        let names = (0..c.n_layer).flat_map(|i| [cache_name(i, "k"), cache_name(i, "v")]);
        names
            .map(|name| StateSpec {
                name,
                shape: shape.clone(),
            })
            .collect()
    }

    /// Reads a prompt: the scores `f32[B, vocab_size]` of the token that follows the place `position`.
    ///
    /// Declares `tokens` (`i32[B, T]`), of which those after `position` are padding, and `position` (`i32[]`,
    /// less than `T`), the place of the last token. Fills the cache from its beginning.
    ///
    /// # Panics
    /// If the prompt is longer than the capacity, or the capacity than the model's positions.
    #[track_caller]
    pub fn prefill<'g>(&self, cx: &Context<'g>, prompt: BatchShape, capacity: usize) -> Tensor<'g> {
        let c = &self.config;
        assert!(
            prompt.length <= capacity,
            "a prompt of {} tokens for {capacity} in the cache",
            prompt.length
        );
        assert!(
            capacity <= c.n_positions,
            "a cache of {capacity} tokens for {} positions",
            c.n_positions
        );
        let tokens = cx.input("tokens", DType::I32, &prompt.tokens());
        let position = cx.input("position", DType::I32, &[]);
        let start = cx.trace().full(DType::I32, &[], 0.0);
        let x = cx.scope("transformer", |cx| {
            let places = positions(cx, "wpe", prompt.length, (c.n_positions, c.n_embd), c.weight());
            let how = Attend {
                heads: c.n_head,
                causal: true,
                mask: None,
                dropout: 0.0,
            };
            hidden_states(cx, c, tokens, places, |cx, layer, q, k, v| {
                write(cx, c, &cache_name(layer, "k"), k, start, capacity);
                write(cx, c, &cache_name(layer, "v"), v, start, capacity);
                attend(cx, q, k, v, how)
            })
        });
        // Row b of the flattened states begins at b · T.
        let first = cx.trace().iota(DType::I32, &[prompt.size], 0) * prompt.length as f64;
        head(cx, c, x.flatten_rows().gather(first + position))
    }

    /// Reads one more token: the scores `f32[B, vocab_size]` of the one that follows it.
    ///
    /// Declares `tokens` (`i32[B, 1]`) and `position` (`i32[]`, less than `capacity`), the place of this
    /// token. Enters it into the cache.
    ///
    /// # Panics
    /// If the capacity is larger than the model's positions.
    #[track_caller]
    pub fn decode<'g>(&self, cx: &Context<'g>, size: usize, capacity: usize) -> Tensor<'g> {
        let c = &self.config;
        assert!(
            capacity <= c.n_positions,
            "a cache of {capacity} tokens for {} positions",
            c.n_positions
        );
        let tokens = cx.input("tokens", DType::I32, &[size, 1]);
        let position = cx.input("position", DType::I32, &[]);
        let past = cx.trace().iota(DType::I32, &[size, capacity], 1).le(position);
        let x = cx.scope("transformer", |cx| {
            let table = cx.param("wpe.weight", &[c.n_positions, c.n_embd], c.weight());
            let how = Attend {
                heads: c.n_head,
                causal: false,
                mask: Some(past),
                dropout: 0.0,
            };
            hidden_states(cx, c, tokens, table.gather(position), |cx, layer, q, k, v| {
                let keys = write(cx, c, &cache_name(layer, "k"), k, position, capacity);
                let values = write(cx, c, &cache_name(layer, "v"), v, position, capacity);
                attend(cx, q, keys, values, how)
            })
        });
        head(cx, c, x.reshape(&[size, c.n_embd]))
    }
}

fn cache_name(layer: usize, what: &str) -> String {
    format!("cache.{layer}.{what}")
}

/// Enters new keys or values `[B, T, H, D]` into a cache from a place on, and returns the whole cache.
fn write<'g>(
    cx: &Context<'g>,
    c: &Gpt2Config,
    name: &str,
    new: Tensor<'g>,
    place: Tensor<'g>,
    capacity: usize,
) -> Tensor<'g> {
    let shape = [new.dim(0), capacity, c.n_head, c.n_embd / c.n_head];
    let cache = cx.trace().state(name, DType::F32, &shape);
    let full = cache.update_slice(new, place, 1);
    cx.trace().assign(cache, full);
    full
}
