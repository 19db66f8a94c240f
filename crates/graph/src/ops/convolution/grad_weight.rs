//! The derivative of a convolution for its weight.

use std::sync::Arc;

use lessen_base::Result;

use super::conv2d::Conv2d;
use super::grad_input::Conv2dGradInput;
use super::sizes::{Conv2dOptions, Conv2dSizes};
use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::{AttrValue, Named};
use crate::op::{Cost, Op, Vjp};
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs `x[N, H, W, C]` and `dy[N, OH, OW, O]`; the result is `dw[O, C / G, KH, KW]`, the cotangent of the weight of
/// a [`Conv2d`] whose result has the cotangent `dy`: each product `x weight` of a sum `y` adds `x dy` to `dw`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conv2dGradWeight {
    /// How the convolution slides.
    pub options: Conv2dOptions,
    /// Height and width of its kernel.
    pub kernel: [usize; 2],
}

impl Named for Conv2dGradWeight {
    const NAME: &'static str = "conv2d_grad_weight";

    fn to_attrs(&self) -> Attrs {
        self.options.to_attrs().with("kernel", self.kernel.to_attr())
    }

    fn from_attrs(attrs: &Attrs) -> Result<Conv2dGradWeight> {
        Ok(Conv2dGradWeight {
            options: Conv2dOptions::from_attrs(attrs)?,
            kernel: AttrValue::read(attrs, "kernel")?,
        })
    }
}

impl Conv2dGradWeight {
    /// The derivative of a convolution with this weight.
    pub(super) fn of(options: Conv2dOptions, weight: Tensor) -> Conv2dGradWeight {
        let shape = weight.shape();
        let kernel = [shape[2], shape[3]];
        Conv2dGradWeight { options, kernel }
    }

    /// The derivative from these factors, in their dtype.
    pub(super) fn apply(self, x: Tensor, dy: Tensor) -> Tensor {
        x.trace().apply1(self, &[x, dy]).cast(x.dtype())
    }

    /// The extents of the convolution, and the type of its weight.
    ///
    /// # Errors
    /// A sentence that names the extents that do not fit.
    pub fn sizes(&self, inputs: &[Type]) -> Result<(Conv2dSizes, Type)> {
        arity(inputs, 2)?;
        let (x, dy) = (&inputs[0], &inputs[1]);
        let last = |ty: &Type| ty.shape.get(3).copied().unwrap_or(0);
        let channels = last(x) / self.options.groups.max(1);
        let weight = Type::new(x.dtype, &[last(dy), channels, self.kernel[0], self.kernel[1]]);
        let sizes = self.options.sizes_of_derivative(x, &weight, dy)?;
        Ok((sizes, weight))
    }
}

impl Op for Conv2dGradWeight {
    named!();

    facts! { contraction; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(vec![self.options.result(self.sizes(inputs)?.1)])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (x, dy) = (inputs[0], inputs[1]);
        let sizes = self
            .options
            .sizes(&x.ty, &Type::new(x.ty.dtype, &outputs[0].shape))
            .expect("checked by the type rule");
        let mut dw = Array::full(outputs[0].clone(), 0.0);
        sizes.for_each_product(|i, w, o| dw.data[w] += x.data[i] * dy.data[o]);
        vec![dw]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let (x, dy) = (cx.inputs[0], cx.inputs[1]);
        let Some(cotangent) = cx.cotangents[0].map(|cotangent| cotangent.cast(x.dtype())) else {
            return vec![None, None];
        };
        let options = self.options;
        let of_x = || Conv2dGradInput::of(options, x).apply(dy, cotangent);
        let of_dy = || Conv2d { options }.apply(x, cotangent);
        vec![cx.wanted[0].then(of_x), cx.wanted[1].then(of_dy)]
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Conv2dSizes::cost_of(self.sizes(inputs).map(|(sizes, _)| sizes), inputs, outputs)
    }

    fn of_bf16(&self, inputs: &[Type], _: &[bool]) -> Option<Arc<dyn Op>> {
        let sizes = self.sizes(inputs).map(|(sizes, _)| sizes);
        let options = self.options.of_bf16(inputs, sizes, Conv2dSizes::group_outputs)?;
        Some(Arc::new(Conv2dGradWeight { options, ..*self }))
    }
}
