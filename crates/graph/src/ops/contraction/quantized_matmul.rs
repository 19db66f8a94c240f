//! Rows times one shared matrix, both in 8 bits for each element with a scale for each row.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::{AttrValue, Named};
use crate::op::{Cost, Op, OutRole, Role, RowWise};
use crate::ops::bits::{QuantizeLinear, QuantizeRows};
use crate::ops::element_function::Elementwise;
use crate::ops::rules::{arity, lead, rows};
use crate::products::Products;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// The code of zero, as of [`QuantizeRows`].
const ZERO: f64 = 128.0;

/// Inputs `codes[.., K]` of `u8` and `scale[..]` of `f32`, `weight[N, K]` of `u8` and `weight_scale[N]` of `f32`, and
/// optionally `bias[N]` of `i32`; output `y[.., N]` of `f32`,
/// `y = scale weight_scale (sum_k (codes - zero) (weight - 128) + bias)`. Codes and scales are those of
/// [`QuantizeRows`], but for the code `zero` of zero, which is 128 there.
///
/// The sum is an exact integer on every device, which wraps to 32 bits with its bias, is rounded to `f32`, and
/// multiplied by the product of the scales. `K` is at most [`QuantizedMatMul::MOST`]. With
/// [`QuantizedMatMul::result`] the result is the codes of these numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuantizedMatMul {
    /// The code of zero of the rows.
    pub zero: u8,
    /// The codes that the result's numbers become; `None` where the result is the numbers.
    pub result: Option<QuantizeLinear>,
}

impl Named for QuantizedMatMul {
    const NAME: &'static str = "quantized_matmul";

    fn to_attrs(&self) -> Attrs {
        QuantizeLinear::with_result(self.result, Attrs::default().with("zero", self.zero.to_attr()))
    }

    fn from_attrs(attrs: &Attrs) -> Result<QuantizedMatMul> {
        Ok(QuantizedMatMul {
            zero: AttrValue::read(attrs, "zero")?,
            result: QuantizeLinear::read_result(attrs)?,
        })
    }
}

impl Default for QuantizedMatMul {
    /// Rows as of [`QuantizeRows`].
    fn default() -> QuantizedMatMul {
        QuantizedMatMul::new(ZERO as u8)
    }
}

impl QuantizedMatMul {
    /// A product whose result is numbers.
    pub fn new(zero: u8) -> QuantizedMatMul {
        QuantizedMatMul { zero, result: None }
    }

    /// The most terms of a sum: those of codes without their zero are below 2^31 in magnitude.
    pub const MOST: usize = 65_536;
}

impl Op for QuantizedMatMul {
    named!();

    facts! {
        never_in_place;
        contraction;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, if inputs.len() == 5 { 5 } else { 4 })?;
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
        let numbers = product(codes, weight, inputs.get(4), DType::F32)?;
        Ok(vec![QuantizeLinear::of_result(self.result, numbers)?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let sums = sums(self.zero, [inputs[0], inputs[2]], inputs.get(4).copied());
        let scales = inputs[1]
            .data
            .iter()
            .flat_map(|scale| inputs[3].data.iter().map(move |of| scale * of));
        let numbers = sums.into_iter().zip(scales).map(|(sum, scale)| sum * scale);
        let y = numbers
            .map(|number| self.result.map_or(number, |codes| codes.element(&[number])))
            .collect();
        vec![Array::new(outputs[0].clone(), y)]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let (codes, scale, weight, weight_scale) = (inputs[0], inputs[1], inputs[2], inputs[3]);
        let x = (codes.cast(DType::F32) - f64::from(self.zero)) * scale.unsqueeze(-1);
        let y = x.matmul_t(weight.dequantize_rows(weight_scale));
        let bias = |bias: &Tensor| scale.unsqueeze(-1) * (weight_scale * bias.cast(DType::F32));
        let y = inputs.get(4).map_or(y, |of| y + bias(of));
        Some(vec![self.result.map_or(y, |codes| y.trace().apply1(codes, &[y]))])
    }

    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        let roles = [Role::Rows, Role::Rows, Role::Whole, Role::Whole, Role::Whole];
        RowWise::by_rows(rows(&inputs[0]), &roles[..inputs.len()], &[OutRole::Rows])
    }

    fn products(&self, inputs: &[Type], _: &[Type]) -> Vec<Products> {
        products(inputs, 2)
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        cost(inputs, outputs)
    }
}

/// The products of rows of codes, input 0, with the rows of a matrix, input `weight`.
pub(super) fn products(inputs: &[Type], weight: usize) -> Vec<Products> {
    let codes = &inputs[0];
    let factors = [Some(0), Some(weight)];
    vec![Products::matrix(
        factors,
        rows(codes),
        codes.last(),
        inputs[weight].shape[0],
    )]
}

/// The cost of these products.
pub(super) fn cost(inputs: &[Type], outputs: &[Type]) -> Cost {
    Cost {
        product_flops: 2.0 * inputs[0].last() as f64 * outputs[0].numel() as f64,
        ..Cost::vector(0.0, inputs, outputs)
    }
}

/// The type of a product of codes.
pub(super) fn product(codes: &Type, weight: &Type, bias: Option<&Type>, dtype: DType) -> Result<Type> {
    if codes.last() != weight.last() {
        return Err(Error::user(format!(
            "the inner extents of {codes} and {weight} differ: {} and {}",
            codes.last(),
            weight.last()
        )));
    }
    if codes.last() > QuantizedMatMul::MOST {
        return Err(Error::user(format!(
            "the inner extent {} is above {}, beyond which sums do not fit 32 bits",
            codes.last(),
            QuantizedMatMul::MOST
        )));
    }
    if let Some(bias) = bias.filter(|bias| **bias != Type::new(DType::I32, &weight.shape[..1])) {
        return Err(Error::user(format!("the bias {bias} is not i32[{}]", weight.shape[0])));
    }
    Type::sized(dtype, &[lead(codes), &weight.shape[..1]].concat())
}

/// The sums of products of rows of codes and of a matrix, each with the bias of its column, in 32 bits.
pub(super) fn sums(zero: u8, [codes, weight]: [&Array; 2], bias: Option<&Array>) -> Vec<f64> {
    let mut all = Vec::new();
    for row in codes.rows() {
        for (column, weight) in weight.rows().enumerate() {
            let terms = row.iter().zip(weight).map(|(a, b)| (a - f64::from(zero)) * (b - ZERO));
            let bias = bias.map_or(0.0, |bias| bias.data[column]);
            all.push(f64::from((terms.sum::<f64>() + bias) as i64 as i32));
        }
    }
    all
}

impl Tensor {
    /// The product `f32[.., N]`, or its codes, of rows of codes `u8[.., K]` with a scale for each row and the transpose
    /// of such a matrix `u8[N, K]`, with a bias `i32[N]` of the sums. See [`QuantizedMatMul`].
    ///
    /// # Panics
    /// If extents differ, or `K` is above [`QuantizedMatMul::MOST`].
    #[track_caller]
    pub fn quantized_matmul_t(
        self,
        scale: Tensor,
        (weight, weight_scale): (Tensor, Tensor),
        bias: Option<Tensor>,
        op: QuantizedMatMul,
    ) -> Tensor {
        let inputs: Vec<Tensor> = [self, scale, weight, weight_scale].into_iter().chain(bias).collect();
        self.trace().apply1(op, &inputs)
    }
}
