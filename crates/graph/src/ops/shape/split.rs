//! Split: an axis cut into parts, the opposite of concat.

use lessen_base::{Error, Result};

use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::layout::Layout;
use crate::op::{Op, Vjp};
use crate::ops::rules::{arity, around};
use crate::ops::shape::concat::concat;
use crate::size::checked_sum;
use crate::tensor::Tensor;
use crate::types::Type;

/// One output for each of at least one size: consecutive ranges that cover the axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Split {
    /// The axis.
    pub axis: usize,
    /// Extents of the outputs along it.
    pub sizes: Vec<usize>,
}

named!("split": Split { axis, sizes });

impl Op for Split {
    named!();

    facts! {
        rows_where_axis_is_last;
        free;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        let x = &inputs[0];
        if self.sizes.is_empty() {
            return Err(Error::user(format!("needs at least one size for {x}")));
        }
        if self.axis >= x.rank() || checked_sum(self.sizes.iter().copied()) != Some(x.shape[self.axis]) {
            return Err(Error::user(format!(
                "the sizes {:?} do not cover an axis {} of {x}",
                self.sizes, self.axis
            )));
        }
        let part = |&size: &usize| {
            let mut shape = x.shape.clone();
            shape[self.axis] = size;
            Type::new(x.dtype, &shape)
        };
        Ok(self.sizes.iter().map(part).collect())
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let x = inputs[0];
        let (outer, inner) = around(&x.ty, self.axis);
        let mut parts: Vec<Vec<f64>> = outputs.iter().map(|t| Vec::with_capacity(t.numel())).collect();
        let mut at = 0;
        for _ in 0..outer {
            for (part, size) in parts.iter_mut().zip(&self.sizes) {
                part.extend_from_slice(&x.data[at..][..size * inner]);
                at += size * inner;
            }
        }
        outputs
            .iter()
            .cloned()
            .zip(parts)
            .map(|(ty, data)| Array::new(ty, data))
            .collect()
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let part =
            |(dy, y): (&Option<Tensor>, &Tensor)| dy.unwrap_or_else(|| y.scalar_like(0.0).broadcast_to(&y.shape()));
        let parts: Vec<Tensor> = cx.cotangents.iter().zip(cx.outputs).map(part).collect();
        vec![Some(concat(&parts, self.axis as isize))]
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        query.unless_cut(self.axis)
    }

    fn view(&self, input: &Layout, _: &[Type], _: &[Type]) -> Option<Vec<Layout>> {
        let mut offset = input.offset;
        let part = |size: &usize| {
            let layout = Layout {
                offset,
                strides: input.strides.clone(),
            };
            offset += size * input.strides[self.axis];
            layout
        };
        Some(self.sizes.iter().map(part).collect())
    }
}

impl Tensor {
    /// Consecutive ranges of an axis with these extents, which must cover it; the axis counts from the end
    /// when negative.
    #[track_caller]
    pub fn split(self, axis: isize, sizes: &[usize]) -> Vec<Tensor> {
        let axis = self.axis(axis);
        self.trace().apply(
            Split {
                axis,
                sizes: sizes.to_vec(),
            },
            &[self],
        )
    }
}
