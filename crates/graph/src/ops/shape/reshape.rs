//! Reshape: the same elements in row-major order under another shape.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::inverse::Inverse;
use crate::layout::Layout;
use crate::op::{Fold, OnSlices, Op, Vjp};
use crate::ops::rules::arity;
use crate::size::checked_numel;
use crate::tensor::Tensor;
use crate::types::{Type, numel};

/// The same elements under another shape of the same size.
#[derive(Clone, PartialEq, Debug)]
pub struct Reshape {
    /// The new shape.
    pub shape: Vec<usize>,
}

named!("reshape": Reshape { shape });

impl Op for Reshape {
    named!();

    facts! {
        elementwise;
        free;
    }

    fn fold(&self, known: &[Option<f64>], _: &[Type], _: &[Type]) -> Fold {
        known[0].map_or(Fold::No, Fold::Splat)
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        if checked_numel(&self.shape) != Some(inputs[0].numel()) {
            return Err(Error::user(format!(
                "{} has not the size of the shape {:?}",
                inputs[0], self.shape
            )));
        }
        Ok(vec![Type::new(inputs[0].dtype, &self.shape)])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        vec![Array::new(outputs[0].clone(), inputs[0].data.clone())]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        vec![cx.cotangents[0].map(|dy| dy.reshape(&cx.inputs[0].shape()))]
    }

    /// An axis is kept where an axis of the same extent has as many elements before it.
    fn along(&self, query: AlongQuery<'_>) -> Along {
        let from = &query.inputs[0].shape;
        let (before, extent) = (numel(&self.shape[..query.axis]), self.shape[query.axis]);
        let same = (0..from.len()).find(|&axis| from[axis] == extent && numel(&from[..axis]) == before);
        match same {
            _ if extent == 1 => Along::Constant,
            Some(axis) if before > 0 => query.of_first(axis),
            _ => Along::Unknown,
        }
    }

    fn with_extent(&self, axis: usize, extent: usize) -> Option<Arc<dyn Op>> {
        let mut shape = self.shape.clone();
        shape[axis] = extent;
        Some(Arc::new(Reshape { shape }))
    }

    fn view(&self, input: &Layout, inputs: &[Type], _: &[Type]) -> Option<Vec<Layout>> {
        Some(vec![input.reshape(&inputs[0].shape, &self.shape)?])
    }

    fn on_slices(&self, (_, slices): (usize, usize), inputs: &[Type], _: &[Type]) -> OnSlices {
        let is_cut = |shape: &[usize]| shape.first().is_some_and(|first| first.is_multiple_of(slices));
        if !is_cut(&inputs[0].shape) || !is_cut(&self.shape) {
            return OnSlices::No;
        }
        let mut shape = self.shape.clone();
        shape[0] /= slices;
        OnSlices::By(Arc::new(Reshape { shape }))
    }

    fn inverse(&self, _: usize, inputs: &[Type]) -> Option<Inverse> {
        let shape = inputs[0].shape.to_vec();
        Some(Inverse::exact(Reshape { shape }))
    }
}

impl Tensor {
    /// The same elements in row-major order under another shape.
    #[track_caller]
    pub fn reshape(self, shape: &[usize]) -> Tensor {
        if self.shape() == shape {
            return self;
        }
        self.trace().apply1(Reshape { shape: shape.to_vec() }, &[self])
    }

    /// The same elements with an axis of extent 1 inserted; `axis` may count from the end of the new shape.
    #[track_caller]
    pub fn unsqueeze(self, axis: isize) -> Tensor {
        let mut shape = self.shape();
        let rank = shape.len() as isize + 1;
        let at = if axis < 0 { axis + rank } else { axis };
        if !(0..rank).contains(&at) {
            let sentence = format!("axis {axis} cannot be inserted into {}", self.ty());
            self.trace().fail(sentence);
        }
        shape.insert(at as usize, 1);
        self.reshape(&shape)
    }
}
