//! Activation functions.

use lessen_base::Result;
use lessen_graph::{DType, Tensor};

use super::elementwise::unary;
use crate::call::{Call, Operators, one};
use crate::images::{along, through};
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("celu", |call| {
        let alpha = call.float("alpha", 1.0)?;
        unary(call, |x| (x / alpha).elu(1.0) * alpha)
    }),
    ("clamp", clamp),
    ("clamp_max", clamp),
    ("clamp_min", clamp),
    ("elu", elu),
    ("gelu", gelu),
    ("glu", glu),
    ("hardshrink", |call| {
        let bound = call.float("lambd", 0.5)?;
        unary(call, |x| x.abs().gt(x.scalar_like(bound)).select(x, x.scalar_like(0.0)))
    }),
    ("hardsigmoid", |call| unary(call, hardsigmoid)),
    ("hardswish", |call| unary(call, |x| x * hardsigmoid(x))),
    ("hardtanh", |call| {
        let (low, high) = (call.float("min_val", -1.0)?, call.float("max_val", 1.0)?);
        unary(call, |x| x.clamp(low, high))
    }),
    ("leaky_relu", |call| {
        let slope = call.float("negative_slope", 0.01)?;
        unary(call, |x| x.leaky_relu(slope))
    }),
    ("log_sigmoid", |call| unary(call, |x| -(-x).softplus())),
    ("log_softmax", |call| rows(call, Tensor::log_softmax_along)),
    ("mish", |call| unary(call, |x| x * x.softplus().tanh())),
    ("prelu", prelu),
    ("relu", |call| unary(call, Tensor::relu)),
    ("relu6", |call| unary(call, |x| x.clamp(0.0, 6.0))),
    ("selu", |call| unary(call, |x| x.elu(SELU_ALPHA) * SELU_SCALE)),
    ("sigmoid", |call| unary(call, Tensor::sigmoid)),
    ("silu", |call| unary(call, Tensor::silu)),
    ("softmax", |call| rows(call, Tensor::softmax_along)),
    ("softplus", softplus),
    ("softsign", |call| unary(call, |x| x / (x.abs() + 1.0))),
    ("special_logit", |call| unary(call, |x| (x / (1.0 - x)).log())),
    ("tanh", |call| unary(call, Tensor::tanh)),
    ("tanhshrink", |call| unary(call, |x| x - x.tanh())),
    ("threshold", |call| {
        let (bound, value) = (call.float("threshold", 0.0)?, call.float("value", 0.0)?);
        unary(call, |x| x.gt(x.scalar_like(bound)).select(x, x.scalar_like(value)))
    }),
];

/// The constants of SELU (Klambauer et al. 2017).
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

fn hardsigmoid(x: Tensor) -> Tensor {
    (x + 3.0).clamp(0.0, 6.0) / 6.0
}

/// Bounds may be left out, and may be tensors.
fn clamp(call: &mut Call<'_, '_>) -> Result<Value> {
    let mut x = call.x()?;
    let (low, high) = (call.value("min"), call.value("max"));
    if let (Some(low), Some(high)) = (low.number(), high.number())
        && x.dtype().is_float()
        && low < high
    {
        // At the bounds PyTorch's derivative is 1, as that of the maximum of other numbers.
        return one(through(x, |x| {
            let (least, most) = (x.scalar_like(low), x.scalar_like(high));
            let inside = x.ge(least).and(x.le(most));
            inside.select(x, x.stop_gradient().clamp(low, high))
        }));
    }
    for (name, is_low) in [("min", true), ("max", false)] {
        if !call.has(name) {
            continue;
        }
        let (_, bound) = call.both("self", name)?;
        let bound = bound.cast(x.dtype());
        let keeps = |x: Tensor| {
            let inside = if is_low { x.ge(bound) } else { x.le(bound) };
            inside.select(x, bound)
        };
        x = if bound.rank() == 0 { through(x, keeps) } else { keeps(x) };
    }
    one(x)
}

fn elu(call: &mut Call<'_, '_>) -> Result<Value> {
    let alpha = call.float("alpha", 1.0)?;
    let (scale, inner) = (call.float("scale", 1.0)?, call.float("input_scale", 1.0)?);
    if inner != 1.0 {
        return call.lacks("an ELU with a factor of its input");
    }
    unary(call, |x| {
        if scale == 1.0 {
            x.elu(alpha)
        } else {
            x.elu(alpha) * scale
        }
    })
}

fn gelu(call: &mut Call<'_, '_>) -> Result<Value> {
    let is_tanh = call.text("approximate").as_deref() == Some("tanh");
    unary(call, if is_tanh { Tensor::gelu_tanh } else { Tensor::gelu })
}

fn glu(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.float_x()?;
    let axis = call.axis("dim", -1, x.rank())?;
    one(along(x, axis, |x, axis| {
        let half = x.dim(axis) / 2;
        x.slice(axis, 0, half) * x.slice(axis, half, half).sigmoid()
    }))
}

fn prelu(call: &mut Call<'_, '_>) -> Result<Value> {
    let (x, mut weight) = (call.float_x()?, call.tensor("weight")?);
    if weight.ty().numel() > 1 && x.rank() > 1 {
        let mut shape = vec![1; x.rank()];
        shape[1] = weight.ty().numel();
        weight = weight.reshape(&shape);
    }
    one(x.gt(x.scalar_like(0.0)).select(x, x * weight))
}

fn softplus(call: &mut Call<'_, '_>) -> Result<Value> {
    let (beta, threshold) = (call.float("beta", 1.0)?, call.float("threshold", 20.0)?);
    unary(call, |x| {
        let scaled = if beta == 1.0 { x } else { x * beta };
        let soft = scaled.softplus();
        let soft = if beta == 1.0 { soft } else { soft / beta };
        scaled.gt(x.scalar_like(threshold)).select(x, soft)
    })
}

/// A function of rows along an axis, in the dtype that is asked for.
fn rows(call: &mut Call<'_, '_>, f: impl FnOnce(Tensor, isize) -> Tensor) -> Result<Value> {
    let dtype = call.dtype("dtype").filter(|dtype| *dtype != DType::Bool);
    let x = call.float_x()?;
    let x = dtype.map_or(x, |dtype| x.cast(dtype));
    if x.rank() == 0 {
        return one(f(x.reshape(&[1]), 0).reshape(&[]));
    }
    let axis = call.axis("dim", -1, x.rank())?;
    one(f(x, axis as isize))
}
