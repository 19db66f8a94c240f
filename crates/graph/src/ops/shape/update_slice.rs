//! Update-slice: a range of an axis overwritten, at a position known only when the graph runs; a key/value
//! cache.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::Op;
use crate::ops::rules::{arity, around};
use crate::ops::shape::concat::concat;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Inputs `base`, `update`, `index` (`i32[]`): `base` with `update` at the positions from `index` on along the axis.
/// The index is clamped so that the update fits. An index `i32[N]` has one for each of the `N` rows of the first axis,
/// which is another one then.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct UpdateSlice {
    /// The axis.
    pub axis: usize,
}

named!("update_slice": UpdateSlice { axis });

impl Op for UpdateSlice {
    named!();

    facts! { in_place((0, 0)); }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 3)?;
        let (base, update, index) = (&inputs[0], &inputs[1], &inputs[2]);
        let by_rows = self.axis > 0 && base.rank() > 0 && index.shape[..] == base.shape[..1];
        if index.dtype != DType::I32 || index.rank() != 0 && !by_rows {
            return Err(Error::user(format!(
                "the index must be i32[], or i32[N] for the N rows of another axis than the first, not {index}"
            )));
        }
        let fits = self.axis < base.rank()
            && base.dtype == update.dtype
            && base.rank() == update.rank()
            && (0..base.rank()).all(|a| a == self.axis || base.shape[a] == update.shape[a])
            && (1..=base.shape[self.axis]).contains(&update.shape[self.axis]);
        if !fits {
            return Err(Error::user(format!(
                "{update} is not a range along axis {} of {base}",
                self.axis
            )));
        }
        Ok(vec![base.clone()])
    }

    fn eval(&self, inputs: &[&Array], _: &[Type]) -> Vec<Array> {
        let (base, update) = (inputs[0], inputs[1]);
        let (outer, inner) = around(&base.ty, self.axis);
        let (n, len) = (base.ty.shape[self.axis], update.ty.shape[self.axis]);
        let index = inputs[2];
        let mut y = base.clone();
        for o in 0..outer {
            let start = index.data[o * index.data.len() / outer].clamp(0.0, (n - len) as f64) as usize;
            let from = &update.data[o * len * inner..][..len * inner];
            y.data[(o * n + start) * inner..][..len * inner].copy_from_slice(from);
        }
        vec![y]
    }

    /// Every position gathers the update's nearest row and takes it where it is inside; rows that each have an index
    /// are computed one by one.
    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let (base, update, index) = (inputs[0], inputs[1], inputs[2]);
        let axis = self.axis as isize;
        if !index.shape().is_empty() {
            let row = |row: usize| {
                let [base, update] = [base, update].map(|x| x.slice(0, row, 1));
                base.update_slice(update, index.slice(0, row, 1).reshape(&[]), axis)
            };
            let rows: Vec<Tensor> = (0..base.dim(0)).map(row).collect();
            return (!rows.is_empty()).then(|| vec![concat(&rows, 0)]);
        }
        let (n, len) = (base.dim(axis), update.dim(axis));
        let clamp = |x: Tensor, last: usize| x.maximum(x.scalar_like(0.0)).minimum(x.scalar_like(last as f64));
        let position = base.trace().iota(DType::I32, &[n], 0) - clamp(index, n - len);
        let nearest = clamp(position, len - 1);
        let spread = update.transpose(0, axis).gather(nearest).transpose(0, axis);
        let mut along = vec![1; base.rank()];
        along[self.axis] = n;
        Some(vec![position.eq(nearest).reshape(&along).select(spread, base)])
    }
}

impl Tensor {
    /// This tensor with `update` at the positions from `index` on along an axis: `i32[]`, or one for each row of the
    /// first axis. The index is clamped so that the update fits; the axis counts from the end when negative.
    #[track_caller]
    pub fn update_slice(self, update: Tensor, index: Tensor, axis: isize) -> Tensor {
        let axis = self.axis(axis);
        self.trace().apply1(UpdateSlice { axis }, &[self, update, index])
    }
}
