//! Gather: rows of a table by their numbers; an embedding.

use lessen_base::{Error, Result};

use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::op::{IndexInput, Op, OutRole, Role, RowWise, Vjp};
use crate::ops::rules::{arity, indexable};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// `y[i.., :] = table[ids[i..], :]`: `table` is `[V, rest..]`, `ids` are `i32` of any shape, the result is
/// `ids.shape + rest`. Ids must be in `0..V`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gather;

named!("gather": Gather {});

impl Op for Gather {
    named!();

    facts! { no_flops; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        let (table, ids) = (&inputs[0], &inputs[1]);
        if ids.dtype != DType::I32 || table.rank() == 0 {
            return Err(Error::user(format!(
                "needs a table with rows and i32 ids, not {table} and {ids}"
            )));
        }
        indexable("rows", table.shape[0])?;
        let shape = [&ids.shape[..], &table.shape[1..]].concat();
        Ok(vec![Type::sized(table.dtype, &shape)?])
    }

    /// # Panics
    /// If an id is out of range.
    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (table, ids) = (inputs[0], inputs[1]);
        let rows = table.ty.shape[0];
        let width = table.ty.numel() / rows.max(1);
        let mut data = Vec::with_capacity(outputs[0].numel());
        for (position, &id) in ids.data.iter().enumerate() {
            data.extend_from_slice(&table.data[row(self.name(), id, position, rows) * width..][..width]);
        }
        vec![Array::new(outputs[0].clone(), data)]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let rows = cx.inputs[0].shape()[0];
        vec![cx.cotangents[0].map(|dy| dy.scatter_add(cx.inputs[1], rows)), None]
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        match query.axis.checked_sub(query.inputs[1].rank()) {
            Some(axis) if query.inputs[0].dtype.is_float() => query.of_first(axis + 1),
            _ => Along::Unknown,
        }
    }

    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        RowWise::by_rows(inputs[1].numel(), &[Role::Whole, Role::Rows], &[OutRole::Rows])
    }

    fn index_input(&self, inputs: &[Type]) -> Option<IndexInput> {
        Some(IndexInput {
            input: 1,
            limit: inputs[0].shape[0],
            ignored: None,
        })
    }

    fn copies(&self) -> Option<usize> {
        Some(0)
    }
}

/// The row that an id stands for.
///
/// # Panics
/// If it is out of range.
pub(crate) fn row(op: &str, id: f64, position: usize, rows: usize) -> usize {
    let inside = id >= 0.0 && id < rows as f64;
    assert!(inside, "{op}: the id {id} at position {position} is not in 0..{rows}");
    id as usize
}

impl Tensor {
    /// The rows of this table `[V, rest..]` with these numbers: `ids.shape + rest`.
    #[track_caller]
    pub fn gather(self, ids: Tensor) -> Tensor {
        self.trace().apply1(Gather, &[self, ids])
    }

    /// The elements at these positions of an axis, of any dtype: the axis has the extent of `ids`, `i32[n]`.
    ///
    /// # Panics
    /// If there is no such axis.
    #[track_caller]
    pub fn take(self, axis: isize, ids: Tensor) -> Tensor {
        let axis = self.axis(axis);
        let there: Vec<usize> = std::iter::once(axis)
            .chain((0..self.rank()).filter(|own| *own != axis))
            .collect();
        let mut back = vec![0; self.rank()];
        there.iter().enumerate().for_each(|(to, &from)| back[from] = to);
        let turned = |x: Tensor, axes: &[usize]| if axis == 0 { x } else { x.permute(axes) };
        let table = turned(self, &there);
        let rows = match self.dtype() {
            DType::Bool => table.cast(DType::I32).gather(ids).cast(DType::Bool),
            _ => table.gather(ids),
        };
        turned(rows, &back)
    }
}
