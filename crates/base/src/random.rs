//! SplitMix64, the seeded generator of shuffles, synthetic examples, initial parameters and random tests. It is written
//! out here so that a seed gives the same numbers in every version of Lessen.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): a counter that
/// grows by an odd constant, each value scrambled by a bijection of 64 bits.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The 64-bit FNV-1a hash of a name.
fn fnv1a(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl SplitMix64 {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64 { state: seed }
    }

    /// The sequence of the pair (`seed`, `index`), a pure function of both: epoch 7 or example 1000 is drawn without
    /// drawing its predecessors.
    pub fn keyed(seed: u64, index: u64) -> SplitMix64 {
        SplitMix64 {
            state: scramble(scramble(seed.wrapping_add(STEP)).wrapping_add(index.wrapping_mul(STEP))),
        }
    }

    /// The sequence of the pair (`seed`, `name`), a pure function of both: a parameter's initial values do not depend
    /// on which other parameters there are.
    pub fn named(seed: u64, name: &str) -> SplitMix64 {
        SplitMix64 {
            state: scramble(scramble(seed) ^ fnv1a(name)),
        }
    }

    /// Returns 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        scramble(self.state)
    }

    /// Returns a uniform number in `0..bound`, without bias (Lemire 2019: the high half of a 128-bit product, redrawn
    /// when the low half falls into the remainder).
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let remainder = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= remainder {
                return (product >> 64) as u64;
            }
        }
    }

    /// Returns a uniform number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Shuffles the elements uniformly (Fisher and Yates, from the last position down).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_published_generator() {
        let mut random = SplitMix64::new(1234567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(first, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn numbers_below_a_bound_are_uniform() {
        let mut random = SplitMix64::new(1);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        // The standard deviation of a count is sqrt(70000 * 1/7 * 6/7) = 93.
        assert!(
            counts.iter().all(|&count| count.abs_diff(10_000) < 5 * 93),
            "{counts:?}"
        );
    }

    #[test]
    fn a_shuffle_keeps_the_elements_and_every_order_is_as_likely() {
        let mut counts = std::collections::HashMap::new();
        for seed in 0..6_000 {
            let mut items = [1, 2, 3];
            SplitMix64::keyed(seed, 5).shuffle(&mut items);
            *counts.entry(items).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 6);
        // The standard deviation of a count is sqrt(6000 * 1/6 * 5/6) = 29.
        assert!(
            counts.values().all(|&count| count.abs_diff(1_000) < 5 * 29),
            "{counts:?}"
        );
    }

    #[test]
    fn keys_give_sequences_of_their_own() {
        let first = |seed, index| SplitMix64::keyed(seed, index).next_u64();
        assert_eq!(first(1, 2), first(1, 2));
        let mut seen: Vec<u64> = (0..50)
            .flat_map(|seed| (0..50).map(move |index| first(seed, index)))
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 2_500);
    }

    #[test]
    fn the_hash_of_a_name_is_the_published_one() {
        // The test vectors of the FNV authors.
        for (name, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fnv1a(name), hash, "{name}");
        }
    }

    #[test]
    fn names_give_sequences_of_their_own() {
        let first = |seed, name| SplitMix64::named(seed, name).next_u64();
        assert_eq!(first(1, "w"), first(1, "w"));
        assert_ne!(first(1, "w"), first(2, "w"));
        assert_ne!(first(1, "w"), first(1, "v"));
    }
}
