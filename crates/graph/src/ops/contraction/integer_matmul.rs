//! Rows times one shared matrix, both codes of 8 bits, as integers.

use lessen_base::{Error, Result};

use super::quantized_matmul::{cost, product, products, sums};
use crate::array::Array;
use crate::op::{Cost, Op, OutRole, Role, RowWise};
use crate::ops::rules::{arity, rows};
use crate::products::Products;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Inputs `codes[.., K]` and `weight[N, K]` of `u8`, and optionally `bias[N]` of `i32`; output `y[.., N]` of `i32`,
/// `y = sum_k (codes - zero) (weight - 128) + bias`, which wraps. `K` is at most
/// [`QuantizedMatMul::MOST`](super::QuantizedMatMul::MOST). It has no derivative.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct IntegerMatMul {
    /// The code of zero of the rows.
    pub zero: u8,
}

named!("integer_matmul": IntegerMatMul { zero });

impl Op for IntegerMatMul {
    named!();

    facts! {
        never_in_place;
        contraction;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, if inputs.len() == 3 { 3 } else { 2 })?;
        let (codes, weight) = (&inputs[0], &inputs[1]);
        let are_codes = [codes, weight].iter().all(|ty| ty.dtype == DType::U8 && ty.last() > 0);
        if !are_codes || codes.rank() < 2 || weight.rank() != 2 {
            return Err(Error::user(format!(
                "needs codes u8[.., K] and a weight u8[N, K], not {codes} and {weight}"
            )));
        }
        Ok(vec![product(codes, weight, inputs.get(2), DType::I32)?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let sums = sums(self.zero, [inputs[0], inputs[1]], inputs.get(2).copied());
        vec![Array::new(outputs[0].clone(), sums)]
    }

    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        let roles = [Role::Rows, Role::Whole, Role::Whole];
        RowWise::by_rows(rows(&inputs[0]), &roles[..inputs.len()], &[OutRole::Rows])
    }

    fn products(&self, inputs: &[Type], _: &[Type]) -> Vec<Products> {
        products(inputs, 1)
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        cost(inputs, outputs)
    }
}

impl Tensor {
    /// The integers `i32[.., N]` of the product of rows of codes `u8[.., K]` and the transpose of a matrix `u8[N, K]`,
    /// with a bias for each column. See [`IntegerMatMul`].
    ///
    /// # Panics
    /// If extents differ, or `K` is above [`QuantizedMatMul::MOST`](super::QuantizedMatMul::MOST).
    #[track_caller]
    pub fn integer_matmul_t(self, weight: Tensor, bias: Option<Tensor>, op: IntegerMatMul) -> Tensor {
        let inputs: Vec<Tensor> = [self, weight].into_iter().chain(bias).collect();
        self.trace().apply1(op, &inputs)
    }
}
