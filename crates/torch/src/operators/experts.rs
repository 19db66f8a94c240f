//! Products of rows with the weights of their experts.

use lessen_base::Result;
use lessen_graph::DType;

use crate::call::{Call, Operators, one};
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("_grouped_mm", |call| grouped(call, "mat2")),
    ("grouped_mm_fallback", |call| grouped(call, "weight")),
];

/// `y[s] = x[s] weight[e]` where `offs[e - 1] <= s < offs[e]`, and 0 for rows from the last offset on.
///
/// Every expert multiplies all rows, those of the others as zeros, since extents may not depend on values.
fn grouped(call: &mut Call<'_, '_>, weight: &str) -> Result<Value> {
    let (x, weight) = (call.x()?, call.tensor(weight)?);
    let Some(ends) = call.optional("offs")? else {
        return one(x.matmul(weight));
    };
    if x.rank() != 2 || weight.rank() != 3 || call.has("bias") {
        return call.lacks("grouped products of other than rows with one matrix for each group");
    }
    let (count, rows) = (weight.shape()[0], x.shape()[0]);
    call.note(format!("each of {count} experts multiplies all {rows} rows"));
    let (rows, ends) = (call.trace().iota(DType::I32, &[rows, 1], 0), ends.cast(DType::I32));
    let mut y = None;
    for expert in 0..count {
        let end = |at: usize| ends.slice(0, at, 1);
        let is_before = rows.lt(end(expert));
        let is_own = match expert {
            0 => is_before,
            _ => is_before.and(rows.ge(end(expert - 1))),
        };
        let own = is_own.select(x, x.scalar_like(0.0));
        let own = own.matmul(weight.slice(0, expert, 1).reshape(&weight.shape()[1..]));
        y = Some(y.map_or(own, |y| y + own));
    }
    match y {
        Some(y) => one(y),
        None => call.lacks("grouped products without groups"),
    }
}
