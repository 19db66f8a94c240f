//! The few layouts of evaluation batches.

use lessen_base::bucket;

/// Padding that is added so that batches share layouts is at most this part of all tokens.
const PART: usize = 64;

/// For how many texts and tokens evaluation batches have room.
pub(crate) struct EvalLayouts {
    /// The number of texts for which all of them have room.
    pub(crate) texts: usize,
    /// The numbers of tokens, each a bucket, rising.
    tokens: Vec<usize>,
}

impl EvalLayouts {
    /// Layouts with room for `texts` texts, for batches of these numbers of tokens. At first each bucket that occurs is
    /// one. Then, as long as the padding allows it, a bucket is filled up to the next larger one, the one first for
    /// which this takes the least padding. The largest stays as it is.
    pub(crate) fn new(texts: usize, batches: impl IntoIterator<Item = usize>) -> EvalLayouts {
        let (mut all, mut sum) = (Vec::new(), 0);
        for tokens in batches {
            sum += tokens;
            all.push(bucket(tokens));
        }
        all.sort_unstable();
        // Each bucket with its number of batches.
        let mut buckets: Vec<(usize, usize)> = all
            .chunk_by(|one, other| one == other)
            .map(|equal| (equal[0], equal.len()))
            .collect();
        let mut left = sum / PART;
        let padding = |pair: &[(usize, usize)]| (pair[1].0 - pair[0].0) * pair[0].1;
        while let Some((place, least)) = buckets
            .windows(2)
            .map(padding)
            .enumerate()
            .min_by_key(|(_, least)| *least)
            && least <= left
        {
            left -= least;
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
        let random: Vec<usize> = (0..500).map(|i| 700 + (i * 7919 + i * i * 31) % 900).collect();
        let rising: Vec<usize> = (1..=200).map(|length| 10 * length).collect();
        for (batches, most) in [(random, 16), (rising, 36)] {
            let own: usize = batches.iter().map(|tokens| bucket(*tokens)).sum();
            let (sum, layouts) = padded(&batches);
            assert!(layouts <= most, "{layouts} layouts");
            assert!(sum - own <= batches.iter().sum::<usize>() / PART);
            let largest = batches.iter().max().unwrap();
            assert_eq!(
                EvalLayouts::new(4, batches.clone()).tokens_for(*largest),
                bucket(*largest)
            );
        }
    }

    #[test]
    fn equal_batches_have_no_more_padding_and_a_short_one_has_a_layout_of_its_own() {
        assert_eq!(padded(&[1000; 40]), (40 * bucket(1000), 1));
        assert_eq!(padded(&[1000, 1000, 1000, 20]), (3 * bucket(1000) + 32, 2));
        assert_eq!(EvalLayouts::new(4, []).tokens_for(0), 16);
    }
}
