//! The right factors of the products of recurrent networks.

use lessen_base::{Error, Result};
use lessen_graph::ops::QuantizeByRange;

use crate::operators::products::kernel::add_product;
use crate::operators::products::quantized::levels;
use crate::operators::real::Real;
use lessen_onnx::host::HostTensor;

/// The right factor of a product, a row for each element of the left one's rows.
pub(super) enum Factor<R> {
    Real(Vec<R>),
    /// Integers less their zero points, and a scale for each column. The left factor is quantized by its own range.
    Integers {
        levels: Vec<i32>,
        scales: Vec<R>,
    },
}

impl<R: Real> Factor<R> {
    /// The part of an array of 8-bit integers that belongs to a direction, whose zero points and scales are one for a
    /// direction or one for each column.
    ///
    /// # Errors
    /// Other elements, and scales or zero points of other extents.
    pub fn of_integers(
        all: &HostTensor,
        (scale, zero): (&HostTensor, &HostTensor),
        direction: usize,
    ) -> Result<Factor<R>> {
        let &[directions, rows, columns] = all.shape() else {
            return Err(Error::user("its weights have not three axes"));
        };
        if all.element() != zero.element() {
            return Err(Error::user("a zero point has another type than its integers"));
        }
        let scales = of_columns(&R::read(scale)?, scale.shape(), [directions, columns], direction)?;
        let zeros = of_columns(&levels(zero)?, zero.shape(), [directions, columns], direction)?;
        let each = rows * columns;
        let mut own = levels(all)?[direction * each..(direction + 1) * each].to_vec();
        for row in own.chunks_exact_mut(columns.max(1)) {
            row.iter_mut().zip(&zeros).for_each(|(level, zero)| *level -= zero);
        }
        Ok(Factor::Integers { levels: own, scales })
    }

    /// Adds the product of `a` (`m` by `k`) and this factor (`k` by `n`) to `sums` (`m` by `n`).
    pub fn add_to(&self, sums: &mut [R], a: &[R], [m, k, n]: [usize; 3]) {
        match self {
            Factor::Real(all) => add_product(a, all, sums, [m, k, n]),
            Factor::Integers { levels, scales } => {
                let a: Vec<f32> = a.iter().map(|x| x.to_f64() as f32).collect();
                let (a, scale, zero) = QuantizeByRange::codes(&a);
                let a: Vec<i32> = a.iter().map(|x| i32::from(*x) - i32::from(zero)).collect();
                let mut product = vec![0; m * n];
                add_product(&a, levels, &mut product, [m, k, n]);
                let scale = R::of_f64(scale.into());
                for (sums, product) in sums.chunks_exact_mut(n.max(1)).zip(product.chunks_exact(n.max(1))) {
                    for ((sum, x), column) in sums.iter_mut().zip(product).zip(scales) {
                        *sum += R::of_f64((*x).into()) * (scale * *column);
                    }
                }
            }
        }
    }
}

/// The numbers of a direction's columns.
fn of_columns<T: Copy>(
    all: &[T],
    shape: &[usize],
    [directions, columns]: [usize; 2],
    direction: usize,
) -> Result<Vec<T>> {
    match shape {
        [count] if *count == directions => Ok(vec![all[direction]; columns]),
        [count, each] if [*count, *each] == [directions, columns] => {
            Ok(all[direction * columns..(direction + 1) * columns].to_vec())
        }
        _ => Err(Error::user(format!(
            "a scale or zero point has the extents {shape:?} where [{directions}] or [{directions}, {columns}] are right"
        ))),
    }
}
