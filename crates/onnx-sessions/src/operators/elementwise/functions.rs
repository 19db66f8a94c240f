//! Functions of floats. 16-bit floats and `f32` are computed in `f64` and rounded once.

use lessen_base::Result;
use lessen_graph::ops::unary::erf;

use super::operands::no_type;
use lessen_onnx::host::{Data, Float, HostCall, HostOperators, HostTensor, HostValue, each_float, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Acos", |call| floats(call, f64::acos)),
    ("", "Acosh", |call| floats(call, f64::acosh)),
    ("", "Asin", |call| floats(call, f64::asin)),
    ("", "Asinh", |call| floats(call, f64::asinh)),
    ("", "Atan", |call| floats(call, f64::atan)),
    ("", "Atanh", |call| floats(call, f64::atanh)),
    ("", "Cos", |call| floats(call, f64::cos)),
    ("", "Cosh", |call| floats(call, f64::cosh)),
    ("", "Erf", |call| floats(call, erf)),
    ("", "Exp", |call| floats(call, f64::exp)),
    ("", "Log", |call| floats(call, f64::ln)),
    ("", "Reciprocal", |call| floats(call, f64::recip)),
    ("", "Sin", |call| floats(call, f64::sin)),
    ("", "Sinh", |call| floats(call, f64::sinh)),
    ("", "Sqrt", |call| floats(call, f64::sqrt)),
    ("", "Tan", |call| floats(call, f64::tan)),
    ("", "Tanh", |call| floats(call, f64::tanh)),
];

/// Elements that are computed at a time.
const BLOCK: usize = 256;

/// A function of each float.
pub(super) fn floats(call: &HostCall<'_>, f: impl Fn(f64) -> f64) -> Result<Vec<HostValue>> {
    in_blocks(call, &|block| block.iter_mut().for_each(|x| *x = f(*x)))
}

/// A function that is applied to blocks of floats.
fn in_blocks(call: &HostCall<'_>, f: &dyn Fn(&mut [f64])) -> Result<Vec<HostValue>> {
    fn each<T: Float>(all: &[T], f: &dyn Fn(&mut [f64])) -> Vec<T> {
        let mut block = [0.0; BLOCK];
        let mut results = Vec::with_capacity(all.len());
        for part in all.chunks(BLOCK) {
            let block = &mut block[..part.len()];
            block.iter_mut().zip(part).for_each(|(wide, x)| *wide = x.to_f64());
            f(block);
            results.extend(block.iter().map(|x| T::of_f64(*x)));
        }
        results
    }
    let tensor = call.tensor(0)?;
    let data: Data = each_float!(tensor.data(), all => each(all, f).into(), else return no_type(call, tensor));
    one(HostTensor::new(tensor.shape(), data)?)
}
