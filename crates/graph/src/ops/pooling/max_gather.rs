//! The derivative of routing to a tap of each window: reading that tap.

use lessen_base::{Error, Result};

use super::max_scatter::MaxPool2dScatter;
use super::window::{Pool2d, for_each_tap, resized, size_of};
use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::Named;
use crate::op::{Cost, Op, Vjp};
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Inputs `x[N, H, W, C]` and `tap`, `i32[N, OH, OW, C]`, the number of a tap of the window; the result is
/// `y[N, OH, OW, C]`, the elements of `x` at these taps. A number that is no tap, or one in the padding, gives 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxPool2dGather {
    /// The windows.
    pub windows: Pool2d,
}

impl Named for MaxPool2dGather {
    const NAME: &'static str = "max_pool2d_gather";

    fn to_attrs(&self) -> Attrs {
        self.windows.to_attrs()
    }

    fn from_attrs(attrs: &Attrs) -> Result<MaxPool2dGather> {
        let windows = Pool2d::from_attrs(attrs)?;
        Ok(MaxPool2dGather { windows })
    }
}

impl Op for MaxPool2dGather {
    named!();

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        let (x, tap) = (&inputs[0], &inputs[1]);
        let windows = self.windows.slides(size_of(x)?)?.map(|slide| slide.windows);
        let y = resized(x, windows)?;
        if *tap != Type::new(DType::I32, &y.shape) {
            return Err(Error::user(format!(
                "{tap} are not i32 taps of the {windows:?} windows of {x}"
            )));
        }
        Ok(vec![y])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (x, taps) = (inputs[0], inputs[1]);
        let [_, height, width, channels] = x.ty.shape[..] else {
            unreachable!("checked by the type rule")
        };
        let slides = self.windows.slides([height, width]).expect("checked by the type rule");
        let windows = slides[0].windows * slides[1].windows;
        let mut y = Array::full(outputs[0].clone(), 0.0);
        for image in 0..x.ty.shape[0] {
            for_each_tap(slides, |window, tap, pixel| {
                for c in 0..channels {
                    let to = (image * windows + window) * channels + c;
                    if taps.data[to] == tap as f64 {
                        y.data[to] = x.data[(image * height * width + pixel) * channels + c];
                    }
                }
            });
        }
        vec![y]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let shape = cx.inputs[0].shape();
        let op = MaxPool2dScatter {
            windows: self.windows,
            size: [shape[1], shape[2]],
        };
        vec![
            cx.cotangents[0].map(|dy| dy.trace().apply1(op, &[dy, cx.inputs[1]])),
            None,
        ]
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        let taps = (self.windows.kernel[0] * self.windows.kernel[1]) as f64;
        Cost::vector(taps * outputs[0].numel() as f64, inputs, outputs)
    }
}
