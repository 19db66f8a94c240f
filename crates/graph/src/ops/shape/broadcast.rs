//! Broadcast: repeat along new leading axes and along axes of extent 1, as NumPy does.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::layout::Layout;
use crate::op::{Fold, Op, Vjp};
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::types::Type;

/// `y[.., i, ..] = x[.., 0 or i, ..]`, shapes aligned at the last axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Broadcast {
    /// The wider shape.
    pub shape: Vec<usize>,
}

named!("broadcast": Broadcast { shape });

impl Op for Broadcast {
    named!();

    facts! { free; }

    fn fold(&self, known: &[Option<f64>], _: &[Type], _: &[Type]) -> Fold {
        known[0].map_or(Fold::No, Fold::Splat)
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        let from = &inputs[0].shape;
        let fits = from.len() <= self.shape.len()
            && from
                .iter()
                .rev()
                .zip(self.shape.iter().rev())
                .all(|(&a, &b)| a == b || a == 1);
        if !fits {
            return Err(Error::user(format!(
                "{} does not broadcast to the shape {:?}",
                inputs[0], self.shape
            )));
        }
        Ok(vec![Type::sized(inputs[0].dtype, &self.shape)?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let x = inputs[0];
        let lead = self.shape.len() - x.ty.rank();
        vec![Array::from_fn(outputs[0].clone(), |index| {
            let from: Vec<usize> = index[lead..]
                .iter()
                .zip(&x.ty.shape)
                .map(|(&i, &n)| if n == 1 { 0 } else { i })
                .collect();
            x.at(&from)
        })]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let from = cx.inputs[0].shape();
        let lead = self.shape.len() - from.len();
        let axes: Vec<usize> = (0..self.shape.len())
            .filter(|&a| a < lead || (from[a - lead] == 1 && self.shape[a] != 1))
            .collect();
        vec![cx.cotangents[0].map(|dy| {
            if axes.is_empty() {
                dy.reshape(&from)
            } else {
                dy.sum_axes(&axes).reshape(&from)
            }
        })]
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        let from = &query.inputs[0].shape;
        let lead = self.shape.len() - from.len();
        match query.axis.checked_sub(lead) {
            Some(axis) if from[axis] == self.shape[query.axis] => query.of_first(axis),
            _ => Along::Constant,
        }
    }

    fn with_extent(&self, axis: usize, extent: usize) -> Option<Arc<dyn Op>> {
        let mut shape = self.shape.clone();
        shape[axis] = extent;
        Some(Arc::new(Broadcast { shape }))
    }

    fn view(&self, input: &Layout, inputs: &[Type], _: &[Type]) -> Option<Vec<Layout>> {
        let lead = self.shape.len() - inputs[0].rank();
        let strides = (0..self.shape.len())
            .map(|a| {
                if a < lead || inputs[0].shape[a - lead] == 1 {
                    0
                } else {
                    input.strides[a - lead]
                }
            })
            .collect();
        Some(vec![Layout {
            offset: input.offset,
            strides,
        }])
    }
}

/// The shape that two shapes broadcast to, if they do.
pub fn common_shape(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let extent = |s: &[usize], axis: usize| {
        if axis + s.len() < rank {
            1
        } else {
            s[axis + s.len() - rank]
        }
    };
    (0..rank)
        .map(|axis| match (extent(a, axis), extent(b, axis)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

impl Tensor {
    /// The same values repeated to a wider shape, aligned at the last axis.
    #[track_caller]
    pub fn broadcast_to(self, shape: &[usize]) -> Tensor {
        if self.shape() == shape {
            return self;
        }
        self.trace().apply1(Broadcast { shape: shape.to_vec() }, &[self])
    }

    /// Both tensors broadcast to their common shape.
    #[track_caller]
    pub fn broadcast_with(self, other: Tensor) -> (Tensor, Tensor) {
        self.trace().check_related(format_args!("broadcast:"), &[other]);
        let (a, b) = (self.shape(), other.shape());
        let Some(shape) = common_shape(&a, &b) else {
            let sentence = format!("the shapes {a:?} and {b:?} do not broadcast to a common one");
            self.trace().fail(sentence);
        };
        (self.broadcast_to(&shape), other.broadcast_to(&shape))
    }
}
