//! Shares of an axis: Softmax, its logarithm, and the place of the largest.

use lessen_base::Result;

use super::sizes::around;
use crate::operators::real::{Real, float_of, in_reals, rounded};
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Softmax", softmax),
    ("", "LogSoftmax", log_softmax),
    ("", "Hardmax", hardmax),
];

fn softmax(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    in_reals!(tensor, along_axis(call, tensor, soft))
}

fn log_softmax(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    in_reals!(tensor, along_axis(call, tensor, log_soft))
}

fn hardmax(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    in_reals!(tensor, along_axis(call, tensor, hard))
}

/// Applies a function to each line along the axis; before version 13 a line takes all axes from it on.
fn along_axis<R: Real>(call: &HostCall<'_>, tensor: &HostTensor, of: fn(&mut [R])) -> Result<Vec<HostValue>> {
    let is_old = call.opset < 13;
    let axis = call.axis(call.int("axis", if is_old { 1 } else { -1 }), tensor.rank())?;
    let (_, length, inner) = around(tensor.shape(), axis);
    let (length, inner) = if is_old {
        (length.saturating_mul(inner), 1)
    } else {
        (length, inner)
    };
    let mut all = R::read(tensor)?.into_owned();
    for_each_line(&mut all, length, inner, of);
    one(rounded(tensor.shape(), all, float_of(tensor)?)?)
}

/// Applies a function to each line of `length` elements that are `inner` apart.
pub(super) fn for_each_line<R: Real>(all: &mut [R], length: usize, inner: usize, of: fn(&mut [R])) {
    if all.is_empty() {
        return;
    }
    if inner == 1 {
        return all.chunks_exact_mut(length).for_each(of);
    }
    let mut line = vec![R::ZERO; length];
    for part in all.chunks_exact_mut(length * inner) {
        for at in 0..inner {
            for (x, part) in line.iter_mut().zip(part.chunks_exact(inner)) {
                *x = part[at];
            }
            of(&mut line);
            for (x, part) in line.iter().zip(part.chunks_exact_mut(inner)) {
                part[at] = *x;
            }
        }
    }
}

fn largest<R: Real>(line: &[R]) -> R {
    line.iter().fold(R::LEAST, |most, x| if *x > most { *x } else { most })
}

/// Replaces numbers by their exponentials over the sum of all exponentials.
pub(super) fn soft<R: Real>(line: &mut [R]) {
    let most = largest(line);
    let mut sum = R::ZERO;
    for x in line.iter_mut() {
        *x = (*x - most).exp();
        sum += *x;
    }
    line.iter_mut().for_each(|x| *x = *x / sum);
}

/// Replaces numbers by the logarithms of their Softmax.
pub(super) fn log_soft<R: Real>(line: &mut [R]) {
    let most = largest(line);
    let sum = line.iter().fold(0.0, |sum, x| sum + (*x - most).exp().to_f64());
    let log = R::of_f64(sum.ln());
    line.iter_mut().for_each(|x| *x = *x - most - log);
}

/// Replaces the first of the largest numbers by one, and all others by nought.
fn hard<R: Real>(line: &mut [R]) {
    let mut best = 0;
    for (at, x) in line.iter().enumerate() {
        if *x > line[best] {
            best = at;
        }
    }
    for (at, x) in line.iter_mut().enumerate() {
        *x = if at == best { R::ONE } else { R::ZERO };
    }
}
