//! Columns centered, scaled and shifted, as batch normalization does with its statistics, and the sums of its
//! derivative.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::inverse::FromOutput;
use crate::op::{Op, Vjp};
use crate::ops::norm::scale_shift_from_output::{self, ScaleShiftFromOutput};
use crate::ops::norm::scale_shift_sums_from_output::ScaleShiftSumsFromOutput;
use crate::ops::norm::statistics::check_parameters;
use crate::ops::rules::{arity, arrays};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Inputs `x[.., C]`, `center[C]`, `scale[C]`, `shift[C]`; output `y = (x - center) scale + shift`. Beside vectors of
/// `f32`, `x` may be `bf16`; the result is `f32`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScaleShift;

/// Inputs `x[.., C]`, `center[C]`, `dy[.., C]`; outputs `dshift[C]`, the sum of `dy` over all rows, and `dscale[C]`,
/// that of `dy (x - center)`. Of `f32`, `x` alone may be `bf16`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScaleShiftSums;

named!("scale_shift": ScaleShift {});

/// The type of `x` in the dtype of the center, which it has or may be widened to.
fn widened(x: &Type, center: &Type) -> Result<Type> {
    if x.dtype != center.dtype && (x.dtype, center.dtype) != (DType::BF16, DType::F32) {
        return Err(Error::user(format!(
            "{x} cannot be centered at {center}, of another dtype"
        )));
    }
    Ok(Type::new(center.dtype, &x.shape))
}

impl Op for ScaleShift {
    named!();

    facts! {
        rows(Rows, Whole, Whole, Whole => Rows);
        in_place((0, 0));
        flops(3.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 4)?;
        let wide = widened(&inputs[0], &inputs[1])?;
        check_parameters(&wide, &inputs[1..])?;
        Ok(vec![wide])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let [center, scale, shift] = [1, 2, 3].map(|i| &inputs[i].data);
        let of_row = |x: &[f64]| -> Vec<f64> {
            let columns = x.iter().zip(center).zip(scale.iter().zip(shift));
            columns.map(|((x, c), (a, b))| (x - c) * a + b).collect()
        };
        arrays(outputs, [inputs[0].rows().flat_map(of_row).collect()])
    }

    /// The cotangent of `center` is `-scale dshift`: it takes no sum of its own.
    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let [Some(dy)] = *cx.cotangents else {
            return Vec::new();
        };
        let (x, center, scale) = (cx.inputs[0], cx.inputs[1], cx.inputs[2]);
        let sums = dy.trace().apply(ScaleShiftSums, &[x, center, dy]);
        let (dshift, dscale) = (sums[0], sums[1]);
        let dx = (dy * scale).cast(x.dtype());
        vec![Some(dx), Some(-(scale * dshift)), Some(dscale), Some(dshift)]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [x, center, scale, shift] = [0, 1, 2, 3].map(|i| inputs[i]);
        Some(vec![(x.cast(center.dtype()) - center) * scale + shift])
    }

    fn from_output(&self, inputs: &[Type]) -> Option<FromOutput> {
        scale_shift_from_output::rule(ScaleShiftFromOutput, &[2, 3], inputs)
    }
}

named!("scale_shift_sums": ScaleShiftSums {});

impl Op for ScaleShiftSums {
    named!();

    facts! {
        rows(Rows, Whole, Rows => Sum, Sum);
        flops(4.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 3)?;
        let wide = widened(&inputs[0], &inputs[1])?;
        check_parameters(&wide, &inputs[1..2])?;
        if inputs[2] != wide {
            return Err(Error::user(format!(
                "the cotangent of {} must be {wide}, not {}",
                inputs[0], inputs[2]
            )));
        }
        Ok(vec![inputs[1].clone(); 2])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let center = &inputs[1].data;
        let (mut dshift, mut dscale) = (vec![0.0; center.len()], vec![0.0; center.len()]);
        for (x, dy) in inputs[0].rows().zip(inputs[2].rows()) {
            for i in 0..x.len() {
                dshift[i] += dy[i];
                dscale[i] += dy[i] * (x[i] - center[i]);
            }
        }
        arrays(outputs, [dshift, dscale])
    }

    /// With cotangents `u` of `dshift` and `v` of `dscale`: `ddy = (x - center) v + u`, `dx = dy v`, and that of
    /// `center` is `-v dshift`.
    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let (x, center, dy) = (cx.inputs[0], cx.inputs[1], cx.inputs[2]);
        match *cx.cotangents {
            [Some(u), None] => vec![None, None, Some(u.broadcast_to(&dy.shape()))],
            [u, Some(v)] => {
                let u = u.unwrap_or(v * 0.0);
                let ddy = x.scale_shift(center, v, u);
                vec![Some((dy * v).cast(x.dtype())), Some(-(v * cx.outputs[0])), Some(ddy)]
            }
            _ => Vec::new(),
        }
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [x, center, dy] = [0, 1, 2].map(|i| inputs[i]);
        Some(vec![dy.sum_rows(), (dy * (x.cast(center.dtype()) - center)).sum_rows()])
    }

    fn from_output(&self, inputs: &[Type]) -> Option<FromOutput> {
        scale_shift_from_output::rule(ScaleShiftSumsFromOutput, &[2], inputs)
    }
}

impl Tensor {
    /// `(self - center) scale + shift` with vectors `[C]` for the columns of `[.., C]`. See [`ScaleShift`].
    #[track_caller]
    pub fn scale_shift(self, center: Tensor, scale: Tensor, shift: Tensor) -> Tensor {
        self.trace().apply1(ScaleShift, &[self, center, scale, shift])
    }
}
