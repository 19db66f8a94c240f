//! Activations and fused products of com.microsoft.

use std::f64::consts::{FRAC_2_PI, SQRT_2};

use lessen_base::Result;

use super::matrix::{general_product, multiplied};
use super::sizes::{broadcast, room, spread};
use crate::operators::real::{Real, float_of, in_reals, rounded};
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("com.microsoft", "BiasGelu", |call| activated(call, gelu)),
    ("com.microsoft", "FastGelu", |call| activated(call, fast_gelu)),
    ("com.microsoft", "FusedGemm", fused_gemm),
    ("com.microsoft", "FusedMatMul", fused_matmul),
    ("com.microsoft", "Gelu", |call| activated(call, gelu)),
    ("com.microsoft", "QuickGelu", quick_gelu),
];

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + lessen_graph::ops::unary::erf(x / SQRT_2))
}

fn fast_gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + (FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn quick_gelu(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let alpha = call.float("alpha", 1.702);
    activated(call, |x| x * sigmoid(alpha * x))
}

/// A function of the first input, to which the second one is added where it is there.
fn activated(call: &HostCall<'_>, of: impl Fn(f64) -> f64) -> Result<Vec<HostValue>> {
    fn each<R: Real>(call: &HostCall<'_>, x: &HostTensor, of: impl Fn(f64) -> f64) -> Result<Vec<HostValue>> {
        let (mut all, mut shape) = (R::read(x)?.into_owned(), x.shape().to_vec());
        if let Some(bias) = call.optional(1)? {
            shape = broadcast(&shape, bias.shape())?;
            room(&shape)?;
            all = spread(&all, x.shape(), &shape)?;
            let bias = spread(&R::read(bias)?, bias.shape(), &shape)?;
            all.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
        }
        all.iter_mut().for_each(|x| *x = R::of_f64(of(x.to_f64())));
        one(rounded(&shape, all, float_of(x)?)?)
    }
    let x = call.tensor(0)?;
    in_reals!(x, each(call, x, of))
}

fn fused_gemm(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let alpha = |default| call.float("activation_alpha", default);
    let name = call.text("activation").unwrap_or_default();
    let y = match name.as_str() {
        "" => general_product(call, |x| x)?,
        "Relu" => general_product(call, |x| if x < 0.0 { 0.0 } else { x })?,
        "LeakyRelu" => {
            let alpha = alpha(0.01);
            general_product(call, |x| if x < 0.0 { alpha * x } else { x })?
        }
        "Sigmoid" => general_product(call, sigmoid)?,
        "Tanh" => general_product(call, f64::tanh)?,
        _ => return call.refused(format!("its activation {name} is not known")),
    };
    one(y)
}

fn fused_matmul(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let flag = |name: &str| call.int(name, 0) != 0;
    let a = turned(call, 0, [flag("transA"), flag("transBatchA")])?;
    let b = turned(call, 1, [flag("transB"), flag("transBatchB")])?;
    one(multiplied(&a, &b, call.float("alpha", 1.0))?)
}

/// A factor whose last two axes, or whose first one and those of the stack, are exchanged.
fn turned(call: &HostCall<'_>, input: usize, [last, stack]: [bool; 2]) -> Result<HostTensor> {
    let tensor = call.tensor(input)?;
    let rank = tensor.rank();
    let mut order: Vec<usize> = (0..rank).collect();
    if rank < 2 && (last || stack) {
        return call.refused("a factor of one axis is not transposed");
    }
    if stack && rank > 2 {
        order[..rank - 1].rotate_left(1);
    }
    if last {
        order.swap(rank - 2, rank - 1);
    }
    let shape: Vec<usize> = order.iter().map(|axis| tensor.shape()[*axis]).collect();
    let mut strides = vec![1usize; rank];
    for i in (1..rank).rev() {
        strides[i - 1] = strides[i].saturating_mul(tensor.shape()[i]);
    }
    let mut places = if tensor.is_empty() { Vec::new() } else { vec![0] };
    for axis in order {
        let (extent, stride) = (tensor.shape()[axis], strides[axis]);
        let step = |place: usize| (0..extent).map(move |i| place + i * stride);
        places = places.into_iter().flat_map(step).collect();
    }
    HostTensor::new(&shape, tensor.data().at(places.into_iter()))
}
