//! Products of matrices.

use lessen_base::Result;
use lessen_graph::Tensor;

use crate::call::{Call, Operators, one};
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("addbmm", |call| call.lacks("addbmm; use bmm and sum")),
    ("addmm", |call| added(call, "mat1", "mat2")),
    ("addmv", |call| added(call, "mat", "vec")),
    ("baddbmm", |call| added(call, "batch1", "batch2")),
    ("bilinear", bilinear),
    ("bmm", |call| {
        let (a, b) = (call.x()?, call.tensor("mat2")?);
        one(product(a, b))
    }),
    ("dot", |call| {
        let (a, b) = (call.x()?, call.tensor("tensor")?);
        one((a * b).sum())
    }),
    ("linear", linear),
    ("matmul", |call| {
        let (a, b) = (call.x()?, call.tensor("other")?);
        one(product(a, b))
    }),
    ("mm", |call| {
        let (a, b) = (call.x()?, call.tensor("mat2")?);
        one(product(a, b))
    }),
    ("mv", |call| {
        let (a, b) = (call.x()?, call.tensor("vec")?);
        one(product(a, b))
    }),
    ("vdot", |call| {
        let (a, b) = (call.x()?, call.tensor("other")?);
        one((a * b).sum())
    }),
    ("outer", |call| {
        let (a, b) = (call.x()?, call.tensor("vec2")?);
        one(a.unsqueeze(1) * b)
    }),
];

/// The product of two tensors, of which vectors are a row at the left and a column at the right.
pub fn product(a: Tensor, b: Tensor) -> Tensor {
    if a.rank() == 1 && b.rank() == 1 {
        return (a * b).sum();
    }
    if b.rank() == 1 {
        return (a * b).sum_axes(&[a.rank() - 1]);
    }
    if a.rank() == 1 {
        let y = a.unsqueeze(0).matmul(b);
        let mut shape = y.shape();
        shape.remove(shape.len() - 2);
        return y.reshape(&shape);
    }
    a.matmul(b)
}

/// `beta self + alpha a b`
fn added(call: &mut Call<'_, '_>, a: &str, b: &str) -> Result<Value> {
    let (alpha, beta) = (call.float("alpha", 1.0)?, call.float("beta", 1.0)?);
    let mut y = product(call.tensor(a)?, call.tensor(b)?);
    if alpha != 1.0 {
        y = y * alpha;
    }
    if beta == 0.0 {
        return one(y);
    }
    let x = call.x()?;
    one(y + if beta == 1.0 { x } else { x * beta })
}

fn linear(call: &mut Call<'_, '_>) -> Result<Value> {
    let (x, weight, bias) = (call.x()?, call.tensor("weight")?, call.optional("bias")?);
    let y = if x.rank() == 1 {
        let y = x.unsqueeze(0).matmul_t(weight);
        y.reshape(&y.shape()[1..])
    } else {
        x.matmul_t(weight)
    };
    one(bias.map_or(y, |bias| y + bias))
}

/// `y[.., o] = sum over i, j of x1[.., i] weight[o, i, j] x2[.., j] + bias[o]`
fn bilinear(call: &mut Call<'_, '_>) -> Result<Value> {
    let (a, b, weight) = (call.tensor("input1")?, call.tensor("input2")?, call.tensor("weight")?);
    let shape = weight.shape();
    let lead = a.shape()[..a.rank() - 1].to_vec();
    let turned = weight.reshape(&[shape[0] * shape[1], shape[2]]);
    let inner = b.matmul_t(turned).reshape(&[&lead[..], &shape[..2]].concat());
    let y = (inner * a.unsqueeze(-2))
        .sum_last()
        .reshape(&[&lead[..], &shape[..1]].concat());
    one(call.optional("bias")?.map_or(y, |bias| y + bias))
}
