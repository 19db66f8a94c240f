//! Dealing texts out to batches of about equal numbers of tokens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Divides texts of these numbers of tokens into as few batches of at most `size` texts as there can be: from long to
/// short, each goes to the batch that has the fewest tokens and room for it (Graham 1969). Returns the texts of each
/// batch, in order.
pub(crate) fn balanced(lengths: &[usize], size: usize) -> Vec<Vec<u32>> {
    let mut batches = vec![Vec::new(); lengths.len().div_ceil(size)];
    let mut open: BinaryHeap<Reverse<(usize, usize)>> = (0..batches.len()).map(|batch| Reverse((0, batch))).collect();
    let mut texts: Vec<u32> = (0..lengths.len() as u32).collect();
    texts.sort_by_key(|text| Reverse(lengths[*text as usize]));
    for text in texts {
        if let Some(Reverse((tokens, batch))) = open.pop() {
            batches[batch].push(text);
            if batches[batch].len() < size {
                open.push(Reverse((tokens + lengths[text as usize], batch)));
            }
        }
    }
    batches.iter_mut().for_each(|batch| batch.sort_unstable());
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(lengths: &[usize], batches: &[Vec<u32>]) -> Vec<usize> {
        let of = |batch: &Vec<u32>| batch.iter().map(|text| lengths[*text as usize]).sum();
        batches.iter().map(of).collect()
    }

    #[test]
    fn batches_have_every_text_once_and_about_equal_tokens() {
        let rising: Vec<usize> = (1..=200).collect();
        let mixed: Vec<usize> = (0..200).map(|i| 1 + i * i * 31 % 190).collect();
        for lengths in [rising, mixed] {
            let batches = balanced(&lengths, 16);
            let mut all = batches.concat();
            all.sort_unstable();
            assert_eq!(all, (0..200).collect::<Vec<u32>>());
            assert_eq!(batches.len(), 13);
            assert!(batches.iter().all(|batch| batch.len() <= 16 && batch.is_sorted()));
            let tokens = tokens(&lengths, &batches);
            let (least, most) = (tokens.iter().min().unwrap(), tokens.iter().max().unwrap());
            assert!(most - least <= most / 32, "{tokens:?}");
        }
    }

    #[test]
    fn equal_texts_are_dealt_out_evenly_and_one_long_text_is_no_reason_for_more_batches() {
        assert_eq!(balanced(&[7; 5], 2), [vec![0, 3], vec![1, 4], vec![2]]);
        assert_eq!(balanced(&[100, 1, 1, 1], 2), [vec![0, 3], vec![1, 2]]);
        assert_eq!(balanced(&[], 2), Vec::<Vec<u32>>::new());
    }
}
