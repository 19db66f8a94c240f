//! Products of matrices, and determinants.

use std::sync::Arc;

use lessen_base::{Error, Result};

use super::integers::{integer_of, wide, wrapped};
use super::kernel::add_product;
use super::sizes::{broadcast, check_work, places, room, spread};
use crate::operators::real::{Real, float_of, rounded};
use lessen_onnx::Element;
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, Number, one};

pub(crate) const OPERATORS: HostOperators = &[("", "MatMul", matmul), ("", "Gemm", gemm), ("", "Det", det)];

/// Extents of a product of stacks of matrices.
pub(super) struct Stacks {
    /// The extents of the result.
    pub shape: Vec<usize>,
    /// Rows, common extent, columns.
    pub extents: [usize; 3],
    /// For each matrix of the result, the factors' places in their stacks.
    pub pairs: Vec<(usize, usize)>,
}

impl Stacks {
    /// The product of arrays of these extents; an array of one axis is a row on the left and a column on the right.
    ///
    /// # Errors
    /// Extents that do not fit; too large a result.
    pub(super) fn of(a: &[usize], b: &[usize]) -> Result<Stacks> {
        let unfit = || Error::user(format!("matrices of extents {a:?} and {b:?} have no product"));
        let (a_stack, m, k) = match a {
            [] => return Err(unfit()),
            [k] => (&[][..], 1, *k),
            [stack @ .., m, k] => (stack, *m, *k),
        };
        let (b_stack, k2, n) = match b {
            [] => return Err(unfit()),
            [k] => (&[][..], *k, 1),
            [stack @ .., k, n] => (stack, *k, *n),
        };
        if k != k2 {
            return Err(unfit());
        }
        let stack = broadcast(a_stack, b_stack)?;
        let mut shape = stack.clone();
        shape.extend((a.len() > 1).then_some(m));
        shape.extend((b.len() > 1).then_some(n));
        let is_empty = room(&shape)? == 0;
        let count = if is_empty { 0 } else { room(&stack)? };
        check_work(&[count, m, k, n])?;
        let pairs = if is_empty {
            Vec::new()
        } else {
            let b_places = places(b_stack, &stack)?;
            places(a_stack, &stack)?.into_iter().zip(b_places).collect()
        };
        let extents = [m, k, n];
        Ok(Stacks { shape, extents, pairs })
    }

    /// The elements of the product.
    pub(super) fn product<T: Number>(&self, a: &[T], b: &[T]) -> Vec<T> {
        let [m, k, n] = self.extents;
        if self.pairs.is_empty() {
            return Vec::new();
        }
        let mut c = vec![T::ZERO; self.pairs.len() * m * n];
        if let [first, ..] = self.pairs[..]
            && self
                .pairs
                .iter()
                .enumerate()
                .all(|(i, (a, b))| *a == i && *b == first.1)
        {
            let b = &b[first.1 * k * n..(first.1 + 1) * k * n];
            add_product(a, b, &mut c, [self.pairs.len() * m, k, n]);
            return c;
        }
        for (c, (i, j)) in c.chunks_exact_mut(m * n).zip(&self.pairs) {
            add_product(
                &a[i * m * k..(i + 1) * m * k],
                &b[j * k * n..(j + 1) * k * n],
                c,
                [m, k, n],
            );
        }
        c
    }
}

/// The product of two arrays of the same type of integers or of floats, times a factor for floats.
///
/// # Errors
/// Other types, extents that do not fit.
pub(super) fn multiplied(a: &HostTensor, b: &HostTensor, factor: f64) -> Result<HostTensor> {
    if a.element() != b.element() {
        return Err(Error::user("its inputs have different types"));
    }
    let stacks = Stacks::of(a.shape(), b.shape())?;
    fn of<R: Real>(a: &HostTensor, b: &HostTensor, stacks: &Stacks, factor: f64) -> Result<HostTensor> {
        let mut c = stacks.product(&R::read(a)?, &R::read(b)?);
        if factor != 1.0 {
            let factor = R::of_f64(factor);
            c.iter_mut().for_each(|x| *x = *x * factor);
        }
        rounded(&stacks.shape, c, float_of(a)?)
    }
    match a.element() {
        Some(Element::F64) => of::<f64>(a, b, &stacks, factor),
        Some(element) if element.is_float() => of::<f32>(a, b, &stacks, factor),
        _ => {
            let element = integer_of(a)?;
            wrapped(&stacks.shape, stacks.product(&wide(a), &wide(b)), element)
        }
    }
}

fn matmul(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    one(multiplied(call.tensor(0)?, call.tensor(1)?, 1.0)?)
}

/// A matrix, transposed where it is asked for.
///
/// # Errors
/// No matrix.
pub(super) fn matrix(call: &HostCall<'_>, input: usize, transpose: bool) -> Result<Arc<HostTensor>> {
    let tensor = call.tensor(input)?;
    let [rows, columns] = *tensor.shape() else {
        return call.refused(format!(
            "its input {input} is no matrix, but has {} axes",
            tensor.rank()
        ));
    };
    if !transpose {
        return Ok(tensor.clone());
    }
    let columns_there = if tensor.is_empty() { 0 } else { columns };
    let places = (0..columns_there).flat_map(|column| (0..rows).map(move |row| row * columns + column));
    HostTensor::new(&[columns, rows], tensor.data().at(places)).map(Arc::new)
}

fn gemm(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    one(general_product(call, |x| x)?)
}

/// `alpha` times the product of two matrices plus `beta` times a third array, and a function of floats applied to it.
///
/// # Errors
/// Extents and types that do not fit.
pub(super) fn general_product(call: &HostCall<'_>, activation: impl Fn(f64) -> f64) -> Result<HostTensor> {
    let a = matrix(call, 0, call.int("transA", 0) != 0)?;
    let b = matrix(call, 1, call.int("transB", 0) != 0)?;
    let c = call.optional(2)?;
    if a.element() != b.element() || c.is_some_and(|c| c.element() != a.element()) {
        return call.refused("its inputs have different types");
    }
    let stacks = Stacks::of(a.shape(), b.shape())?;
    let (alpha, beta) = (call.float("alpha", 1.0), call.float("beta", 1.0));
    let is_same = |c: &HostTensor| c.shape() == stacks.shape;
    if call.opset < 7 && call.node.domain.is_empty() && call.int("broadcast", 0) == 0 && !c.is_none_or(|c| is_same(c)) {
        return call.refused("its third input does not broadcast before version 7");
    }
    let added = c.filter(|_| beta != 0.0);
    match a.element() {
        Some(Element::F64) => gemm_of::<f64>(&a, &b, added, &stacks, [alpha, beta], activation),
        Some(element) if element.is_float() => gemm_of::<f32>(&a, &b, added, &stacks, [alpha, beta], activation),
        _ if alpha.fract() != 0.0 || beta.fract() != 0.0 => {
            call.refused(format!("integers are not multiplied by {alpha} or {beta}"))
        }
        _ => {
            let element = integer_of(&a)?;
            let mut y = stacks.product(&wide(&a), &wide(&b));
            let (alpha, beta) = (alpha as i128 as i64, beta as i128 as i64);
            y.iter_mut().for_each(|y| *y = y.wrapping_mul(alpha));
            if let Some(c) = added {
                for (y, c) in y.iter_mut().zip(spread(&wide(c), c.shape(), &stacks.shape)?) {
                    *y = y.wrapping_add(c.wrapping_mul(beta));
                }
            }
            wrapped(&stacks.shape, y, element)
        }
    }
}

fn gemm_of<R: Real>(
    a: &HostTensor,
    b: &HostTensor,
    c: Option<&Arc<HostTensor>>,
    stacks: &Stacks,
    [alpha, beta]: [f64; 2],
    activation: impl Fn(f64) -> f64,
) -> Result<HostTensor> {
    let mut y = stacks.product(&R::read(a)?, &R::read(b)?);
    let (alpha, beta) = (R::of_f64(alpha), R::of_f64(beta));
    y.iter_mut().for_each(|y| *y = *y * alpha);
    if let Some(c) = c {
        for (y, c) in y.iter_mut().zip(spread(&R::read(c)?, c.shape(), &stacks.shape)?) {
            *y += c * beta;
        }
    }
    y.iter_mut().for_each(|y| *y = R::of_f64(activation(y.to_f64())));
    rounded(&stacks.shape, y, float_of(a)?)
}

fn det(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    let [stack @ .., rows, columns] = tensor.shape() else {
        return call.refused("its input is no matrix");
    };
    if rows != columns {
        return call.refused(format!(
            "a matrix of {rows} rows and {columns} columns has no determinant"
        ));
    }
    let (element, count) = (float_of(tensor)?, room(stack)?);
    check_work(&[count, *rows, *rows, *rows])?;
    let mut all = f64::read(tensor)?.into_owned();
    let found = if *rows == 0 || count == 0 {
        vec![1.0; count]
    } else {
        let matrices = all.chunks_exact_mut(rows * rows);
        matrices.map(|matrix| determinant(matrix, *rows)).collect()
    };
    one(rounded(stack, found, element)?)
}

/// The determinant by elimination, which takes the largest number of a column for its pivot.
fn determinant(matrix: &mut [f64], n: usize) -> f64 {
    let mut found = 1.0;
    for at in 0..n {
        let size = |row: usize| matrix[row * n + at].abs();
        let pivot = (at..n).fold(at, |best, row| if size(row) > size(best) { row } else { best });
        if pivot != at {
            found = -found;
            (0..n).for_each(|column| matrix.swap(pivot * n + column, at * n + column));
        }
        let diagonal = matrix[at * n + at];
        found *= diagonal;
        if diagonal == 0.0 {
            return found;
        }
        let (above, below) = matrix.split_at_mut((at + 1) * n);
        let pivots = &above[at * n + at..];
        for row in below.chunks_exact_mut(n) {
            let factor = row[at] / diagonal;
            for (x, pivot) in row[at..].iter_mut().zip(pivots) {
                *x -= factor * pivot;
            }
        }
    }
    found
}
