//! The counter-based generator.

use lessen_graph::philox::{dropout_keeps, dropout_threshold, philox4x32};

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
            assert_eq!(dropout_keeps(key, stream, 16 + i as u64, threshold), half >= threshold);
        }
    }
}

#[test]
fn keeps_at_the_rate_asked_for() {
    let threshold = dropout_threshold(0.1);
    let kept = (0..100_000).filter(|&i| dropout_keeps([1, 2], 0, i, threshold)).count();
    assert!((kept as f64 / 100_000.0 - 0.9).abs() < 0.005, "{kept}");
}
