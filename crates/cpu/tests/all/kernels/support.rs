//! Helpers that tests of kernels share: random numbers, blocks of rows in every kind of stride, comparison with `f64`.

use lessen_cpu::kernels::{Element, Rows};
use lessen_cpu::simd::{CpuSet, Feature};

pub use crate::random::Random;

/// Runs a test with every set of instructions that the machine has.
pub fn at_all_levels(mut test: impl FnMut(CpuSet)) {
    for set in CpuSet::detect().subsets() {
        set.on_this_thread(|| test(set));
    }
}

/// [`at_all_levels`] of floats: without VNNI, which multiplies integers alone.
pub fn at_all_levels_of_floats(mut test: impl FnMut(CpuSet)) {
    at_all_levels(|set| {
        if !Feature::Vnni.is_used() {
            test(set);
        }
    });
}

/// Sizes of blocks: around the chunk of 64 elements.
pub const SIZES: [(usize, usize); 9] = [
    (1, 1),
    (5, 1),
    (3, 10),
    (1, 63),
    (2, 64),
    (3, 65),
    (4, 127),
    (2, 200),
    (0, 5),
];

/// How a block lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lie {
    Dense,
    Padded,
    Transposed,
    Spread,
    /// One row for all; for operands that are read.
    RowVector,
    /// One element along each row; likewise.
    Column,
    /// Likewise, `c` apart: one column of a block repeated along its rows.
    SpreadColumn,
    Scalar,
}

pub const WRITABLE: [Lie; 4] = [Lie::Dense, Lie::Padded, Lie::Transposed, Lie::Spread];
pub const READABLE: [Lie; 8] = [
    Lie::Dense,
    Lie::Padded,
    Lie::Transposed,
    Lie::Spread,
    Lie::RowVector,
    Lie::Column,
    Lie::SpreadColumn,
    Lie::Scalar,
];

/// A block of rows and the memory that it lies in.
#[derive(Clone)]
pub struct Block<T> {
    pub data: Vec<T>,
    pub row: usize,
    pub col: usize,
    pub n: usize,
    pub c: usize,
}

impl<T: Element> Block<T> {
    pub fn new(n: usize, c: usize, lie: Lie, mut value: impl FnMut() -> T) -> Block<T> {
        let (row, col) = match lie {
            Lie::Dense => (c, 1),
            Lie::Padded => (c + 3, 1),
            Lie::Transposed => (1, n),
            Lie::Spread => (2 * c + 5, 2),
            Lie::RowVector => (0, 1),
            Lie::Column => (1, 0),
            Lie::SpreadColumn => (c, 0),
            Lie::Scalar => (0, 0),
        };
        // The block, and a chunk after it that no kernel may write to.
        let len = if n * c == 0 {
            64
        } else {
            (n - 1) * row + (c - 1) * col + 65
        };
        Block {
            data: (0..len).map(|_| value()).collect(),
            row,
            col,
            n,
            c,
        }
    }
    pub fn rows(&mut self) -> Rows<T> {
        Rows {
            ptr: self.data.as_mut_ptr(),
            row: self.row,
            col: self.col,
        }
    }
    pub fn get(&self, r: usize, j: usize) -> T {
        self.data[r * self.row + j * self.col]
    }
    pub fn values(&self) -> Vec<T> {
        (0..self.n)
            .flat_map(|r| (0..self.c).map(move |j| (r, j)))
            .map(|(r, j)| self.get(r, j))
            .collect()
    }
    /// Whether the elements between and after the elements of the block equal the same elements of `other`, another
    /// copy of the block.
    pub fn same_gaps(&self, other: &Block<T>) -> bool
    where
        T: PartialEq,
    {
        let mut used = vec![false; self.data.len()];
        for r in 0..self.n {
            for j in 0..self.c {
                used[r * self.row + j * self.col] = true;
            }
        }
        (0..used.len()).all(|i| used[i] || self.data[i] == other.data[i])
    }
}

/// A random block.
pub fn random_block(random: &mut Random, n: usize, c: usize, lie: Lie, scale: f32) -> Block<f32> {
    Block::new(n, c, lie, || random.unit_f32() * scale)
}

/// The largest error relative to `max(|expected|, floor)`; special values must be met exactly.
pub fn worst_error(got: &[f32], expected: &[f64], floor: f64) -> f64 {
    assert_eq!(got.len(), expected.len());
    let mut worst = 0f64;
    for (i, (&g, &e)) in got.iter().zip(expected).enumerate() {
        let rounded = e as f32;
        if e.is_nan() || rounded.is_infinite() {
            let near = f32::MAX == g.abs() && e.abs() < 3.5e38;
            assert!(
                g.to_bits() == rounded.to_bits() || (g.is_nan() && e.is_nan()) || near,
                "element {i}: {g}, not {e}"
            );
            continue;
        }
        let overflown = g.is_infinite() && e.abs() > 3.402e38;
        if !overflown {
            worst = worst.max((f64::from(g) - e).abs() / e.abs().max(floor));
        }
        assert!(!g.is_nan(), "element {i}: {g}, not {e}");
    }
    worst
}

/// Asserts that a kernel's error is at most twice that of the straightforward `f32` computation, plus a
/// little.
pub fn assert_close(what: &str, got: &[f32], plain: &[f32], expected: &[f64], floor: f64) {
    assert_within(2.0, what, got, plain, expected, floor);
}

/// Asserts that a kernel's error is at most `times` times that of the straightforward `f32` computation, plus a little.
pub fn assert_within(times: f64, what: &str, got: &[f32], plain: &[f32], expected: &[f64], floor: f64) {
    let (ours, theirs) = (worst_error(got, expected, floor), worst_error(plain, expected, floor));
    let allowed = times * theirs + 1.2e-7;
    assert!(
        ours <= allowed,
        "{what}: error {ours:.2e}, the straightforward one's is {theirs:.2e}"
    );
}

/// Numbers at the ends of things.
pub const EXTREMES: [f32; 30] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MAX,
    f32::MIN,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    1e-45,
    -1e-45,
    1e-40,
    88.7,
    88.73,
    -87.0,
    -88.0,
    -103.9,
    -104.1,
    1e-10,
    -1e-10,
    20.0,
    -20.0,
    5.6,
    -5.6,
    1e10,
    -1e10,
    0.79999,
];
