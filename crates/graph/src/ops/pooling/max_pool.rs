//! The largest of the pixels of a window.

use lessen_base::Result;

use super::max_scatter::MaxPool2dScatter;
use super::window::{Pool2d, for_each_tap, resized, size_of};
use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::Named;
use crate::op::{Cost, Op, Vjp};
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Input `x[N, H, W, C]`; outputs `y[N, OH, OW, C]`, the largest element of each window, and `tap`, `i32` of the same
/// shape, the number of its tap in the window, row by row. Of equal elements the first one counts, and NaN is larger
/// than all numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxPool2d {
    /// The windows.
    pub windows: Pool2d,
}

impl Named for MaxPool2d {
    const NAME: &'static str = "max_pool2d";

    fn to_attrs(&self) -> Attrs {
        self.windows.to_attrs()
    }

    fn from_attrs(attrs: &Attrs) -> Result<MaxPool2d> {
        let windows = Pool2d::from_attrs(attrs)?;
        Ok(MaxPool2d { windows })
    }
}

impl Op for MaxPool2d {
    named!();

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        let slides = self.windows.slides(size_of(&inputs[0])?)?;
        let y = resized(&inputs[0], slides.map(|slide| slide.windows))?;
        let tap = Type::new(DType::I32, &y.shape);
        Ok(vec![y, tap])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let x = inputs[0];
        let [_, height, width, channels] = x.ty.shape[..] else {
            unreachable!("checked by the type rule")
        };
        let slides = self.windows.slides([height, width]).expect("checked by the type rule");
        let mut y = Array::full(outputs[0].clone(), f64::NEG_INFINITY);
        let mut taps = Array::full(outputs[1].clone(), -1.0);
        let windows = slides[0].windows * slides[1].windows;
        for image in 0..x.ty.shape[0] {
            for_each_tap(slides, |window, tap, pixel| {
                for c in 0..channels {
                    let value = x.data[(image * height * width + pixel) * channels + c];
                    let to = (image * windows + window) * channels + c;
                    if taps.data[to] < 0.0 || value > y.data[to] || value.is_nan() {
                        (y.data[to], taps.data[to]) = (value, tap as f64);
                    }
                }
            });
        }
        vec![y, taps]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let shape = cx.inputs[0].shape();
        let op = MaxPool2dScatter {
            windows: self.windows,
            size: [shape[1], shape[2]],
        };
        vec![cx.cotangents[0].map(|dy| dy.trace().apply1(op, &[dy, cx.outputs[1]]))]
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        let taps = (self.windows.kernel[0] * self.windows.kernel[1]) as f64;
        Cost::vector(taps * outputs[0].numel() as f64, inputs, outputs)
    }
}

impl Tensor {
    /// The largest element of each window of images `[N, H, W, C]`, channel by channel: `[N, OH, OW, C]`. The cotangent
    /// goes to the first of equal elements.
    ///
    /// # Panics
    /// If no window fits, or one lies in the padding alone.
    #[track_caller]
    pub fn max_pool2d(self, windows: Pool2d) -> Tensor {
        self.trace().apply(MaxPool2d { windows }, &[self])[0]
    }
}
