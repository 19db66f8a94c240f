//! Products of a few rows and a shared matrix, against plain `f64`.

use lessen_cpu::kernels::Rows;
use lessen_cpu::kernels::elementwise::cast::{Bf16, Float};
use lessen_cpu::kernels::products::few_rows::{FEW, few_rows};
use lessen_cpu::simd::CpuSet;

use super::support::*;

/// Rows, `k` and columns: around lanes, streams, and the chunks of columns and of `k`.
const SHAPES: [(usize, usize, usize); 14] = [
    (1, 1, 1),
    (1, 768, 2304),
    (1, 15, 7),
    (1, 16, 8),
    (2, 17, 9),
    (3, 33, 63),
    (3, 100, 64),
    (4, 129, 65),
    (5, 64, 193),
    (6, 31, 333),
    (7, 768, 81),
    (8, 257, 129),
    (8, 1000, 17),
    (1, 3072, 100),
];

/// The factors of a product, with the elements around them in memory.
struct Factors<W> {
    x: Block<f32>,
    b: Block<W>,
    transposed: bool,
}

impl<W: Float> Factors<W> {
    fn new((n, k, c): (usize, usize, usize), transposed: bool, random: &mut Random, of: fn(f32) -> W) -> Factors<W> {
        let x = random_block(random, n, k, Lie::Padded, 1.0);
        let (rows, columns) = if transposed { (c, k) } else { (k, c) };
        let b = Block::new(rows, columns, Lie::Padded, || of(random.unit_f32()));
        Factors { x, b, transposed }
    }

    fn weight(&self, p: usize, j: usize) -> f32 {
        let (row, column) = if self.transposed { (j, p) } else { (p, j) };
        self.b.get(row, column).wide()
    }

    /// The first `n` rows of the product, with columns cut before the columns `cuts`.
    fn product(&self, n: usize, cuts: &[usize]) -> Block<f32> {
        let (k, c) = match self.transposed {
            true => (self.b.c, self.b.n),
            false => (self.b.n, self.b.c),
        };
        let (mut x, mut b) = (self.x.clone(), self.b.clone());
        let before = Block::new(n, c, Lie::Padded, || 0.125f32);
        let mut y = before.clone();
        let mut b = b.rows();
        if self.transposed {
            b = Rows {
                ptr: b.ptr,
                row: b.col,
                col: b.row,
            };
        }
        let ends = cuts.iter().skip(1).copied().chain([c]);
        for (&first, end) in cuts.iter().zip(ends) {
            // SAFETY: the blocks have these rows and columns.
            unsafe { few_rows(n, k, first..end, x.rows(), b, y.rows()) };
        }
        assert!(y.same_gaps(&before), "what lies between rows was written to");
        y
    }

    /// The product in one chain of `f32` for each element, and in `f64`.
    fn plain(&self) -> (Vec<f32>, Vec<f64>) {
        let c = if self.transposed { self.b.n } else { self.b.c };
        let elements = || (0..self.x.n).flat_map(|r| (0..c).map(move |j| (r, j)));
        let plain = elements().map(|(r, j)| (0..self.x.c).map(|p| self.x.get(r, p) * self.weight(p, j)).sum());
        let exact = elements().map(|(r, j)| {
            let product = |p| f64::from(self.x.get(r, p)) * f64::from(self.weight(p, j));
            (0..self.x.c).map(product).sum()
        });
        (plain.collect(), exact.collect())
    }
}

fn bits(block: &Block<f32>) -> Vec<u32> {
    block.values().iter().map(|x| x.to_bits()).collect()
}

/// To bf16, towards zero.
fn bf16(x: f32) -> Bf16 {
    Bf16((x.to_bits() >> 16) as u16)
}

fn are_near<W: Float>(of: fn(f32) -> W) {
    at_all_levels(|level| {
        let mut random = Random::new(11);
        for shape in SHAPES {
            for transposed in [false, true] {
                let factors = Factors::new(shape, transposed, &mut random, of);
                let (plain, exact) = factors.plain();
                let what = format!("{level:?}, {shape:?}, transposed: {transposed}");
                assert_close(&what, &factors.product(shape.0, &[0]).values(), &plain, &exact, 1.0);
            }
        }
    });
}

#[test]
fn products_are_as_near_as_plain_sums() {
    are_near(|x| x);
}

#[test]
fn products_with_bf16_matrices_are_as_near_as_plain_sums() {
    are_near(bf16);
}

#[test]
fn bits_depend_neither_on_rows_nor_on_cuts_nor_on_the_level() {
    let mut random = Random::new(12);
    for transposed in [false, true] {
        for (k, c) in [(100, 333), (768, 200), (17, 1000)] {
            let factors = Factors::new((FEW, k, c), transposed, &mut random, |x| x);
            let fused = [CpuSet::AVX2, CpuSet::AVX512]
                .into_iter()
                .filter(|level| level.is_within(CpuSet::detect()));
            let whole = bits(&factors.product(FEW, &[0]));
            for level in fused {
                level.on_this_thread(|| {
                    for n in 1..=FEW {
                        for cuts in [&[0][..], &[0, 8], &[0, 3, 67, 68, 131], &[0, 64, 128]] {
                            let found = bits(&factors.product(n, cuts));
                            assert!(
                                found == whole[..n * c],
                                "{level:?}, {n} rows, {k} x {c} cut at {cuts:?}"
                            );
                        }
                    }
                });
            }
        }
    }
}

#[test]
fn what_is_not_finite_stays_where_it_is() {
    for transposed in [false, true] {
        let mut random = Random::new(13);
        let mut factors = Factors::new((2, 70, 70), transposed, &mut random, |x| x);
        let at = 65 * factors.b.row + 3;
        factors.b.data[at] = f32::NAN;
        let column = if transposed { 65 } else { 3 };
        let y = factors.product(2, &[0]);
        for r in 0..2 {
            for j in 0..70 {
                assert_eq!(y.get(r, j).is_nan(), j == column, "row {r}, column {j}");
            }
        }
    }
}
