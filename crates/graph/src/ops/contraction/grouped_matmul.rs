//! Rows in 8 bits for each element times one shared matrix in 4 bits for each.

use lessen_base::{Error, Result};

use super::quantized_matmul::{QuantizedMatMul, cost, products};
use crate::array::Array;
use crate::op::{Cost, Op};
use crate::ops::bits::{DequantizeGroups, QuantizeRows};
use crate::ops::rules::{arity, lead};
use crate::products::Products;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Inputs `codes[.., K]` of `u8` and `scale[..]` of `f32`, as of [`QuantizeRows`], and `weight[N, B]` of `u8` and
/// `weight_scale[N, G]` of `f32`, as of [`DequantizeGroups`] with `K` columns; output `y[.., N]` of `f32`,
/// `y = scale sum_g weight_scale[g] sum_k (codes - 128) (weight - 8)` over the `k` of group `g`.
///
/// Sums of four neighbouring products are exact on every device; what is made of them is rounded in `f32`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupedMatMul {
    /// Elements of a row of the matrix that share a scale, a multiple of 32.
    pub group: usize,
}

named!("grouped_matmul": GroupedMatMul { group });

impl GroupedMatMul {
    /// How rows of `columns` elements are stored.
    fn stored(&self, columns: usize) -> DequantizeGroups {
        DequantizeGroups {
            group: self.group,
            columns,
        }
    }
}

impl Op for GroupedMatMul {
    named!();

    facts! {
        rows(Rows, Rows, Whole, Whole => Rows);
        never_in_place;
        contraction;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 4)?;
        let (codes, weight) = (&inputs[0], &inputs[2]);
        let of_rows = QuantizeRows::quantized(&Type::f32(&codes.shape));
        let are_rows = of_rows.is_some_and(|types| types == inputs[..2]);
        let n = weight.shape.first().copied().unwrap_or(0);
        if !are_rows || codes.rank() < 2 {
            return Err(Error::user(format!(
                "needs codes u8[.., K] and a scale f32[..] for each row, not {codes} and {}",
                inputs[1]
            )));
        }
        let types = self.stored(codes.last()).types(n)?;
        if types != inputs[2..] || codes.last() > QuantizedMatMul::MOST {
            return Err(Error::user(format!(
                "the matrix {weight} and its scales {} are not {} and {}",
                inputs[3], types[0], types[1]
            )));
        }
        Ok(vec![Type::sized(DType::F32, &[lead(codes), &[n]].concat())?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let k = inputs[0].ty.last();
        let weight_types = [inputs[2].ty.clone(), inputs[3].ty.clone()];
        let op = self.stored(k);
        let restored = op.infer(&weight_types).expect("checked by the type rule");
        let weight = op.eval(&inputs[2..], &restored).remove(0);
        let mut y = Vec::with_capacity(outputs[0].numel());
        for (row, scale) in inputs[0].rows().zip(&inputs[1].data) {
            for column in weight.rows() {
                let terms = row.iter().zip(column).map(|(code, of)| (code - 128.0) * of);
                y.push(scale * terms.sum::<f64>());
            }
        }
        vec![Array::new(outputs[0].clone(), y)]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let rows = inputs[0].dequantize_rows(inputs[1]);
        let weight = inputs[2].dequantize_groups(inputs[3], self.stored(inputs[0].dim(-1)));
        Some(vec![rows.matmul_t(weight)])
    }

    fn products(&self, inputs: &[Type], _: &[Type]) -> Vec<Products> {
        products(inputs, 2)
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        cost(inputs, outputs)
    }
}

impl Tensor {
    /// The product `f32[.., N]` of rows of codes `u8[.., K]` with a scale for each row and the transpose of a matrix of
    /// codes of 4 bits. See [`GroupedMatMul`].
    ///
    /// # Panics
    /// If extents differ.
    #[track_caller]
    pub fn grouped_matmul_t(
        self,
        scale: Tensor,
        (weight, weight_scale): (Tensor, Tensor),
        op: GroupedMatMul,
    ) -> Tensor {
        let inputs = [self, scale, weight, weight_scale];
        self.trace().apply1(op, &inputs)
    }
}
