//! Reductions of axes.

use lessen_base::{Error, Result};

use super::sizes::room;
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Number, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "ReduceL1", |call| reduced(call, ReductionKind::L1)),
    ("", "ReduceL2", |call| reduced(call, ReductionKind::L2)),
    ("", "ReduceLogSum", |call| reduced(call, ReductionKind::LogSum)),
    ("", "ReduceLogSumExp", |call| reduced(call, ReductionKind::LogSumExp)),
    ("", "ReduceMax", |call| reduced(call, ReductionKind::Max)),
    ("", "ReduceMean", |call| reduced(call, ReductionKind::Mean)),
    ("", "ReduceMin", |call| reduced(call, ReductionKind::Min)),
    ("", "ReduceProd", |call| reduced(call, ReductionKind::Prod)),
    ("", "ReduceSum", |call| reduced(call, ReductionKind::Sum)),
    ("", "ReduceSumSquare", |call| reduced(call, ReductionKind::SumSquare)),
];

/// What is computed of the elements of the reduced axes.
#[derive(Clone, Copy, PartialEq)]
enum ReductionKind {
    L1,
    L2,
    LogSum,
    LogSumExp,
    Max,
    Mean,
    Min,
    Prod,
    Sum,
    SumSquare,
}

/// Which elements of an array go into which element of the result.
struct Folds {
    /// Extents of the result.
    shape: Vec<usize>,
    /// Elements of the result.
    count: usize,
    /// Elements that go into one of the result.
    each: usize,
    /// Extents and whether they are reduced, where neighbours of one kind are one.
    runs: Vec<(usize, bool)>,
}

impl Folds {
    fn of(call: &HostCall<'_>, shape: &[usize]) -> Result<Folds> {
        let given = call.integers_of("axes", 1)?.unwrap_or_default();
        let axes = call.axes(&given, shape.len())?;
        let is_all = axes.is_empty() && call.int("noop_with_empty_axes", 0) == 0;
        let mut is_gone = vec![is_all; shape.len()];
        axes.iter().for_each(|axis| is_gone[*axis] = true);
        let keeps = call.int("keepdims", 1) != 0;
        let (mut result, mut runs, mut each) = (Vec::new(), Vec::<(usize, bool)>::new(), 1usize);
        for (extent, is_reduced) in shape.iter().zip(is_gone) {
            if !is_reduced {
                result.push(*extent);
            } else {
                each = each.saturating_mul(*extent);
                result.extend(keeps.then_some(1));
            }
            match runs.last_mut() {
                Some((last, same)) if *same == is_reduced => *last = last.saturating_mul(*extent),
                _ if *extent == 1 => {}
                _ => runs.push((*extent, is_reduced)),
            }
        }
        Ok(Folds {
            count: room(&result)?,
            shape: result,
            each,
            runs,
        })
    }

    /// Folds elements: `fold` gets what there is of the result's element so far, and an element.
    fn fold<T: Copy, A: Copy>(&self, all: &[T], first: A, fold: impl Fn(A, T) -> A) -> Vec<A> {
        let mut result = vec![first; self.count];
        if !all.is_empty() {
            self.walk(&self.runs, all, &mut result, &fold);
        }
        result
    }

    /// Folds a part of the array, whose runs these are, into its part of the result.
    fn walk<T: Copy, A: Copy>(&self, runs: &[(usize, bool)], all: &[T], result: &mut [A], fold: &impl Fn(A, T) -> A) {
        match runs {
            [] => result[0] = fold(result[0], all[0]),
            [(_, true)] => result[0] = all.iter().fold(result[0], |sum, x| fold(sum, *x)),
            [(_, false)] => result.iter_mut().zip(all).for_each(|(sum, x)| *sum = fold(*sum, *x)),
            [(extent, is_reduced), rest @ ..] => {
                let part = all.len() / extent;
                let width = if *is_reduced {
                    result.len()
                } else {
                    result.len() / extent
                };
                for (i, part) in all.chunks_exact(part).enumerate() {
                    let at = if *is_reduced { 0 } else { i * width };
                    self.walk(rest, part, &mut result[at..at + width], fold);
                }
            }
        }
    }
}

fn reduced(call: &HostCall<'_>, kind: ReductionKind) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    let folds = Folds::of(call, tensor.shape())?;
    let data: Data = match tensor.data() {
        Data::Bool(v) => match kind {
            ReductionKind::Max => folds.fold(v, false, |a, b| a | b).into(),
            ReductionKind::Min => folds.fold(v, true, |a, b| a & b).into(),
            _ => return call.refused("truth values have neither sums nor products"),
        },
        Data::Text(_) => return call.refused("texts are not reduced"),
        Data::F64(v) => floats(&folds, v, kind).into(),
        Data::F32(v) => narrowed(&floats(&folds, v, kind), Element::F32),
        Data::U64(v) => integers(&folds, v, kind, (0, u64::MAX.into()))?.into(),
        Data::I64(v) => integers(&folds, v, kind, (i64::MIN.into(), i64::MAX.into()))?.into(),
        other => match other.element() {
            Some(element) if element.is_float() => narrowed(&floats(&folds, &other.to_f64(), kind), element),
            Some(element @ (Element::Int(_) | Element::Unsigned(_))) => {
                let all = other.integers().unwrap_or_default();
                Data::from(integers(&folds, &all, kind, range(element))?).cast(element)
            }
            _ => return call.refused("its input has no numbers"),
        },
    };
    one(HostTensor::new(&folds.shape, data)?)
}

fn narrowed(all: &[f64], element: Element) -> Data {
    Data::of_f64(element, all.iter().copied())
}

/// The least and the greatest integer of a type.
fn range(element: Element) -> (i128, i128) {
    let bits = 8 * element.bytes();
    match element {
        Element::Unsigned(_) => (0, (1 << bits) - 1),
        _ => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// Reductions of floats, in `f64`.
fn floats<T: Number>(folds: &Folds, all: &[T], kind: ReductionKind) -> Vec<f64> {
    let sum = |of: fn(f64) -> f64| folds.fold(all, 0.0, |sum, x| sum + of(x.to_f64()));
    let each = |mut all: Vec<f64>, of: fn(f64) -> f64| {
        all.iter_mut().for_each(|x| *x = of(*x));
        all
    };
    match kind {
        ReductionKind::Sum => sum(|x| x),
        ReductionKind::L1 => sum(f64::abs),
        ReductionKind::SumSquare => sum(|x| x * x),
        ReductionKind::L2 => each(sum(|x| x * x), f64::sqrt),
        ReductionKind::LogSum => each(sum(|x| x), f64::ln),
        ReductionKind::Mean => {
            let mut means = sum(|x| x);
            means.iter_mut().for_each(|mean| *mean /= folds.each as f64);
            means
        }
        ReductionKind::Prod => folds.fold(all, 1.0, |product, x| product * x.to_f64()),
        ReductionKind::Max => folds.fold(all, f64::NEG_INFINITY, |a, x| extreme(a, x.to_f64(), |x, a| x > a)),
        ReductionKind::Min => folds.fold(all, f64::INFINITY, |a, x| extreme(a, x.to_f64(), |x, a| x < a)),
        ReductionKind::LogSumExp => {
            let first = (f64::NEG_INFINITY, 0.0);
            let sums = folds.fold(all, first, |(most, sum), x| {
                let x = x.to_f64();
                if x <= most && most != f64::NEG_INFINITY {
                    let term = if x == most { 1.0 } else { (x - most).exp() };
                    (most, sum + term)
                } else if x == f64::NEG_INFINITY {
                    (most, sum)
                } else {
                    (x, sum * (most - x).exp() + 1.0)
                }
            });
            sums.into_iter().map(|(most, sum)| most + sum.ln()).collect()
        }
    }
}

/// The greater or the smaller of two floats; NaN where one is.
fn extreme(a: f64, x: f64, is_beyond: fn(f64, f64) -> bool) -> f64 {
    if x.is_nan() || is_beyond(x, a) { x } else { a }
}

/// Reductions of integers between a least and a greatest one, which wrap; what is no integer is cut off.
fn integers<T: Number>(folds: &Folds, all: &[T], kind: ReductionKind, (least, most): (i128, i128)) -> Result<Vec<T>> {
    let sum = || folds.fold(all, 0i128, |sum, x| sum.wrapping_add(x.to_i128()));
    let squares = || {
        folds.fold(all, 0i128, |sum, x| {
            let x = x.to_i128();
            sum.wrapping_add(x.wrapping_mul(x))
        })
    };
    let wrapped = |all: Vec<i128>| all.into_iter().map(T::of_i128).collect();
    let cut = |all: Vec<f64>| {
        all.into_iter()
            .map(|x| {
                if x.is_finite() {
                    Ok(T::of_i128(x as i128))
                } else {
                    no_integer()
                }
            })
            .collect::<Result<Vec<T>>>()
    };
    Ok(match kind {
        ReductionKind::Sum => wrapped(sum()),
        ReductionKind::SumSquare => wrapped(squares()),
        ReductionKind::L1 => wrapped(folds.fold(all, 0i128, |sum, x| sum.wrapping_add(x.to_i128().wrapping_abs()))),
        ReductionKind::L2 => cut(squares().into_iter().map(|x| (x as f64).sqrt()).collect())?,
        ReductionKind::LogSum => cut(sum().into_iter().map(|x| (x as f64).ln()).collect())?,
        ReductionKind::LogSumExp => cut(floats(
            folds,
            &all.iter().map(|x| x.to_f64()).collect::<Vec<f64>>(),
            kind,
        ))?,
        ReductionKind::Mean if folds.each == 0 && folds.count > 0 => return no_integer(),
        ReductionKind::Mean => {
            let count = folds.each.max(1) as i128;
            wrapped(sum().into_iter().map(|sum| sum / count).collect())
        }
        ReductionKind::Prod => folds.fold(all, T::ONE, T::times),
        ReductionKind::Max => folds.fold(all, T::of_i128(least), |a, x| if x > a { x } else { a }),
        ReductionKind::Min => folds.fold(all, T::of_i128(most), |a, x| if x < a { x } else { a }),
    })
}

fn no_integer<T>() -> Result<T> {
    Err(Error::user("its result is no integer"))
}
