//! Numbers of tokens to which batches and prompts are rounded up, so that few programs serve all of them.

/// What all buckets are multiples of.
const MULTIPLE: usize = 16;

/// Returns the smallest bucket of at least `tokens` tokens of a batch without padding. Buckets are multiples of 16, and
/// each is larger than the one before it by a thirty-second at most, or by 16.
///
/// ```
/// assert_eq!([0, 16, 17, 130, 600, 5000].map(lessen_base::bucket), [16, 16, 32, 144, 608, 5120]);
/// ```
pub fn bucket(tokens: usize) -> usize {
    rounded_up(tokens, 32)
}

/// Returns the smallest bucket of at least `tokens` tokens of a prompt. Buckets are multiples of 16, and each is larger
/// than the one before it by an eighth at most, or by 16: there are fewer than of batches, as the program of each reads
/// prompts of all lengths that it holds, one after another.
///
/// ```
/// assert_eq!([1, 17, 130, 600, 2000].map(lessen_base::prompt_bucket), [16, 32, 144, 656, 2048]);
/// ```
pub fn prompt_bucket(tokens: usize) -> usize {
    rounded_up(tokens, 8)
}

/// The smallest bucket of at least `tokens`, where one is larger than the one before it by the part `1 / parts`.
fn rounded_up(tokens: usize, parts: usize) -> usize {
    let mut bucket = MULTIPLE;
    while bucket < tokens {
        let step = (bucket / parts / MULTIPLE * MULTIPLE).max(MULTIPLE);
        match bucket.checked_add(step) {
            Some(next) => bucket = next,
            // No row has so many tokens.
            None => return tokens,
        }
    }
    bucket
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_multiples_and_grow_by_a_part_at_most() {
        for (bucket, parts) in [(bucket as fn(usize) -> usize, 32), (prompt_bucket, 8)] {
            let mut largest = 0;
            for tokens in 0..100_000 {
                let bucket = bucket(tokens);
                assert!(bucket >= tokens && bucket.is_multiple_of(MULTIPLE));
                assert!(bucket >= largest, "buckets rise");
                if bucket > largest {
                    assert!(
                        bucket <= (largest + largest / parts).max(largest + MULTIPLE),
                        "{bucket} after {largest}"
                    );
                    let first = if largest == 0 { 0 } else { largest + 1 };
                    assert_eq!(tokens, first, "a bucket is full before the next one");
                    largest = bucket;
                }
            }
        }
        assert_eq!(bucket(usize::MAX), usize::MAX);
    }
}
