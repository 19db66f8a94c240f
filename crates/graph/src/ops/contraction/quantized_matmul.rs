//! Rows times one shared matrix, both in 8 bits for each element with a scale for each row.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::Named;
use crate::op::{Cost, Op, OutRole, Role, RowWise};
use crate::ops::bits::QuantizeRows;
use crate::ops::rules::{arity, lead, rows};
use crate::products::Products;
use crate::trace::Tensor;
use crate::types::Type;

/// The code of zero, as of [`QuantizeRows`].
const ZERO: f64 = 128.0;

/// Inputs `codes[.., K]` of `u8` and `scale[..]` of `f32`, `weight[N, K]` of `u8` and `weight_scale[N]` of `f32`;
/// output `y[.., N]` of `f32`, `y = scale weight_scale sum_k (codes - 128) (weight - 128)`. Codes and scales are those
/// of [`QuantizeRows`].
///
/// The sum is an exact integer on every device, which is rounded to `f32` and multiplied by the product of the scales.
/// `K` is at most [`QuantizedMatMul::MOST`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuantizedMatMul;

named!("quantized_matmul": QuantizedMatMul {});

impl QuantizedMatMul {
    /// The most terms of a sum: those of codes without their zero are below 2^31 in magnitude.
    pub const MOST: usize = 65_536;
}

impl Op for QuantizedMatMul {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn attrs(&self) -> Attrs {
        self.to_attrs()
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 4)?;
        let (codes, weight) = (&inputs[0], &inputs[2]);
        let is_quantized = |codes: &Type, scale: &Type| {
            QuantizeRows::quantized(&Type::f32(&codes.shape))
                .is_some_and(|types| types == [codes.clone(), scale.clone()])
        };
        let are_quantized = is_quantized(codes, &inputs[1]) && is_quantized(weight, &inputs[3]);
        if !are_quantized || codes.rank() < 2 || weight.rank() != 2 {
            return Err(Error::user(format!(
                "needs codes u8[.., K], a scale f32[..], a weight u8[N, K] and its scale f32[N], not {}, {}, {} and {}",
                inputs[0], inputs[1], inputs[2], inputs[3]
            )));
        }
        if codes.last() != weight.last() {
            return Err(Error::user(format!(
                "the inner extents of {codes} and {weight} differ: {} and {}",
                codes.last(),
                weight.last()
            )));
        }
        if codes.last() > Self::MOST {
            return Err(Error::user(format!(
                "the inner extent {} is above {}, beyond which sums do not fit 32 bits",
                codes.last(),
                Self::MOST
            )));
        }
        let shape = [lead(codes), &weight.shape[..1]].concat();
        Ok(vec![Type::sized(crate::types::DType::F32, &shape)?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let mut y = Vec::with_capacity(outputs[0].numel());
        for (row, scale) in inputs[0].rows().zip(&inputs[1].data) {
            for (weight, weight_scale) in inputs[2].rows().zip(&inputs[3].data) {
                let terms = row.iter().zip(weight).map(|(a, b)| (a - ZERO) * (b - ZERO));
                y.push(terms.sum::<f64>() * (scale * weight_scale));
            }
        }
        vec![Array::new(outputs[0].clone(), y)]
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let [codes, scale, weight, weight_scale] = *inputs else {
            return None;
        };
        let weight = weight.dequantize_rows(weight_scale);
        Some(vec![codes.dequantize_rows(scale).matmul_t(weight)])
    }

    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        let roles = [Role::Rows, Role::Rows, Role::Whole, Role::Whole];
        RowWise::by_rows(rows(&inputs[0]), &roles, &[OutRole::Rows])
    }

    fn in_place(&self, _: usize, _: usize, _: &[Type], _: &[Type]) -> bool {
        false
    }

    fn is_contraction(&self) -> bool {
        true
    }

    fn products(&self, inputs: &[Type], _: &[Type]) -> Vec<Products> {
        let (codes, weight) = (&inputs[0], &inputs[2]);
        let factors = [Some(0), Some(2)];
        vec![Products::matrix(factors, rows(codes), codes.last(), weight.shape[0])]
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Cost {
            product_flops: 2.0 * inputs[0].last() as f64 * outputs[0].numel() as f64,
            ..Cost::vector(0.0, inputs, outputs)
        }
    }
}

impl<'g> Tensor<'g> {
    /// The product `f32[.., N]` of rows of codes `u8[.., K]` with a scale for each row and the transpose of such a
    /// matrix `u8[N, K]`. See [`QuantizedMatMul`].
    ///
    /// # Panics
    /// If extents differ, or `K` is above [`QuantizedMatMul::MOST`].
    #[track_caller]
    pub fn quantized_matmul_t(self, scale: Tensor<'g>, (weight, weight_scale): (Tensor<'g>, Tensor<'g>)) -> Tensor<'g> {
        let inputs = [self, scale, weight, weight_scale];
        self.trace().apply1(QuantizedMatMul, &inputs)
    }
}
