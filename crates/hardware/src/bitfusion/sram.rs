//! Energy of buffers: a table of CACTI at 45 nm for banks with words of 32 bits.

/// Ports of a bank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Port {
    /// One port that reads and one that writes.
    Apart,
    /// One port for both beside them.
    Shared,
}

/// Bits of a word.
const WORD: f64 = 32.0;

/// Bytes of a bank, pJ of a read and of a write of one word.
type Row = (f64, f64, f64);

/// Banks with [`Port::Apart`].
const APART: [Row; 6] = [
    (128.0, 0.683701, 0.925317),
    (1024.0, 1.13324, 3.29596),
    (2048.0, 1.90318, 3.63853),
    (4096.0, 3.42953, 4.31011),
    (8192.0, 6.39163, 5.56268),
    (16384.0, 9.9817, 8.4209),
];

/// Banks with [`Port::Shared`].
const SHARED: [Row; 2] = [(512.0, 1.06097, 2.33869), (4096.0, 3.98324, 5.05131)];

/// Energy in pJ of a bit that is read, and of one that is written. A size between two of the table, or beyond it, lies
/// on the straight line through its neighbours in logarithms of size and energy.
pub(super) fn energy_per_bit(bank_bytes: f64, port: Port) -> [f64; 2] {
    let table: &[Row] = match port {
        Port::Apart => &APART,
        Port::Shared => &SHARED,
    };
    if let Some(row) = table.iter().find(|row| row.0 == bank_bytes) {
        return [row.1 / WORD, row.2 / WORD];
    }
    let above = table.iter().position(|row| row.0 > bank_bytes).unwrap_or(table.len());
    let above = above.clamp(1, table.len() - 1);
    let (low, high) = (table[above - 1], table[above]);
    let share = (bank_bytes / low.0).ln() / (high.0 / low.0).ln();
    let between = |a: f64, b: f64| a * (b / a).powf(share) / WORD;
    [between(low.1, high.1), between(low.2, high.2)]
}
