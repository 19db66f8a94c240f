//! Logits of the bag of tokens and of pairs of tokens that follow each other, a linear model of a text.
//!
//! A pair is a row of a table by its hash (Weinberger et al. 2009), `h(a, b) = ((a mod P) · K + b) mod buckets`, in
//! which nothing overflows `i32`, so that devices and ONNX files, whose integers are wider, agree. `K` is the golden
//! section of 2^16 (Knuth's multiplicative hashing), and odd: pairs of frequent tokens, whose ids are small, rarely
//! meet.
//!
//! Of a pair of texts it can say, too, which tokens both have: the similarity of two texts is linear in the share of
//! these tokens, and not in the tokens of each text.

use lessen_graph::{DType, Tensor};

use crate::batch::{BatchShape, delayed};
use crate::context::Cx;
use crate::init::Init;

/// `P` of the hash: the largest prime number whose products with `K` leave room for a bucket in `i32`, among those
/// below the root of 2^31.
const FIRST: f64 = 46337.0;

/// `K` of the hash.
const FACTOR: f64 = 40503.0;

/// Sizes of a bag of tokens and of pairs of tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ngrams {
    /// Number of tokens in the vocabulary.
    pub vocab: usize,
    /// Rows of the table of pairs, a power of two up to [`Ngrams::MOST_BUCKETS`]; 0 means no pairs.
    pub buckets: usize,
    /// Number of logits.
    pub classes: usize,
    /// Whether tokens that both texts of a pair have count by rows of their own, too.
    pub shared: bool,
}

impl Ngrams {
    /// Most rows of the table of pairs.
    pub const MOST_BUCKETS: usize = 1 << 24;

    /// Whether there can be as many rows in the table of pairs.
    pub fn takes_buckets(buckets: usize) -> bool {
        buckets == 0 || (buckets.is_power_of_two() && buckets <= Self::MOST_BUCKETS)
    }

    /// The number of rows of the table of pairs that suits this number of classes: the greatest power of two up to
    /// 65,536 with which the table has at most 4 million elements, but at least 1024.
    pub fn usual_buckets(classes: usize) -> usize {
        let most = (4_000_000 / classes.max(1)).clamp(1024, 1 << 16);
        1 << most.ilog2()
    }
}

/// Logits of the bag of tokens and pairs of each text, `f32[B, classes]`, of `tokens`, `i32[B, T]` or `i32[1, N]`:
/// `(sum of U[t_i] + sum of V[h(t_i, t_(i+1))]) / sqrt(n)`, where `n` is the number of terms, and zeros for a text
/// without tokens. `U` is `NAME.words.weight`, `[vocab, classes]`, and `V`, where there are buckets,
/// `NAME.pairs.weight`, `[buckets, classes]`; both are zeros at first.
///
/// With [`Ngrams::shared`] the first sum has the terms `S[t_i]` of the tokens `t_i` that both texts of a pair have,
/// each as often as it occurs, and the logits `s · k / m` are added, where `k` of the `m` tokens are such. `S` is
/// `NAME.shared.weight`, `[vocab, classes]`, and `s` is `NAME.share.weight`, `[1, classes]`; both are zeros at first.
/// The data input `types`, shaped as the tokens, is 1 in the second text and 0 elsewhere.
///
/// # Panics
/// If [`Ngrams::takes_buckets`] refuses the number of buckets, or it is a batch of images.
#[track_caller]
pub fn ngrams(cx: Cx, name: &str, tokens: Tensor, batch: BatchShape, sizes: Ngrams) -> Tensor {
    let Ngrams {
        vocab,
        buckets,
        classes,
        shared,
    } = sizes;
    if !Ngrams::takes_buckets(buckets) {
        cx.trace().fail(format!("a table of pairs with {buckets} rows"));
    }
    let cx = cx.enter(name);
    let real = match batch.real(*cx) {
        Some(real) => real.cast(DType::F32),
        None => cx.trace().full(DType::F32, &tokens.shape(), 1.0),
    };
    let rows = |table: &str, count: usize, ids: Tensor, weights: Tensor| {
        let rows = cx.param(table, &[count, classes], Init::Zeros).gather(ids);
        batch.weighted_sum(*cx, rows, weights)
    };
    let count = |weights: Tensor| {
        let ones = weights.trace().full(DType::F32, &weights.shape(), 1.0);
        batch.weighted_sum(*cx, ones.unsqueeze(-1), weights)
    };
    let mut sum = rows("words.weight", vocab, tokens, real);
    let all = count(real);
    let mut terms = all;
    if buckets > 0 {
        let (before, follows) = (delayed(tokens, 1, 0.0), batch.follows(*cx));
        sum = sum + rows("pairs.weight", buckets, hash(before, tokens, buckets), follows);
        terms = terms + count(follows);
    }
    let in_both = shared.then(|| in_both(*cx, tokens, real, batch, vocab));
    if let Some(in_both) = in_both {
        sum = sum + rows("shared.weight", vocab, tokens, in_both);
    }
    let logits = sum / terms.maximum(terms.scalar_like(1.0)).sqrt();
    match in_both {
        Some(in_both) => {
            let share = count(in_both) / all.maximum(all.scalar_like(1.0));
            logits + share * cx.param("share.weight", &[1, classes], Init::Zeros)
        }
        None => logits,
    }
}

/// 1 where a token is in both texts of its pair and 0 elsewhere, shaped as `tokens` and as `real`, which is 1 where
/// tokens are real.
///
/// A token and the number of its text are one code. Padded pairs compare codes with each other, as many as the square
/// of the length; without padding, codes are counted in a table of all codes of each pair.
#[track_caller]
fn in_both(cx: Cx, tokens: Tensor, real: Tensor, batch: BatchShape, vocab: usize) -> Tensor {
    let types = batch.ids(cx, "types");
    let (own, other) = (types * vocab as f64 + tokens, (1.0 - types) * vocab as f64 + tokens);
    let found = match batch.segments_of(cx) {
        Some(segments) => {
            let codes = 2.0 * vocab as f64;
            let rows = (2 * vocab).saturating_mul(batch.size() + 1);
            let first = (segments * codes).reshape(&tokens.shape());
            let [own, other] = [own, other].map(|code| (first + code).reshape(&segments.shape()));
            let counts = real.reshape(&segments.shape()).scatter_add(own, rows);
            counts.gather(other).reshape(&tokens.shape())
        }
        None => {
            let same = other.unsqueeze(2).eq(own.unsqueeze(1)).cast(DType::F32);
            (same * real.unsqueeze(1)).sum_axes(&[2])
        }
    };
    found.minimum(found.scalar_like(1.0)) * real
}

/// The hash of each pair of numbers, at least 0 and below `buckets`.
#[track_caller]
fn hash(first: Tensor, second: Tensor, buckets: usize) -> Tensor {
    let buckets = buckets as f64;
    remainder(remainder(first, FIRST) * FACTOR + remainder(second, buckets), buckets)
}

/// The remainder of integers that are not negative.
#[track_caller]
fn remainder(x: Tensor, by: f64) -> Tensor {
    x - x / by * by
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_graph::{Array, Trace, evaluate_exactly};
    use std::collections::HashMap;

    #[test]
    fn hashes_are_those_of_whole_numbers_and_never_negative() {
        let ids = [0, 1, 2, 7_999, 40_503, 46_336, 46_337, 250_001, i32::MAX - 1, i32::MAX];
        let (firsts, seconds): (Vec<i32>, Vec<i32>) = ids.iter().flat_map(|a| ids.map(|b| (*a, b))).unzip();
        for buckets in [1, 2, 1024, 1 << 16, Ngrams::MOST_BUCKETS] {
            let trace = Trace::new();
            let [a, b] = ["a", "b"].map(|name| trace.input(name, DType::I32, &[firsts.len()]));
            trace.output("h", hash(a, b, buckets));
            let given = [("a", &firsts), ("b", &seconds)];
            let given = given.map(|(name, ids)| (name.to_string(), Array::i32(&[ids.len()], ids)));
            let found = evaluate_exactly(&trace.finish(), &HashMap::from(given)).unwrap();
            let expected = |(a, b): (&i32, &i32)| {
                let sum = i64::from(*a) % 46_337 * 40_503 + i64::from(*b);
                (sum % buckets as i64) as f64
            };
            let expected: Vec<f64> = firsts.iter().zip(&seconds).map(expected).collect();
            assert_eq!(found["h"].data, expected, "{buckets}");
        }
    }

    #[test]
    fn pairs_of_frequent_tokens_rarely_meet() {
        let buckets = 1 << 16;
        let mut rows = vec![0; buckets];
        for a in 0..200_usize {
            for b in 0..200 {
                rows[(a * 40_503 + b) % buckets] += 1;
            }
        }
        // 40,000 pairs in 65,536 rows at random would leave 35,000 rows empty and one with 6 pairs or more.
        assert!(*rows.iter().max().unwrap() <= 3);
    }

    #[test]
    fn tables_of_pairs_are_powers_of_two_within_bounds() {
        let usual = [0, 1, 2, 61, 62, 500, 4000, usize::MAX].map(Ngrams::usual_buckets);
        assert_eq!(
            usual,
            [1 << 16, 1 << 16, 1 << 16, 1 << 16, 1 << 15, 1 << 12, 1024, 1024].map(|x: usize| x)
        );
        assert!(usual.iter().all(|buckets| Ngrams::takes_buckets(*buckets)));
        assert!(Ngrams::takes_buckets(0) && !Ngrams::takes_buckets(1000) && !Ngrams::takes_buckets(1 << 25));
    }
}
