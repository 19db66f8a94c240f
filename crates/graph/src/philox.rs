//! Counter-based random bits: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
//! easy as 1, 2, 3" (2011). A bit depends on the key and its position alone, so any thread can
//! regenerate a mask.

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

/// The factor of the elements that dropout keeps.
pub fn dropout_scale(p: f64) -> f64 {
    65536.0 / (65536.0 - f64::from(dropout_threshold(p)))
}
