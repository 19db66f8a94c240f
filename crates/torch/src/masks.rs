//! Masks of attention, followed from their parts.
//!
//! A mask is a truth value for each query and key, as code makes it of positions and of padding by conjunctions. It is
//! kept as the list of the tensors that are joined, each with extents 1 where it is the same for all. Attention has two
//! forms: no later key, and a truth value for each key.

use lessen_graph::{Array, DType, Tensor, ValueId};
use std::collections::HashMap;

use crate::known::Known;

/// The parts of truth values that are conjunctions, or wider copies.
#[derive(Default)]
pub struct Masks {
    parts: HashMap<ValueId, Vec<Tensor>>,
}

/// A mask in the forms of attention.
pub struct AttentionMask {
    /// Whether a query sees no later key.
    pub causal: bool,
    /// `bool[B, Tk]`: the keys that queries may see.
    pub keys: Option<Tensor>,
}

impl Masks {
    /// The tensors whose conjunction a mask is.
    pub fn parts(&self, mask: Tensor) -> Vec<Tensor> {
        self.parts.get(&mask.id()).cloned().unwrap_or_else(|| vec![mask])
    }

    /// Notes a conjunction of two masks.
    pub fn joined(&mut self, a: Tensor, b: Tensor, result: Tensor) {
        let parts = [self.parts(a), self.parts(b)].concat();
        self.parts.insert(result.id(), parts);
    }

    /// Notes a mask whose parts are those of another one, each changed by `change`.
    pub fn changed(&mut self, from: Tensor, result: Tensor, change: impl Fn(Tensor) -> Option<Tensor>) {
        let parts: Option<Vec<Tensor>> = self.parts(from).into_iter().map(change).collect();
        if let Some(parts) = parts {
            self.parts.insert(result.id(), parts);
        }
    }

    /// A mask of the extents `[B, .., Tq, Tk]` in the forms of attention, if it is of these forms.
    pub fn of_attention(&self, known: &mut Known, mask: Tensor, [b, q, k]: [usize; 3]) -> Option<AttentionMask> {
        let mut seen = vec![true; q * k];
        let mut keys: Option<Tensor> = None;
        for part in self.parts(mask) {
            let shape = part.shape();
            let mut own = vec![1; 4_usize.checked_sub(shape.len())?];
            own.extend(shape);
            let part = part.reshape(&own);
            if let Some(array) = known.of(part) {
                let by_query = alike(&array)?;
                for (at, seen) in seen.iter_mut().enumerate() {
                    let (i, j) = (at / k, at % k);
                    let row = if own[2] == 1 { 0 } else { i };
                    let column = if own[3] == 1 { 0 } else { j };
                    *seen &= by_query[row * own[3] + column] != 0.0;
                }
                continue;
            }
            if own[1] != 1 || own[2] != 1 {
                return None;
            }
            let part = part.reshape(&[own[0], own[3]]).broadcast_to(&[b, k]);
            keys = Some(keys.map_or(part, |keys| keys.and(part)));
        }
        let is_full = seen.iter().all(|seen| *seen);
        let is_causal = || q == k && seen.iter().enumerate().all(|(at, seen)| *seen == (at % k <= at / k));
        if !is_full && !is_causal() {
            return None;
        }
        Some(AttentionMask { causal: !is_full, keys })
    }
}

/// The last two axes of an array `[b, h, q, k]` whose elements are the same for all of the first two.
fn alike(array: &Array) -> Option<&[f64]> {
    let [_, _, q, k] = array.ty.shape[..] else { return None };
    let first = array.data.get(..q * k)?;
    let all = array.data.chunks(q * k).all(|other| other == first);
    (array.ty.dtype == DType::Bool && all).then_some(first)
}
