//! Batches whose programs serve texts of every length.

use lessen_base::bucket;
use lessen_data::EncodedText;
use lessen_nn::BatchShape;

/// The layouts of all batches of at most `tokens` tokens, with room for `size` texts.
pub(crate) fn all_layouts(size: usize, tokens: usize) -> impl Iterator<Item = BatchShape> {
    let buckets = std::iter::successors(Some(bucket(1)), |last| Some(bucket(last + 1)));
    // The last bucket may hold more tokens than a batch.
    let most = bucket(tokens);
    buckets
        .take_while(move |tokens| *tokens <= most)
        .map(move |tokens| BatchShape::Packed { size, tokens })
}

/// Texts of at most `longest` tokens that fill a batch of `tokens` tokens.
pub(crate) fn full_batch(tokens: usize, longest: usize) -> Vec<EncodedText> {
    let length = |start: usize| longest.min(tokens - start);
    (0..tokens)
        .step_by(longest)
        .map(|start| (vec![0; length(start)], vec![0; length(start)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_has_one_of_the_layouts() {
        let layouts: Vec<BatchShape> = all_layouts(32, 2000).collect();
        let of = |tokens| BatchShape::Packed { size: 32, tokens };
        assert!((1..=2000).all(|tokens| layouts.contains(&of(bucket(tokens)))));
        assert_eq!(layouts.last(), Some(&of(bucket(2000))));
    }

    #[test]
    fn a_full_batch_has_as_many_tokens_as_it_can() {
        let lengths = |tokens, longest| -> Vec<usize> {
            let texts = full_batch(tokens, longest);
            texts.iter().map(|(ids, types)| ids.len().max(types.len())).collect()
        };
        assert_eq!(lengths(10, 4), [4, 4, 2]);
        assert_eq!(lengths(8, 8), [8]);
    }
}
