//! The derivative of a convolution for its image; also known as transposed convolution.

use std::sync::Arc;

use lessen_base::Result;

use super::conv2d::Conv2d;
use super::grad_weight::Conv2dGradWeight;
use super::sizes::{Conv2dOptions, Conv2dSizes};
use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::{AttrValue, Named};
use crate::op::{Cost, Op, Vjp};
use crate::ops::rules::arity;
use crate::products::Products;
use crate::slide::Slide;
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs `dy[N, OH, OW, O]` and `weight[O, C / G, KH, KW]`; the result is `dx[N, H, W, C]`, the cotangent of the image
/// of a [`Conv2d`] whose result has the cotangent `dy`: each product `x weight` of a sum `y` adds `dy weight` to `dx`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conv2dGradInput {
    /// How the convolution slides.
    pub options: Conv2dOptions,
    /// Height and width of its image.
    pub size: [usize; 2],
}

impl Named for Conv2dGradInput {
    const NAME: &'static str = "conv2d_grad_input";

    fn to_attrs(&self) -> Attrs {
        self.options.to_attrs().with("size", self.size.to_attr())
    }

    fn from_attrs(attrs: &Attrs) -> Result<Conv2dGradInput> {
        Ok(Conv2dGradInput {
            options: Conv2dOptions::from_attrs(attrs)?,
            size: AttrValue::read(attrs, "size")?,
        })
    }
}

impl Conv2dGradInput {
    /// The derivative of a convolution of this image.
    pub(super) fn of(options: Conv2dOptions, x: Tensor) -> Conv2dGradInput {
        let shape = x.shape();
        let size = [shape[1], shape[2]];
        Conv2dGradInput { options, size }
    }

    /// The derivative from these factors, in their dtype.
    pub(super) fn apply(self, dy: Tensor, weight: Tensor) -> Tensor {
        dy.trace().apply1(self, &[dy, weight]).cast(dy.dtype())
    }

    /// The extents of the convolution, and the type of its image.
    ///
    /// # Errors
    /// A sentence that names the extents that do not fit.
    pub fn sizes(&self, inputs: &[Type]) -> Result<(Conv2dSizes, Type)> {
        arity(inputs, 2)?;
        let (dy, weight) = (&inputs[0], &inputs[1]);
        let images = dy.shape.first().copied().unwrap_or(0);
        let channels = weight
            .shape
            .get(1)
            .copied()
            .unwrap_or(0)
            .saturating_mul(self.options.groups);
        let x = Type::new(dy.dtype, &[images, self.size[0], self.size[1], channels]);
        let sizes = self.options.sizes_of_derivative(&x, weight, dy)?;
        Ok((sizes, x))
    }
}

impl Op for Conv2dGradInput {
    named!();

    facts! { contraction; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(vec![self.options.result(self.sizes(inputs)?.1)])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (dy, weight) = (inputs[0], inputs[1]);
        let sizes = self
            .options
            .sizes(&Type::new(weight.ty.dtype, &outputs[0].shape), &weight.ty)
            .expect("checked by the type rule");
        let mut dx = Array::full(outputs[0].clone(), 0.0);
        sizes.for_each_product(|i, w, o| dx.data[i] += dy.data[o] * weight.data[w]);
        vec![dx]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let (dy, weight) = (cx.inputs[0], cx.inputs[1]);
        let Some(cotangent) = cx.cotangents[0].map(|cotangent| cotangent.cast(dy.dtype())) else {
            return vec![None, None];
        };
        let options = self.options;
        let of_dy = || Conv2d { options }.apply(cotangent, weight);
        let of_weight = || Conv2dGradWeight::of(options, weight).apply(cotangent, dy);
        vec![cx.wanted[0].then(of_dy), cx.wanted[1].then(of_weight)]
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Conv2dSizes::cost_of(self.sizes(inputs).map(|(sizes, _)| sizes), inputs, outputs)
    }

    /// Each pixel of `dy` with all taps of its group, whose results are then added up where they overlap.
    fn products(&self, inputs: &[Type], _: &[Type]) -> Vec<Products> {
        let of = |(sizes, _): &(Conv2dSizes, Type)| {
            let taps = sizes.rows.taps * sizes.columns.taps;
            let pixels = [sizes.rows, sizes.columns].map(|slide| Slide::pixels(slide.windows));
            Products {
                groups: sizes.groups,
                windows: Some(pixels),
                ..Products::matrix([Some(0), Some(1)], sizes.images, sizes.outputs, sizes.inputs * taps)
            }
        };
        self.sizes(inputs).iter().map(of).collect()
    }

    fn of_bf16(&self, inputs: &[Type], _: &[bool]) -> Option<Arc<dyn Op>> {
        let sizes = self.sizes(inputs).map(|(sizes, _)| sizes);
        let options = self.options.of_bf16(inputs, sizes, Conv2dSizes::group_inputs)?;
        Some(Arc::new(Conv2dGradInput { options, ..*self }))
    }
}
