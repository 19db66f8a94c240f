//! Matrix products.

use lessen_base::Result;

use super::Value;
use super::call::{Call, Operators, one};

pub(crate) const OPERATORS: Operators = &[("Gemm", gemm), ("MatMul", matmul)];

/// Products of matrices and of stacks of them; vectors are matrices of one row or column.
fn matmul<'g>(call: &mut Call<'_, 'g>) -> Result<Vec<Value<'g>>> {
    let (mut a, mut b) = (call.tensor(0)?, call.tensor(1)?);
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
fn gemm<'g>(call: &mut Call<'_, 'g>) -> Result<Vec<Value<'g>>> {
    let (mut a, b) = (call.tensor(0)?, call.tensor(1)?);
    if call.int("transA", 0) != 0 {
        a = a.transpose(0, 1);
    }
    let mut product = match call.int("transB", 0) {
        0 => a.matmul(b),
        _ => a.matmul_t(b),
    };
    let (alpha, beta) = (call.float("alpha", 1.0), call.float("beta", 1.0));
    if alpha != 1.0 {
        product = product * alpha;
    }
    if !call.has(2) {
        return one(product);
    }
    let c = call.tensor(2)?;
    one(product + if beta == 1.0 { c } else { c * beta })
}
