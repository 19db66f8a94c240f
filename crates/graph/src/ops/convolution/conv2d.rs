//! Convolution of images (LeCun et al. 1989), as cross-correlation.

use std::sync::Arc;

use lessen_base::Result;

use super::grad_input::Conv2dGradInput;
use super::grad_weight::Conv2dGradWeight;
use super::sizes::{Conv2dOptions, Conv2dSizes};
use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::Named;
use crate::op::{Cost, Op, Vjp};
use crate::ops::rules::arity;
use crate::products::Products;
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs `x[N, H, W, C]` and `weight[O, C / G, KH, KW]`; the result is `[N, OH, OW, O]`:
/// `y[n, i, j, o] = sum over a, b, c of x[n, i s + a d - p, j s + b d - p, g C / G + c] weight[o, c, a, b]`, with
/// stride `s`, dilation `d`, padding `p` by zeros, and the group `g` of `o`. There are as many windows as fit:
/// `OH = (H + top + bottom - (KH - 1) d - 1) / s + 1`, rounded down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conv2d {
    /// How it slides.
    pub options: Conv2dOptions,
}

impl Named for Conv2d {
    const NAME: &'static str = "conv2d";

    fn to_attrs(&self) -> Attrs {
        self.options.to_attrs()
    }

    fn from_attrs(attrs: &Attrs) -> Result<Conv2d> {
        let options = Conv2dOptions::from_attrs(attrs)?;
        Ok(Conv2d { options })
    }
}

impl Conv2d {
    /// The convolution of a derivative's factors, in their dtype.
    pub(super) fn apply(self, x: Tensor, weight: Tensor) -> Tensor {
        x.trace().apply1(self, &[x, weight]).cast(x.dtype())
    }

    /// The extents for inputs of the types `inputs`.
    ///
    /// # Errors
    /// A sentence that names the extents that do not fit.
    pub fn sizes(&self, inputs: &[Type]) -> Result<Conv2dSizes> {
        arity(inputs, 2)?;
        self.options.sizes(&inputs[0], &inputs[1])
    }
}

impl Op for Conv2d {
    named!();

    facts! { contraction; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(vec![self.options.result(self.sizes(inputs)?.output(&inputs[0]))])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (x, weight) = (inputs[0], inputs[1]);
        let sizes = self.options.sizes(&x.ty, &weight.ty).expect("checked by the type rule");
        let mut y = Array::full(outputs[0].clone(), 0.0);
        sizes.for_each_product(|i, w, o| y.data[o] += x.data[i] * weight.data[w]);
        vec![y]
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        if query.is_last() && self.options.groups == 1 {
            Along::Linear(vec![(1, 0)])
        } else {
            Along::Unknown
        }
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let (x, weight) = (cx.inputs[0], cx.inputs[1]);
        // The cotangent of a widened result becomes as narrow as the factors.
        let Some(dy) = cx.cotangents[0].map(|dy| dy.cast(x.dtype())) else {
            return vec![None, None];
        };
        let dx = || Conv2dGradInput::of(self.options, x).apply(dy, weight);
        let dw = || Conv2dGradWeight::of(self.options, weight).apply(x, dy);
        vec![cx.wanted[0].then(dx), cx.wanted[1].then(dw)]
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Conv2dSizes::cost_of(self.sizes(inputs), inputs, outputs)
    }

    fn products(&self, inputs: &[Type], _: &[Type]) -> Vec<Products> {
        let of = |sizes: &Conv2dSizes| Products {
            groups: sizes.groups,
            windows: Some([sizes.rows, sizes.columns]),
            ..Products::matrix([Some(0), Some(1)], sizes.images, sizes.inputs, sizes.outputs)
        };
        self.sizes(inputs).iter().map(of).collect()
    }

    fn of_bf16(&self, inputs: &[Type], _: &[bool]) -> Option<Arc<dyn Op>> {
        let sizes = self.sizes(inputs);
        let options = self.options.of_bf16(inputs, sizes, Conv2dSizes::group_outputs)?;
        Some(Arc::new(Conv2d { options }))
    }
}

/// The most channels of images that are padded at the left and right before they are convolved.
const MOST_PADDED: usize = 4;

impl Conv2dOptions {
    /// Images `[N, H, W, C]` of few channels with pixels in place of the padding at the left and right: then the pixels
    /// of a window's row lie side by side, and kernels read them as one run. Others stay as they are.
    #[track_caller]
    pub fn padded(mut self, x: Tensor) -> (Tensor, Conv2dOptions) {
        let [.., left, right] = self.padding;
        if self.groups != 1 || x.dim(-1) > MOST_PADDED || self.dilation[1] != 1 || left + right == 0 {
            return (x, self);
        }
        (self.padding[2], self.padding[3]) = (0, 0);
        (x.pad(2, left, right, 0.0), self)
    }
}

impl Tensor {
    /// The convolution of images `[N, H, W, C]` with a weight `[O, C / G, KH, KW]`: `[N, OH, OW, O]`. See [`Conv2d`].
    /// With one tap, stride 1 and without padding and groups it is traced as a product of pixels with a matrix.
    ///
    /// # Panics
    /// If the extents do not fit.
    #[track_caller]
    pub fn conv2d(self, weight: Tensor, options: Conv2dOptions) -> Tensor {
        self.trace().check_related(format_args!("conv2d:"), &[weight]);
        let sizes = options.sizes(&self.ty(), &weight.ty());
        if sizes.is_ok_and(|sizes| sizes.is_pixelwise()) {
            return self.matmul_t(weight.reshape(&weight.shape()[..2]));
        }
        self.trace().apply1(Conv2d { options }, &[self, weight])
    }
}
