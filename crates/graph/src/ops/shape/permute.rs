//! Permute: the axes in another order.

use lessen_base::{Error, Result};

use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::inverse::Inverse;
use crate::layout::Layout;
use crate::op::{Op, Vjp};
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::types::Type;

/// Axis `i` of the output is axis `axes[i]` of the input.
#[derive(Clone, PartialEq, Debug)]
pub struct Permute {
    /// The input's axes in their new order.
    pub axes: Vec<usize>,
}

impl Permute {
    /// The order that undoes this one.
    fn back(&self) -> Vec<usize> {
        let mut inverse = vec![0; self.axes.len()];
        for (to, &from) in self.axes.iter().enumerate() {
            inverse[from] = to;
        }
        inverse
    }
}

named!("permute": Permute { axes });

impl Op for Permute {
    named!();

    facts! { free; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        let mut sorted = self.axes.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..inputs[0].rank()) {
            return Err(Error::user(format!(
                "{:?} is not an order of the axes of {}",
                self.axes, inputs[0]
            )));
        }
        let shape: Vec<usize> = self.axes.iter().map(|&a| inputs[0].shape[a]).collect();
        Ok(vec![Type::new(inputs[0].dtype, &shape)])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let inverse = self.back();
        vec![Array::from_fn(outputs[0].clone(), |index| {
            let from: Vec<usize> = inverse.iter().map(|&a| index[a]).collect();
            inputs[0].at(&from)
        })]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        vec![cx.cotangents[0].map(|dy| dy.permute(&self.back()))]
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        query.of_first(self.axes[query.axis])
    }

    fn view(&self, input: &Layout, _: &[Type], _: &[Type]) -> Option<Vec<Layout>> {
        let strides = self.axes.iter().map(|&a| input.strides[a]).collect();
        Some(vec![Layout {
            offset: input.offset,
            strides,
        }])
    }

    fn inverse(&self, _: usize, _: &[Type]) -> Option<Inverse> {
        Some(Inverse::exact(Permute { axes: self.back() }))
    }
}

impl Tensor {
    /// The axes in another order: axis `i` of the result is this tensor's axis `axes[i]`.
    #[track_caller]
    pub fn permute(self, axes: &[usize]) -> Tensor {
        self.trace().apply1(Permute { axes: axes.to_vec() }, &[self])
    }

    /// Two axes exchanged; they count from the end when negative.
    #[track_caller]
    pub fn transpose(self, a: isize, b: isize) -> Tensor {
        let mut axes: Vec<usize> = (0..self.rank()).collect();
        axes.swap(self.axis(a), self.axis(b));
        self.permute(&axes)
    }

    /// The axis moved to the end, the others in their order.
    #[track_caller]
    pub(crate) fn axis_to_last(self, axis: usize) -> Tensor {
        if axis + 1 == self.rank() {
            return self;
        }
        let order: Vec<usize> = (0..axis).chain(axis + 1..self.rank()).chain([axis]).collect();
        self.permute(&order)
    }

    /// The last axis moved to this place, the others in their order.
    #[track_caller]
    pub(crate) fn last_to_axis(self, axis: usize) -> Tensor {
        let last = self.rank() - 1;
        if axis == last {
            return self;
        }
        let order: Vec<usize> = (0..axis).chain([last]).chain(axis..last).collect();
        self.permute(&order)
    }
}
