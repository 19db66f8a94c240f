//! The few layouts of evaluation batches.

use lessen_base::bucket;

/// Tokens of padding that a program less is worth: a small model computes as many while one is compiled.
const WORTH: usize = 64;

/// For how many texts and tokens evaluation batches have room.
pub(crate) struct EvalLayouts {
    /// The number of texts for which all of them have room.
    pub(crate) texts: usize,
    /// The numbers of tokens, each a bucket, rising.
    tokens: Vec<usize>,
}

impl EvalLayouts {
    /// Layouts with room for `texts` texts, for batches of these numbers of tokens. At first each bucket that occurs is
    /// one. Then batches of a bucket are filled up to the next larger one where that takes little padding, those first
    /// that take least. The largest bucket stays as it is.
    pub(crate) fn new(texts: usize, batches: impl IntoIterator<Item = usize>) -> EvalLayouts {
        let mut all: Vec<usize> = batches.into_iter().map(bucket).collect();
        all.sort_unstable();
        // Each bucket with its number of batches.
        let mut buckets: Vec<(usize, usize)> = all
            .chunk_by(|one, other| one == other)
            .map(|equal| (equal[0], equal.len()))
            .collect();
        let padding = |pair: &[(usize, usize)]| (pair[1].0 - pair[0].0) * pair[0].1;
        while let Some((place, least)) = buckets
            .windows(2)
            .map(padding)
            .enumerate()
            .min_by_key(|(_, least)| *least)
            && least <= WORTH
        {
            let (_, count) = buckets.remove(place);
            buckets[place].1 += count;
        }
        EvalLayouts {
            texts,
            tokens: buckets.into_iter().map(|(tokens, _)| tokens).collect(),
        }
    }

    /// For how many tokens a batch of `tokens` tokens has room.
    pub(crate) fn tokens_for(&self, tokens: usize) -> usize {
        let place = self.tokens.partition_point(|own| *own < tokens);
        self.tokens.get(place).copied().unwrap_or(bucket(tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The tokens of batches with padding, and the number of layouts.
    fn padded(batches: &[usize]) -> (usize, usize) {
        let layouts = EvalLayouts::new(4, batches.iter().copied());
        let tokens = |tokens: &usize| {
            let padded = layouts.tokens_for(*tokens);
            assert!(padded >= *tokens && padded.is_multiple_of(16));
            padded
        };
        (batches.iter().map(tokens).sum(), layouts.tokens.len())
    }

    #[test]
    fn few_layouts_serve_all_batches_with_little_padding() {
        // Batches of random numbers of tokens, few and many, and one batch of each length up to 2000.
        let random = |count: usize| (0..count).map(|i| 700 + (i * 7919 + i * i * 31) % 900).collect();
        let (few, many): (Vec<usize>, Vec<usize>) = (random(25), random(5000));
        for (batches, most) in [(few, 12), (many, 40), ((1..=2000).collect(), 90)] {
            let buckets: BTreeSet<usize> = batches.iter().map(|tokens| bucket(*tokens)).collect();
            let own: usize = batches.iter().map(|tokens| bucket(*tokens)).sum();
            let (sum, layouts) = padded(&batches);
            assert!(layouts <= most, "{layouts} layouts");
            assert!(sum - own <= (buckets.len() - layouts) * WORTH);
            let largest = batches.iter().max().unwrap();
            let layouts = EvalLayouts::new(4, batches.clone());
            assert_eq!(layouts.tokens_for(*largest), bucket(*largest));
        }
    }

    #[test]
    fn equal_batches_have_no_more_padding_and_a_short_one_has_a_layout_of_its_own() {
        assert_eq!(padded(&[1000; 40]), (40 * bucket(1000), 1));
        assert_eq!(padded(&[1000, 1000, 1000, 20]), (3 * bucket(1000) + 32, 2));
        assert_eq!(EvalLayouts::new(4, []).tokens_for(0), 16);
    }
}
