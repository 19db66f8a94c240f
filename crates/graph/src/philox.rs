//! Counter-based random bits: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
//! easy as 1, 2, 3" (2011). A bit depends on the key and its position alone, so a mask can be made twice, by
//! any thread.

/// Ten rounds of Philox4x32: four random words from a key and a counter.
pub fn philox4x32(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let (mut key, mut c) = (key, counter);
    for _ in 0..10 {
        let a = u64::from(c[0]) * 0xD251_1F53;
        let b = u64::from(c[2]) * 0xCD9E_8D57;
        c = [
            (b >> 32) as u32 ^ c[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ c[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

/// Block `block` of a stream: `philox4x32(key, [block low, block high, stream, 0])`.
pub fn block(key: [u32; 2], stream: u32, block: u64) -> [u32; 4] {
    philox4x32(key, [block as u32, (block >> 32) as u32, stream, 0])
}

/// The number of half-word values, of 65536, that drop an element with probability `p`: `round(65536 p)`.
pub fn dropout_threshold(p: f64) -> u32 {
    (p * 65536.0).round() as u32
}

/// Whether dropout keeps element `index`: whether half-word `index % 8` of block `index / 8`, low halves
/// first, is at least the threshold.
pub fn dropout_keeps(key: [u32; 2], stream: u32, index: u64, threshold: u32) -> bool {
    let word = block(key, stream, index / 8)[(index % 8 / 2) as usize];
    let half = word >> (16 * (index % 2)) & 0xFFFF;
    half >= threshold
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // The published test vectors of the authors' library Random123.
        let cases = [
            ([0; 2], [0; 4], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            (
                [u32::MAX; 2],
                [u32::MAX; 4],
                [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
            ),
            (
                [0xa4093822, 0x299f31d0],
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
            ),
        ];
        for (key, counter, expected) in cases {
            assert_eq!(philox4x32(key, counter), expected);
        }
    }

    #[test]
    fn keeps_reads_halves_in_order() {
        let (key, stream) = ([7, 11], 3);
        let words = philox4x32(key, [2, 0, stream, 0]);
        for i in 0..8 {
            let half = if i % 2 == 0 {
                words[i / 2] & 0xFFFF
            } else {
                words[i / 2] >> 16
            };
            for threshold in [half, half + 1] {
                assert_eq!(
                    dropout_keeps(key, stream, 16 + i as u64, threshold),
                    half >= threshold
                );
            }
        }
    }

    #[test]
    fn keeps_at_the_rate_asked_for() {
        let threshold = dropout_threshold(0.1);
        let kept = (0..100_000)
            .filter(|&i| dropout_keeps([1, 2], 0, i, threshold))
            .count();
        assert!((kept as f64 / 100_000.0 - 0.9).abs() < 0.005, "{kept}");
    }
}
