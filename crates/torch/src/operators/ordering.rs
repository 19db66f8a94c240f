//! Sorting, the largest elements, and counts.

use lessen_base::Result;
use lessen_graph::DType;

use crate::call::{Call, Operators, one, several};
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("argsort", |call| {
        let x = call.x()?;
        let axis = call.axis("dim", -1, x.rank())?;
        one(x.argsort(axis as isize, call.truth("descending")))
    }),
    ("bincount", |call| {
        call.lacks("bincount, whose extent depends on values; use one_hot and sum")
    }),
    ("one_hot", |call| {
        let (x, classes) = (call.x()?, call.int("num_classes", -1)?);
        match usize::try_from(classes) {
            Ok(classes) => one(x.one_hot(classes).cast(DType::I32)),
            Err(_) => call.lacks("one_hot without the number of classes; give num_classes"),
        }
    }),
    ("sort", |call| {
        let x = call.x()?;
        let axis = call.axis("dim", -1, x.rank())?;
        let (values, positions) = x.sort(axis as isize, call.truth("descending"));
        several([values, positions])
    }),
    ("topk", |call| {
        let x = call.x()?;
        let (k, axis) = (call.size("k", 1)?, call.axis("dim", -1, x.rank())?);
        let is_largest = !matches!(call.value("largest"), Value::Bool(false));
        let (values, positions) = x.topk(k, axis as isize, is_largest);
        several([values, positions])
    }),
    ("histc", histogram),
];

/// Counts of elements in `bins` intervals of equal width.
fn histogram(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.float_x()?;
    let (bins, low, high) = (
        call.size("bins", 100)?,
        call.float("min", 0.0)?,
        call.float("max", 0.0)?,
    );
    if bins == 0 || low >= high {
        return call.lacks("a histogram whose range follows from the values; give min and max");
    }
    let rows = x.reshape(&[x.ty().numel(), 1]).stop_gradient();
    let places = ((rows - low) * (bins as f64 / (high - low))).floor();
    // The last interval holds its upper end.
    let top = rows
        .eq(rows.scalar_like(high))
        .select(rows.scalar_like(bins as f64 - 1.0), places);
    let columns = call.trace().iota(DType::F32, &[1, bins], 1);
    one(top.eq(columns).cast(DType::F32).sum_axes(&[0]))
}
