//! Learned biases of attention scores by the distance of query and key (Raffel et al. 2020), as MPNet has them.
//!
//! A query gets further elements, its biases for keys at all positions, and a key gets as many: 1 at its own position
//! and 0 elsewhere. The product of the two is the score with its bias, so attention needs no scores in memory, whatever
//! sequences a row holds.

use lessen_graph::{Array, DType, Tensor, Type, concat};

/// The least distance of each bucket of a side after the first: a bucket for each distance below 8, then ranges whose
/// bounds grow by the eighth root of 16. The last one begins at 91, the first whole number from 128 / 16^(1/8) on.
const STARTS: [usize; RelativeBias::BUCKETS / 2 - 1] = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91];

/// The biases of the scores in all layers: a learned number for each head and bucket of distances.
#[derive(Clone, Copy, Debug)]
pub struct RelativeBias {
    /// The biases of a query of each token for keys at all positions, divided by the scale of scores, `[1, T, H, P]`.
    queries: Tensor,
    /// 1 at the position of each token, `[1, T, 1, P]`.
    keys: Tensor,
    scale: f64,
}

impl RelativeBias {
    /// Number of buckets: half of them for keys at or before the query, half for keys after it.
    pub const BUCKETS: usize = 32;

    /// The biases in `table`, `f32[rows, H]` of at least [`RelativeBias::BUCKETS`] rows, for heads of width
    /// `head_width`. `positions`, `i32[T]`, are those of the tokens of a row in their sequences, all below `longest`.
    ///
    /// # Panics
    /// If the table has fewer rows.
    #[track_caller]
    pub fn new(table: Tensor, head_width: usize, positions: Tensor, longest: usize) -> RelativeBias {
        let trace = table.trace();
        if table.shape().len() != 2 || table.dim(0) < Self::BUCKETS {
            trace.fail(format!("{} is no table of {} buckets", table.ty(), Self::BUCKETS));
        }
        let scale = 1.0 / (head_width.max(1) as f64).sqrt();
        let longest = longest.max(1);
        // Of each difference of positions, from the lowest on.
        let by_difference = (table * (1.0 / scale)).gather(buckets(table, longest));
        let grid = [longest, longest];
        let [query, key] = [0, 1].map(|axis| trace.iota(DType::I32, &grid, axis));
        let by_positions = by_difference.gather(key - query + (longest - 1) as f64);
        let places = trace.iota(DType::I32, &[longest], 0);
        let own = positions.unsqueeze(1).eq(places).cast(table.dtype());
        RelativeBias {
            queries: by_positions.permute(&[0, 2, 1]).gather(positions).unsqueeze(0),
            keys: own.unsqueeze(1).unsqueeze(0),
            scale,
        }
    }

    /// Queries, `[B, T, H, D]`, and keys, `[B, T, G, D]`, with the elements that bias their products, and the factor of
    /// the products.
    #[track_caller]
    pub(super) fn beside(self, q: Tensor, k: Tensor) -> (Tensor, Tensor, Option<f64>) {
        let widened = |x: Tensor, more: Tensor| {
            let shape = [x.dim(0), x.dim(1), x.dim(2), more.dim(-1)];
            concat(&[x, more.broadcast_to(&shape)], -1)
        };
        (widened(q, self.queries), widened(k, self.keys), Some(self.scale))
    }
}

/// The buckets of the differences `key - query` from `1 - longest` to `longest - 1`, `i32[2 · longest - 1]`.
#[track_caller]
fn buckets(like: Tensor, longest: usize) -> Tensor {
    let trace = like.trace();
    let count = longest.saturating_mul(2) - 1;
    let differences = trace.iota(DType::F32, &[count], 0) - (longest - 1) as f64;
    let starts = STARTS.iter().map(|start| *start as f64).collect();
    let starts = trace.constant(Array::new(Type::f32(&[STARTS.len()]), starts));
    let reached = differences
        .abs()
        .unsqueeze(1)
        .ge(starts)
        .cast(DType::F32)
        .sum_axes(&[1]);
    let is_after = differences.gt(differences.scalar_like(0.0)).cast(DType::F32);
    (reached + is_after * (RelativeBias::BUCKETS / 2) as f64).cast(DType::I32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_graph::{Trace, evaluate_exactly, verify};

    /// The bucket of a difference `key - query` by its definition. From a distance `n` of 8 on it is `8 + floor(8 log(n
    /// / 8) / log(16))`, at most 15; the term after 8 is one less than the number of `k` with `8^8 16^k <= n^8`.
    fn expected(difference: i64) -> f64 {
        let n = u128::from(difference.unsigned_abs());
        let reached = (0..8).filter(|k| 8_u128.pow(8) << (4 * k) <= n.pow(8)).count();
        let side = if n < 8 { n as usize } else { 7 + reached };
        (side + if difference > 0 { 16 } else { 0 }) as f64
    }

    #[test]
    fn buckets_grow_by_the_eighth_root_of_16_on_both_sides() {
        for longest in [1, 2, 200] {
            let trace = Trace::new();
            trace.output("buckets", buckets(trace.full(DType::F32, &[1], 0.0), longest));
            let graph = trace.finish();
            verify(&graph).unwrap();
            let found = evaluate_exactly(&graph, &Default::default()).unwrap();
            let last = longest as i64 - 1;
            let expected: Vec<f64> = (-last..=last).map(expected).collect();
            assert_eq!(found["buckets"].data, expected);
        }
        let sides = [-128, -91, -90, 0, 1, 90, 91, 128].map(expected);
        assert_eq!(sides, [15.0, 15.0, 14.0, 0.0, 17.0, 30.0, 31.0, 31.0]);
    }
}
