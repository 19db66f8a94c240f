//! GPT-2 with a key/value cache, for generation token by token. The cache is the states `cache.LAYER.k` and
//! `cache.LAYER.v`, both `f32[B, capacity, n_head, n_embd / n_head]`.
//!
//! [`GPT2LMHeadModel::prefill`] reads the prompt, [`GPT2LMHeadModel::decode`] each token after it; both are graphs over
//! the same states. A query attends to entries at and before its own position only, so later entries, such as the
//! padding of a prompt, are overwritten before they are read.

use lessen_graph::{DType, Tensor};

use super::BatchShape;
use super::gpt2::{GPT2LMHeadModel, Gpt2Config, Reads, head, hidden_states};
use crate::context::{Context, StateSpec};
use crate::layers::attend;

impl GPT2LMHeadModel {
    /// The cache states for `size` texts of at most `capacity` tokens. Their initial values do not matter.
    pub fn cache_states(&self, size: usize, capacity: usize) -> Vec<StateSpec> {
        let c = &self.config;
        (0..c.n_layer)
            .flat_map(|layer| ["k", "v"].map(|what| cache(c, layer, what, size, capacity)))
            .collect()
    }

    /// Reads prompts, `[B, T]`, and returns the logits `f32[B, vocab_size]` of the token after `position`.
    ///
    /// Declares `tokens` (`i32[B, T]`) and `position` (`i32[]`, less than `T`), the position of the last token; tokens
    /// after it are padding. Fills the cache from its start.
    ///
    /// # Panics
    /// If the prompt is longer than the capacity, or the capacity than the model's positions, if it has a table
    /// of them.
    #[track_caller]
    pub fn prefill<'g>(&self, cx: &Context<'g>, [size, length]: [usize; 2], capacity: usize) -> Tensor<'g> {
        let c = &self.config;
        assert!(
            length <= capacity,
            "a prompt of {length} tokens for {capacity} in the cache"
        );
        check_capacity(c, capacity);
        let position = cx.input("position", DType::I32, &[]);
        let start = cx.trace().full(DType::I32, &[], 0.0);
        let x = cx.scope("transformer", |cx| {
            hidden_states(
                cx,
                c,
                Reads::Batch(BatchShape::Padded { size, length }),
                |cx, layer, [q, k, v], how| {
                    write(cx, cache(c, layer, "k", size, capacity), k, start);
                    write(cx, cache(c, layer, "v", size, capacity), v, start);
                    attend(cx, q, k, v, how)
                },
            )
        });
        // Row b of the flattened states begins at b · T.
        let first = cx.trace().iota(DType::I32, &[size], 0) * length as f64;
        head(cx, c, x.flatten_rows().gather(first + position))
    }

    /// Reads one more token and returns the logits `f32[B, vocab_size]` of the token after it.
    ///
    /// Declares `tokens` (`i32[B, 1]`) and `position` (`i32[]`, less than `capacity`), the position of this token.
    /// Writes its keys and values into the cache.
    ///
    /// # Panics
    /// If the capacity is larger than the model's positions, if it has a table
    /// of them.
    #[track_caller]
    pub fn decode<'g>(&self, cx: &Context<'g>, size: usize, capacity: usize) -> Tensor<'g> {
        let c = &self.config;
        check_capacity(c, capacity);
        let position = cx.input("position", DType::I32, &[]);
        let x = cx.scope("transformer", |cx| {
            hidden_states(cx, c, Reads::Token(size, position), |cx, layer, [q, k, v], how| {
                let keys = write(cx, cache(c, layer, "k", size, capacity), k, position);
                let values = write(cx, cache(c, layer, "v", size, capacity), v, position);
                attend(cx, q, keys, values, how)
            })
        });
        head(cx, c, x.reshape(&[size, c.n_embd]))
    }
}

/// Checks that a model with a table of positions has as many as the cache has tokens.
#[track_caller]
fn check_capacity(c: &Gpt2Config, capacity: usize) {
    let positions = c.n_positions;
    assert!(
        capacity <= positions || !c.attention.position.is_limited(),
        "a cache of {capacity} tokens for {positions} positions"
    );
}

/// The cache of one layer's keys (`k`) or values (`v`).
fn cache(c: &Gpt2Config, layer: usize, what: &str, size: usize, capacity: usize) -> StateSpec {
    StateSpec {
        name: format!("cache.{layer}.{what}"),
        dtype: DType::F32,
        shape: vec![size, capacity, c.n_head, c.n_embd / c.n_head],
    }
}

/// Writes new keys or values `[B, T, H, D]` into a cache from `position` on and returns the whole cache.
fn write<'g>(cx: &Context<'g>, cache: StateSpec, new: Tensor<'g>, position: Tensor<'g>) -> Tensor<'g> {
    let old = cache.declare(cx.trace());
    let full = old.update_slice(new, position, 1);
    cx.trace().assign(old, full);
    full
}
