//! Matrix products.

use lessen_base::Result;

use super::Value;
use super::call::{Call, Operators, one};
use super::coded_source::Source;
use super::codes::Order;

pub(crate) const OPERATORS: Operators = &[("Gemm", gemm), ("MatMul", matmul)];

/// Products of matrices and of stacks of them; vectors are matrices of one row or column.
fn matmul(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let a = call.tensor(0)?;
    if a.rank() > 1
        && let Some(source) = Source::of(a)
        && let Some(weight) = call.restored_weight(1, Order::Rows)
    {
        return one(source.product(call, &weight, None)?);
    }
    let (mut a, mut b) = (a, call.tensor(1)?);
    let (is_row, is_column) = (a.rank() == 1, b.rank() == 1);
    if is_row {
        a = a.unsqueeze(0);
    }
    if is_column {
        b = b.unsqueeze(-1);
    }
    let product = a.matmul(b);
    let mut shape = product.shape();
    if is_column {
        shape.pop();
    }
    if is_row {
        shape.remove(shape.len() - 1 - usize::from(!is_column));
    }
    one(product.reshape(&shape))
}

/// `alpha A B + beta C`
fn gemm(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let mut a = call.tensor(0)?;
    let (turns_a, turns_b) = (call.int("transA", 0) != 0, call.int("transB", 0) != 0);
    let order = if turns_b { Order::Columns } else { Order::Rows };
    let (alpha, beta) = (call.float("alpha", 1.0), call.float("beta", 1.0));
    if !turns_a
        && [alpha, beta] == [1.0; 2]
        && let Some(source) = Source::of(a)
        && let Some(weight) = call.restored_weight(1, order)
    {
        return one(source.product(call, &weight, Some(2))?);
    }
    if turns_a {
        a = a.transpose(0, 1);
    }
    let mut product = if turns_b {
        a.matmul_t(call.tensor(1)?)
    } else {
        a.matmul(call.tensor(1)?)
    };
    if alpha != 1.0 {
        product = product * alpha;
    }
    if !call.has(2) {
        return one(product);
    }
    let c = call.tensor(2)?;
    one(product + if beta == 1.0 { c } else { c * beta })
}
