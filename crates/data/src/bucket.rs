//! Numbers of tokens to which batches without padding are rounded up, so that few programs serve all of them.

/// What all buckets are multiples of.
const MULTIPLE: usize = 16;

/// Returns the smallest bucket of at least `tokens` tokens. Buckets are multiples of 16, and each is larger than
/// the one before it by a thirty-second at most, or by 16.
///
/// ```
/// assert_eq!([0, 16, 17, 130, 600, 5000].map(lessen_data::bucket), [16, 16, 32, 144, 608, 5120]);
/// ```
pub fn bucket(tokens: usize) -> usize {
    let mut bucket = MULTIPLE;
    while bucket < tokens {
        bucket = next(bucket);
    }
    bucket
}

fn next(bucket: usize) -> usize {
    bucket + (bucket / 32 / MULTIPLE * MULTIPLE).max(MULTIPLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_multiples_and_grow_by_a_thirty_second_at_most() {
        let mut largest = 0;
        for tokens in 0..100_000 {
            let bucket = bucket(tokens);
            assert!(bucket >= tokens && bucket.is_multiple_of(MULTIPLE));
            assert!(bucket >= largest, "buckets rise");
            if bucket > largest {
                assert!(
                    bucket <= (largest + largest / 32).max(largest + MULTIPLE),
                    "{bucket} after {largest}"
                );
                assert_eq!(
                    tokens,
                    if largest == 0 { 0 } else { largest + 1 },
                    "a bucket is full before the next one"
                );
                largest = bucket;
            }
        }
    }
}
