//! Batches that compile the programs of every length before the first request.

use lessen_data::bucket;

/// Token ids of a text, and the type of each token.
type Encoded = (Vec<i32>, Vec<i32>);

/// For each bucket up to `tokens` tokens, a batch that fills it with texts of at most `longest` tokens.
pub(crate) fn batches_of_all_buckets(tokens: usize, longest: usize) -> impl Iterator<Item = Vec<Encoded>> {
    let sizes = std::iter::successors(Some(bucket(1)), |size| Some(bucket(size + 1)));
    let full = move |size: usize| {
        let most = size.min(tokens);
        let length = |start: usize| longest.min(most - start);
        (0..most)
            .step_by(longest)
            .map(|start| (vec![0; length(start)], vec![0; length(start)]))
            .collect()
    };
    // The last bucket may hold more tokens than a batch, which is then as large as it can be.
    let mut before = 0;
    sizes
        .take_while(move |&size| std::mem::replace(&mut before, size) < tokens)
        .map(full)
}
