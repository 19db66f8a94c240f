//! A decoder with a key/value cache, for generation token by token. The cache is the states `cache.LAYER.k` and
//! `cache.LAYER.v`, both `f32[B, capacity, G, D]` for `G` heads of keys and values of width `D`.
//!
//! [`Decoder::prefill`] reads prompts, [`Decoder::decode`] one more token of each text; both are graphs over the same
//! states. A query attends to entries at and before its own position only, so later entries, such as the padding of a
//! prompt, are overwritten before they are read. Each text of a batch has a position of its own.

use lessen_graph::{DType, Tensor};

use super::BatchShape;
use super::decoder::{Decoder, Reads, Sizes};
use crate::context::Cx;
use crate::layers::attend;
use crate::params::StateSpec;

impl Decoder {
    /// The cache states for `size` texts of at most `capacity` tokens. Their initial values do not matter.
    pub fn cache_states(&self, size: usize, capacity: usize) -> Vec<StateSpec> {
        (0..self.sizes.layers)
            .flat_map(|layer| ["k", "v"].map(|what| self.cache(layer, what, size, capacity)))
            .collect()
    }

    /// Reads prompts, `[B, T]`, and returns the logits `f32[B, vocabulary]` of the token after the last one of each.
    ///
    /// Declares `tokens` (`i32[B, T]`) and `position` (`i32[B]`, less than `T`), the positions of the last tokens;
    /// tokens after them are padding. Fills the cache from its start.
    ///
    /// # Panics
    /// If the prompts are longer than the capacity, or the capacity than the model's positions, if it has a table
    /// of them.
    #[track_caller]
    pub fn prefill(&self, cx: Cx, [size, length]: [usize; 2], capacity: usize) -> Tensor {
        if length > capacity {
            cx.trace()
                .fail(format!("a prompt of {length} tokens for {capacity} in the cache"));
        }
        self.check_capacity(cx, capacity);
        let position = cx.input("position", DType::I32, &[size]);
        let start = cx.trace().full(DType::I32, &[], 0.0);
        let reads = Reads::Batch(BatchShape::Padded { size, length });
        let x = self.hidden_states(cx, reads, |cx, layer, [q, k, v], how| {
            write(cx, self.cache(layer, "k", size, capacity), None, k, start);
            write(cx, self.cache(layer, "v", size, capacity), None, v, start);
            attend(cx, q, k, v, how)
        });
        // Row b of the flattened states begins at b · T.
        let first = cx.trace().iota(DType::I32, &[size], 0) * length as f64;
        self.head(cx, x.flatten_rows().gather(first + position))
    }

    /// Reads the prompt of one text of a cache for `size` texts, and returns the logits `f32[1, vocabulary]` of the
    /// token after it. The other texts of the cache stay as they are.
    ///
    /// Declares `tokens` (`i32[1, T]`), `position` (`i32[1]`, less than `T`), the position of the last token, after
    /// which tokens are padding, and `start` (`i32[1]`), `capacity` times the number of the text in the cache.
    ///
    /// # Panics
    /// As [`Decoder::prefill`].
    #[track_caller]
    pub fn prefill_one(&self, cx: Cx, length: usize, [size, capacity]: [usize; 2]) -> Tensor {
        if length > capacity {
            cx.trace()
                .fail(format!("a prompt of {length} tokens for {capacity} in the cache"));
        }
        self.check_capacity(cx, capacity);
        let position = cx.input("position", DType::I32, &[1]);
        let start = cx.input("start", DType::I32, &[1]);
        let reads = Reads::Batch(BatchShape::Padded { size: 1, length });
        let Sizes {
            kv_heads, head_width, ..
        } = self.sizes;
        // The texts of a cache are one after another.
        let flat = [1, size.saturating_mul(capacity), kv_heads, head_width];
        let x = self.hidden_states(cx, reads, |cx, layer, [q, k, v], how| {
            for (what, new) in [("k", k), ("v", v)] {
                let old = self.cache(layer, what, size, capacity).declare(cx.trace());
                let full = old.reshape(&flat).update_slice(new, start, 1);
                cx.trace()
                    .assign(old, full.reshape(&[size, capacity, kv_heads, head_width]));
            }
            attend(cx, q, k, v, how)
        });
        self.head(cx, x.flatten_rows().gather(position))
    }

    /// Reads one more token of each text and returns the logits `f32[B, vocabulary]` of the token after it.
    ///
    /// Declares `tokens` (`i32[B, 1]`) and their positions, `position` (`i32[B]`, less than `capacity`). Writes their
    /// keys and values into the cache.
    ///
    /// # Panics
    /// If the model has a table of positions and the capacity is larger than this table.
    #[track_caller]
    pub fn decode(&self, cx: Cx, size: usize, capacity: usize) -> Tensor {
        self.decode_after(cx, [size, capacity], None)
    }

    /// [`Decoder::decode`] of texts that each continue the text in another row of the cache, which it copies first.
    ///
    /// Declares `rows` (`i32[B]`, less than `B`) in addition, the row that each text continues.
    ///
    /// # Panics
    /// As [`Decoder::decode`].
    #[track_caller]
    pub fn decode_reordered(&self, cx: Cx, size: usize, capacity: usize) -> Tensor {
        let rows = cx.input("rows", DType::I32, &[size]);
        self.decode_after(cx, [size, capacity], Some(rows))
    }

    #[track_caller]
    fn decode_after(&self, cx: Cx, [size, capacity]: [usize; 2], rows: Option<Tensor>) -> Tensor {
        self.check_capacity(cx, capacity);
        let position = cx.input("position", DType::I32, &[size]);
        let x = self.hidden_states(cx, Reads::Token(size, position), |cx, layer, [q, k, v], how| {
            let keys = write(cx, self.cache(layer, "k", size, capacity), rows, k, position);
            let values = write(cx, self.cache(layer, "v", size, capacity), rows, v, position);
            attend(cx, q, keys, values, how)
        });
        self.head(cx, x.reshape(&[size, self.sizes.width]))
    }

    /// Checks that a model with a table of positions has as many as the cache has tokens.
    #[track_caller]
    fn check_capacity(&self, cx: Cx, capacity: usize) {
        let positions = self.sizes.positions;
        if capacity > positions && self.attention.position.is_limited() {
            let sentence = format!("a cache of {capacity} tokens for {positions} positions");
            cx.trace().fail(sentence);
        }
    }

    /// The cache of one layer's keys (`k`) or values (`v`).
    fn cache(&self, layer: usize, what: &str, size: usize, capacity: usize) -> StateSpec {
        StateSpec {
            name: format!("cache.{layer}.{what}"),
            dtype: DType::F32,
            shape: vec![size, capacity, self.sizes.kv_heads, self.sizes.head_width],
        }
    }
}

/// Writes new keys or values `[B, T, G, D]` into a cache, or into these rows of it, from a position on, or from one for
/// each text, and returns the whole cache.
fn write(cx: Cx, cache: StateSpec, rows: Option<Tensor>, new: Tensor, position: Tensor) -> Tensor {
    let old = cache.declare(cx.trace());
    let continued = rows.map_or(old, |rows| old.gather(rows));
    let full = continued.update_slice(new, position, 1);
    cx.trace().assign(old, full);
    full
}
