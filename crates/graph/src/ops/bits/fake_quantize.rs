//! Fake quantization: numbers rounded to the levels of few bits, as floats, with a derivative for training.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{Op, OutRole, Role, RowWise, Vjp};
use crate::ops::elementwise::Between;
use crate::ops::rules::{arity, around, arrays, rows};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Inputs `x`, `scale` and, for affine quantization, `zero`, all `f32` or all `f64`; output
/// `y = (clamp(round(x / scale) + round(zero), low, high) - round(zero)) scale` of the type of `x`, ties to even.
///
/// `scale` and `zero` are numbers (`[]`) for all of `x`, or vectors with an element for each index of `axis`. A scale
/// is positive. An infinity of `x` becomes the last level; NaN stays NaN.
///
/// The derivative is straight through (Bengio et al. 2013): `dx = dy` where `round(x / scale) + round(zero)` is from
/// `low` to `high`, and 0 elsewhere. That of the scale is the one of learned step sizes (Esser et al. 2020, equation
/// 3): `dy (round(x / scale) - x / scale)` there and `dy (low - zero)` or `dy (high - zero)` elsewhere, summed up. For
/// a learned clip `c` with `scale = c / high` and without zero, it is `dy` beyond `c`, as in PACT (Choi et al. 2018,
/// equation 3). That of the zero is 0 there and `-dy scale` elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FakeQuantize {
    /// The least code, from -128.
    pub low: i64,
    /// The greatest code, up to 255, at least 2 and at most 255 above the least one.
    pub high: i64,
    /// The axis of scales that are vectors; 0 with one scale for all.
    pub axis: usize,
}

named!("fake_quantize": FakeQuantize { low, high, axis });

impl FakeQuantize {
    /// The bits that codes may have.
    pub const BITS: std::ops::RangeInclusive<u32> = 2..=8;

    /// Symmetric codes of `bits` bits, from 2 to 8: `-(2^(bits - 1) - 1)` to `2^(bits - 1) - 1`.
    pub fn symmetric(bits: u32, axis: usize) -> FakeQuantize {
        let high = (1 << (bits - 1)) - 1;
        FakeQuantize { low: -high, high, axis }
    }

    /// Codes of `bits` bits, from 2 to 8, from 0 to `2^bits - 1`: for numbers that are not negative, and for affine
    /// quantization.
    pub fn unsigned(bits: u32, axis: usize) -> FakeQuantize {
        let high = (1 << bits) - 1;
        FakeQuantize { low: 0, high, axis }
    }

    /// The number of the nearest level.
    fn level(&self, x: f64, scale: f64, zero: f64) -> f64 {
        let zero = zero.round_ties_even();
        let code = ((x / scale).round_ties_even() + zero).clamp(self.low as f64, self.high as f64);
        (code - zero) * scale
    }

    /// A scale or zero for every element of `x`.
    fn whole(&self, parameter: Tensor, x: Tensor) -> Tensor {
        let shape = x.shape();
        if parameter.rank() == 0 {
            return parameter.broadcast_to(&shape);
        }
        let mut along = vec![1; shape.len()];
        along[self.axis] = shape[self.axis];
        parameter.reshape(&along).broadcast_to(&shape)
    }

    /// The sum of the contributions of all elements to a scale or zero.
    fn sum(&self, terms: Tensor, parameter: Tensor) -> Tensor {
        let axes: Vec<usize> = (0..terms.rank())
            .filter(|&axis| parameter.rank() == 0 || axis != self.axis)
            .collect();
        if axes.is_empty() { terms } else { terms.sum_axes(&axes) }
    }

    /// `x / scale`, the codes before they are clamped, and the rounded zero, each for every element.
    fn codes(&self, inputs: &[Tensor]) -> (Tensor, Tensor, Option<Tensor>) {
        let x = inputs[0];
        let parts = x / self.whole(inputs[1], x);
        let zero = inputs.get(2).map(|zero| self.whole(zero.round(), x));
        let codes = parts.round();
        (parts, zero.map_or(codes, |zero| codes + zero), zero)
    }

    /// The codes after they are clamped, without the zero.
    fn levels(&self, codes: Tensor, zero: Option<Tensor>) -> Tensor {
        let clamped = codes.clamp(self.low as f64, self.high as f64);
        zero.map_or(clamped, |zero| clamped - zero)
    }
}

impl Op for FakeQuantize {
    named!();

    facts! { flops(6.0); }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        if inputs.len() != 3 {
            arity(inputs, 2)?;
        }
        let FakeQuantize { low, high, axis } = *self;
        let is_within = low >= -128 && high <= 255;
        if !is_within || !high.checked_sub(low).is_some_and(|codes| (2..=255).contains(&codes)) {
            return Err(Error::user(format!(
                "codes from {low} to {high} are not those of 2 to 8 bits, within -128 and 255"
            )));
        }
        let x = &inputs[0];
        if !matches!(x.dtype, DType::F32 | DType::F64) {
            return Err(Error::user(format!("needs f32 or f64, not {x}")));
        }
        let one = Type::new(x.dtype, &[]);
        if inputs[1..].iter().all(|ty| *ty == one) {
            if axis != 0 {
                return Err(Error::user(format!("one scale for all has no axis {axis}; it is 0")));
            }
            return Ok(vec![x.clone()]);
        }
        let Some(extent) = x.shape.get(axis) else {
            return Err(Error::user(format!("{x} has no axis {axis} for scales")));
        };
        let each = Type::new(x.dtype, &[*extent]);
        match inputs[1..].iter().find(|ty| **ty != each) {
            None => Ok(vec![x.clone()]),
            Some(ty) => Err(Error::user(format!(
                "scale and zero of {x} must be {one}, or {each} for axis {axis}, not {ty}"
            ))),
        }
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let x = inputs[0];
        let (extent, inner) = match inputs[1].ty.rank() {
            0 => (1, 1),
            _ => (x.ty.shape[self.axis], around(&x.ty, self.axis).1),
        };
        let channel = |i: usize| if extent == 1 { 0 } else { i / inner % extent };
        let zero = |i: usize| inputs.get(2).map_or(0.0, |zero| zero.data[channel(i)]);
        let level = |(i, x): (usize, &f64)| self.level(*x, inputs[1].data[channel(i)], zero(i));
        arrays(outputs, [x.data.iter().enumerate().map(level).collect()])
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let [Some(dy)] = *cx.cotangents else {
            return Vec::new();
        };
        let (parts, codes, zero) = self.codes(cx.inputs);
        let between = Between {
            low: self.low as f64 - 0.5,
            high: self.high as f64 + 0.5,
        };
        let passes = dy.trace().apply1(between, &[codes]);
        let none = dy.scalar_like(0.0);
        let mut cotangents = vec![cx.wanted[0].then(|| passes.select(dy, none))];
        cotangents.push(cx.wanted[1].then(|| {
            let step = self.levels(codes, zero) - passes.select(parts, none);
            self.sum(dy * step, cx.inputs[1])
        }));
        if let Some(&zero) = cx.inputs.get(2) {
            let scale = self.whole(cx.inputs[1], dy);
            let clamped = || passes.select(none, -(dy * scale));
            cotangents.push(cx.wanted[2].then(|| self.sum(clamped(), zero)));
        }
        cotangents
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let (_, codes, zero) = self.codes(inputs);
        Some(vec![self.levels(codes, zero) * self.whole(inputs[1], inputs[0])])
    }

    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        let x = &inputs[0];
        let by = |rows, role| {
            let parameters = std::iter::repeat_n(role, inputs.len() - 1);
            let roles: Vec<Role> = std::iter::once(Role::Rows).chain(parameters).collect();
            RowWise::by_rows(rows, &roles, &[OutRole::Rows])
        };
        match inputs[1].rank() {
            0 => RowWise::Elementwise,
            _ if x.numel() == 0 => RowWise::No,
            _ if self.axis + 1 == x.rank() => by(rows(x), Role::Whole),
            _ if self.axis == 0 => by(x.shape[0], Role::Rows),
            _ => RowWise::No,
        }
    }
}

impl Tensor {
    /// The numbers rounded to the levels of these codes, times `scale`. See [`FakeQuantize`].
    ///
    /// # Panics
    /// If the types do not fit; see [`FakeQuantize`].
    #[track_caller]
    pub fn fake_quantize(self, codes: FakeQuantize, scale: Tensor, zero: Option<Tensor>) -> Tensor {
        let inputs: Vec<Tensor> = [self, scale].into_iter().chain(zero).collect();
        self.trace().apply1(codes, &inputs)
    }
}
