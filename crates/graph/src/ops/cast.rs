//! Cast: the same numbers in another dtype.

use lessen_base::Result;

use super::{arity, fold_exactly};
use crate::{Array, Attr, Attrs, DType, Fold, Op, RowWise, Tensor, Type, Vjp};

/// `y[i] = x[i]` in another dtype. Floats round to the nearest representable number, ties to even; a float
/// becomes an integer by dropping its fraction, beyond the range by the nearest end of it, NaN becomes 0;
/// integers wrap; everything but 0 is true; true is 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cast {
    /// The new dtype.
    pub dtype: DType,
}

impl Op for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().with("dtype", Attr::Word(self.dtype.name().to_string()))
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        Ok(vec![Type::new(self.dtype, &inputs[0].shape)])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let from = inputs[0].ty.dtype;
        let data = inputs[0]
            .data
            .iter()
            .map(|&x| convert(x, from, self.dtype))
            .collect();
        vec![Array::new(outputs[0].clone(), data)]
    }

    /// Between floats the cotangent is cast back; elsewhere there is no derivative.
    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        let from = cx.inputs[0].dtype();
        let smooth = from.is_float() && self.dtype.is_float();
        vec![cx.cotangents[0].filter(|_| smooth).map(|dy| dy.cast(from))]
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }

    fn fold(&self, known: &[Option<f64>], inputs: &[Type], outputs: &[Type]) -> Fold {
        fold_exactly(self, known, inputs, outputs)
    }
}

/// A number of one dtype in another.
fn convert(x: f64, from: DType, to: DType) -> f64 {
    if from == to {
        return x;
    }
    match to {
        DType::F64 => x,
        DType::F32 => f64::from(x as f32),
        DType::BF16 => round_to_bf16(x),
        DType::I32 if from.is_float() => f64::from(x as i32),
        DType::I32 => f64::from(x as i64 as i32),
        DType::U32 if from.is_float() => f64::from(x as u32),
        DType::U32 => f64::from(x as i64 as u32),
        DType::Bool => f64::from(x != 0.0),
    }
}

/// The nearest number whose `f32` has 16 zero bits at the end, ties to even.
fn round_to_bf16(x: f64) -> f64 {
    let nearest = x as f32;
    if !nearest.is_finite() {
        return f64::from(nearest);
    }
    let bits = nearest.to_bits();
    let rounded = bits + 0x7FFF + (bits >> 16 & 1);
    f64::from(f32::from_bits(rounded & 0xFFFF_0000))
}

impl<'g> Tensor<'g> {
    /// The same numbers in another dtype; this very tensor when it has that dtype. See [`Cast`].
    pub fn cast(self, dtype: DType) -> Tensor<'g> {
        if self.dtype() == dtype {
            return self;
        }
        self.trace().apply1(Cast { dtype }, &[self])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_and_saturates() {
        let cases = [
            (-2.7, DType::F32, DType::I32, -2.0),
            (3e10, DType::F32, DType::I32, 2147483647.0),
            (f64::NAN, DType::F32, DType::I32, 0.0),
            (-1.0, DType::F32, DType::U32, 0.0),
            (-1.0, DType::I32, DType::U32, 4294967295.0),
            (4294967295.0, DType::U32, DType::I32, -1.0),
            (0.5, DType::F32, DType::Bool, 1.0),
            (1.0, DType::Bool, DType::F32, 1.0),
            (0.1, DType::F64, DType::F32, 0.1f32 as f64),
            (1.0 + 1.0 / 256.0, DType::F32, DType::BF16, 1.0),
            (1.0 + 3.0 / 256.0, DType::F32, DType::BF16, 1.0 + 2.0 / 128.0),
            (3.4e38, DType::F32, DType::BF16, f64::INFINITY),
        ];
        for (x, from, to, y) in cases {
            assert_eq!(convert(x, from, to), y, "{x} from {from:?} to {to:?}");
        }
    }
}
