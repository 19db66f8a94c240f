//! Attention of heads: scores of queries and keys, their shares, and sums of values.

use lessen_base::{Error, Result};

use super::kernel::{add_product, transposed};
use super::sizes::{check_work, room};
use super::softmax::soft;
use crate::operators::real::Real;

/// Queries, keys and values, each by batch, head, position and feature.
pub(super) struct Heads<'a, R> {
    pub queries: &'a [R],
    pub keys: &'a [R],
    pub values: &'a [R],
    /// Extents.
    pub of: Extents,
    /// Factor of scores.
    pub scale: R,
    /// Bound of scores, `c tanh(score / c)`; none where it is nought.
    pub softcap: R,
    /// Of each head of queries a score without a value, which takes part in the shares.
    pub sinks: Option<Vec<R>>,
}

/// Extents of attention.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    pub batch: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values; each serves as many heads of queries.
    pub kv_heads: usize,
    pub queries: usize,
    pub keys: usize,
    /// Features of queries and keys.
    pub width: usize,
    /// Features of values.
    pub value_width: usize,
}

/// How far a row of scores is computed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Scaled scores.
    Scores,
    /// Bounded scores.
    Capped,
    /// Scores with mask and bias.
    Biased,
    /// Shares of the values.
    Shares,
}

/// The place of a row of scores: batch, head, query.
pub(super) type Row = [usize; 3];

impl<R: Real> Heads<'_, R> {
    /// The sums of values by batch, head, query and feature. `bias` adds masks and biases to a row of scores; `see` is
    /// shown each row at each stage, in order. A query without keys has the sum nought.
    ///
    /// # Errors
    /// Extents that do not fit; too much work.
    pub(super) fn attend(
        &self,
        bias: impl Fn(Row, &mut [R]) -> Result<()>,
        mut see: impl FnMut(Stage, &[R]),
    ) -> Result<Vec<R>> {
        let e = self.of;
        if e.kv_heads == 0 || !e.heads.is_multiple_of(e.kv_heads) {
            let (heads, kv_heads) = (e.heads, e.kv_heads);
            return Err(Error::user(format!(
                "{heads} heads of queries do not fit {kv_heads} heads of keys"
            )));
        }
        check_work(&[
            e.batch,
            e.heads,
            e.queries,
            e.keys,
            e.width.saturating_add(e.value_width),
        ])?;
        let count = room(&[e.batch, e.heads, e.queries, e.value_width])?;
        let mut sums = vec![R::ZERO; count];
        if e.batch == 0 || e.heads == 0 || e.queries == 0 {
            return Ok(sums);
        }
        room(&[e.queries, e.keys])?;
        let part = |all: usize, length: usize, width: usize| all * length * width..(all + 1) * length * width;
        let mut scores = vec![R::ZERO; e.queries * e.keys];
        let mut keys = Vec::new();
        for (b, head) in (0..e.batch).flat_map(|b| (0..e.heads).map(move |head| (b, head))) {
            let group = e.heads / e.kv_heads;
            let kv = b * e.kv_heads + head / group;
            let query = b * e.heads + head;
            if head % group == 0 {
                keys = transposed(&self.keys[part(kv, e.keys, e.width)], e.keys, e.width);
            }
            scores.fill(R::ZERO);
            let queries = &self.queries[part(query, e.queries, e.width)];
            add_product(queries, &keys, &mut scores, [e.queries, e.width, e.keys]);
            for at in 0..e.queries {
                let row = &mut scores[at * e.keys..(at + 1) * e.keys];
                self.share(row, [b, head, at], &bias, &mut see)?;
            }
            let out = &mut sums[part(query, e.queries, e.value_width)];
            let values = &self.values[part(kv, e.keys, e.value_width)];
            add_product(&scores, values, out, [e.queries, e.keys, e.value_width]);
        }
        Ok(sums)
    }

    /// Makes shares of a row of products.
    fn share(
        &self,
        row: &mut [R],
        place: Row,
        bias: &impl Fn(Row, &mut [R]) -> Result<()>,
        see: &mut impl FnMut(Stage, &[R]),
    ) -> Result<()> {
        row.iter_mut().for_each(|x| *x = *x * self.scale);
        see(Stage::Scores, row);
        if self.softcap > R::ZERO {
            row.iter_mut()
                .for_each(|x| *x = self.softcap * (*x / self.softcap).tanh());
        }
        see(Stage::Capped, row);
        bias(place, row)?;
        see(Stage::Biased, row);
        match &self.sinks {
            Some(sinks) => soft_beside(row, sinks[place[1]]),
            None if row.iter().all(|x| *x == R::LEAST) => row.fill(R::ZERO),
            None => soft(row),
        }
        see(Stage::Shares, row);
        Ok(())
    }
}

/// Softmax beside one more score, whose share is left out.
fn soft_beside<R: Real>(row: &mut [R], sink: R) {
    let most = row.iter().fold(sink, |most, x| if *x > most { *x } else { most });
    if most == R::LEAST {
        return row.fill(R::ZERO);
    }
    let mut sum = (sink - most).exp();
    for x in row.iter_mut() {
        *x = (*x - most).exp();
        sum += *x;
    }
    row.iter_mut().for_each(|x| *x = *x / sum);
}

/// The same elements with two neighbouring axes exchanged, of an array of extents `outer`, `first`, `second`, `inner`.
pub(super) fn exchanged<T: Copy>(all: &[T], [outer, first, second, inner]: [usize; 4]) -> Vec<T> {
    let mut result = Vec::with_capacity(all.len());
    if all.is_empty() {
        return result;
    }
    for o in 0..outer {
        for s in 0..second {
            for f in 0..first {
                let at = ((o * first + f) * second + s) * inner;
                result.extend_from_slice(&all[at..at + inner]);
            }
        }
    }
    result
}

/// Earlier positions followed by new ones, of arrays by stack, position and feature.
pub(super) fn appended<T: Copy>(past: &[T], new: &[T], [stack, past_length, length, width]: [usize; 4]) -> Vec<T> {
    if past_length == 0 || past.is_empty() {
        return new.to_vec();
    }
    let mut all = Vec::with_capacity(past.len() + new.len());
    for i in 0..stack {
        all.extend_from_slice(&past[i * past_length * width..(i + 1) * past_length * width]);
        all.extend_from_slice(&new[i * length * width..(i + 1) * length * width]);
    }
    all
}
