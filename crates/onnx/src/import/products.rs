//! Matrix products and convolutions.

use lessen_base::Result;
use lessen_graph::Conv2dOptions;

use super::Value;
use super::call::{Call, Operators, one};

pub(crate) const OPERATORS: Operators = &[("Conv", conv), ("Gemm", gemm), ("MatMul", matmul)];

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

/// Convolution of images, whose channels are moved to the last axis and back.
fn conv<'g>(call: &mut Call<'_, 'g>) -> Result<Vec<Value<'g>>> {
    let (x, weight) = (call.tensor(0)?, call.tensor(1)?);
    if x.rank() != 4 || weight.rank() != 4 {
        return call.unknown("a convolution of other than two axes");
    }
    let pair = |call: &Call<'_, 'g>, name: &str| {
        let sizes = call.ints(name).unwrap_or_else(|| vec![1, 1]);
        let sizes: Vec<usize> = sizes.iter().filter_map(|size| usize::try_from(*size).ok()).collect();
        <[usize; 2]>::try_from(sizes)
    };
    let (Ok(stride), Ok(dilation)) = (pair(call, "strides"), pair(call, "dilations")) else {
        return call.unknown("a convolution with these strides and dilations");
    };
    let padding = match call.text("auto_pad").as_deref() {
        None | Some("" | "NOTSET") => {
            let pads = call.ints("pads").unwrap_or_else(|| vec![0; 4]);
            let pads: Vec<usize> = pads.iter().filter_map(|pad| usize::try_from(*pad).ok()).collect();
            <[usize; 4]>::try_from(pads).map(|[top, left, bottom, right]| [top, bottom, left, right])
        }
        Some("VALID") => Ok([0; 4]),
        Some(_) => return call.unknown("padding that depends on the image"),
    };
    let (Ok(padding), Ok(groups)) = (padding, usize::try_from(call.int("group", 1))) else {
        return call.unknown("a convolution with this padding");
    };
    let options = Conv2dOptions {
        stride,
        padding,
        dilation,
        groups,
        ..Conv2dOptions::default()
    };
    let mut y = x.permute(&[0, 2, 3, 1]).conv2d(weight, options);
    if call.has(2) {
        y = y + call.tensor(2)?;
    }
    one(y.permute(&[0, 3, 1, 2]))
}
