//! The order of tokens by their logits.

/// Tokens in order of their logits, largest first; of tokens with equal logits the first comes first. They are sorted
/// only as far as they are read.
pub(crate) struct MostLikely<'a> {
    logits: &'a [f64],
    pub first: Option<usize>,
    /// All tokens; empty until a second one is read.
    order: Vec<u32>,
    /// Number of tokens at the start of `order` that are sorted.
    sorted: usize,
}

impl MostLikely<'_> {
    /// Least number of tokens that are sorted at once.
    const NEXT: usize = 64;

    pub fn of(logits: &[f64]) -> MostLikely<'_> {
        MostLikely {
            logits,
            // Of tokens with equal logits `max_by` takes the last.
            first: (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])),
            order: Vec::new(),
            sorted: 0,
        }
    }

    /// The token in a place; none if there are fewer tokens.
    pub fn get(&mut self, place: usize) -> Option<usize> {
        let logits = self.logits;
        if place == 0 {
            return self.first;
        }
        if self.order.is_empty() {
            self.order = (0..logits.len() as u32).collect();
        }
        if place >= self.sorted && self.sorted < self.order.len() {
            let likelier = |a: &u32, b: &u32| {
                let of = |token: &u32| logits[*token as usize];
                of(b).total_cmp(&of(a)).then(a.cmp(b))
            };
            let rest = &mut self.order[self.sorted..];
            let next = (place + 1 - self.sorted)
                .max(7 * self.sorted)
                .max(Self::NEXT)
                .min(rest.len());
            if next < rest.len() {
                rest.select_nth_unstable_by(next - 1, likelier);
            }
            rest[..next].sort_unstable_by(likelier);
            self.sorted += next;
        }
        self.order.get(place).map(|&token| token as usize)
    }

    /// Returns the least number of the likeliest tokens whose weights sum to `least` or more, `most` at most, and the
    /// sum of their weights.
    pub fn with_share(&mut self, least: f64, most: usize, weight: impl Fn(usize) -> f64) -> (usize, f64) {
        let mut sum = 0.0;
        for place in 0..most {
            sum += self.get(place).map_or(0.0, &weight);
            if sum >= least {
                return (place + 1, sum);
            }
        }
        (most, sum)
    }
}
