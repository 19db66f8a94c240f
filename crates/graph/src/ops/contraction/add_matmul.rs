//! Matrix product of some rows, added to the product of the rows before: `y[m, n] = sum[m, n] + sum_k a[k, m] b[k, n]`.

use lessen_base::{Error, Result};

use super::matmul::MatMul;
use crate::array::Array;
use crate::op::{Cost, Op, Vjp};
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// `sum + a^T b` of `a[k, m]`, `b[k, n]` and `sum[m, n]`, as the gradient of a weight is collected slice by slice of
/// its rows. Inputs are `a`, `b` and `sum`; the result may overwrite `sum`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct AddMatMul {
    /// Factors are `bf16`, the sum and the result `f32`.
    pub widens: bool,
}

named!("add_matmul": AddMatMul { widens });

impl AddMatMul {
    /// The product that is added.
    pub fn product(&self) -> MatMul {
        MatMul {
            transpose_a: true,
            transpose_b: false,
            widens: self.widens,
        }
    }
}

impl Op for AddMatMul {
    named!();

    facts! {
        in_place((2, 0));
        contraction;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 3)?;
        let product = self.product().infer(&inputs[..2])?;
        if product[0].rank() != 2 || product[0] != inputs[2] {
            return Err(Error::user(format!(
                "the product of {} and {} is not a matrix of the type {}",
                inputs[0], inputs[1], inputs[2]
            )));
        }
        Ok(product)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let mut product = self.product().eval(&inputs[..2], outputs);
        let sums = product[0].data.iter_mut().zip(&inputs[2].data);
        sums.for_each(|(y, sum)| *y += sum);
        product
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let product = Vjp {
            inputs: &cx.inputs[..2],
            wanted: &cx.wanted[..2],
            ..*cx
        };
        let mut cotangents = self.product().vjp(&product);
        cotangents.push(cx.cotangents[0]);
        cotangents
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Cost {
            vector_flops: outputs[0].numel() as f64,
            ..self.product().cost(&inputs[..2], outputs)
        }
    }
}

impl MatMul {
    /// The operation that adds a product of further rows, where all of both factors' rows are summed over.
    pub(super) fn adding(&self, inputs: &[Type]) -> Option<AddMatMul> {
        let are_matrices = inputs.iter().all(|ty| ty.rank() == 2);
        let adds_in_f32 = self.widens || inputs.iter().all(|ty| ty.dtype == DType::F32);
        (are_matrices && adds_in_f32 && self.transpose_a && !self.transpose_b)
            .then_some(AddMatMul { widens: self.widens })
    }
}
