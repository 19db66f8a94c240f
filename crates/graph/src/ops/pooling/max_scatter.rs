//! The derivative of max pooling: each window's cotangent goes to one of its taps.

use lessen_base::{Error, Result};

use super::max_gather::MaxPool2dGather;
use super::window::{Pool2d, for_each_tap, resized, size_of};
use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::{AttrValue, Named};
use crate::op::{Cost, Op, Vjp};
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Inputs `dy[N, OH, OW, C]` and `tap`, `i32` of the same shape, the number of a tap of the window; the result is
/// `dx[N, H, W, C]`, where each pixel is the sum of the `dy` of the windows whose tap it is. A number that is no tap,
/// or one in the padding, adds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxPool2dScatter {
    /// The windows.
    pub windows: Pool2d,
    /// Height and width of the image.
    pub size: [usize; 2],
}

impl Named for MaxPool2dScatter {
    const NAME: &'static str = "max_pool2d_scatter";

    fn to_attrs(&self) -> Attrs {
        self.windows.to_attrs().with("size", self.size.to_attr())
    }

    fn from_attrs(attrs: &Attrs) -> Result<MaxPool2dScatter> {
        Ok(MaxPool2dScatter {
            windows: Pool2d::from_attrs(attrs)?,
            size: AttrValue::read(attrs, "size")?,
        })
    }
}

impl Op for MaxPool2dScatter {
    named!();

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        let (dy, tap) = (&inputs[0], &inputs[1]);
        let windows = self.windows.slides(self.size)?.map(|slide| slide.windows);
        if size_of(dy)? != windows || *tap != Type::new(DType::I32, &dy.shape) {
            return Err(Error::user(format!(
                "{dy} and {tap} are not cotangents and i32 taps of the {windows:?} windows of images of the size {:?}",
                self.size
            )));
        }
        Ok(vec![resized(dy, self.size)?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (dy, taps) = (inputs[0], inputs[1]);
        let slides = self.windows.slides(self.size).expect("checked by the type rule");
        let (windows, pixels) = (slides[0].windows * slides[1].windows, self.size[0] * self.size[1]);
        let channels = dy.ty.last();
        let mut dx = Array::full(outputs[0].clone(), 0.0);
        for image in 0..dy.ty.shape[0] {
            for_each_tap(slides, |window, tap, pixel| {
                for c in 0..channels {
                    let from = (image * windows + window) * channels + c;
                    if taps.data[from] == tap as f64 {
                        dx.data[(image * pixels + pixel) * channels + c] += dy.data[from];
                    }
                }
            });
        }
        vec![dx]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let op = MaxPool2dGather { windows: self.windows };
        vec![cx.cotangents[0].map(|x| x.trace().apply1(op, &[x, cx.inputs[1]])), None]
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        let taps = (self.windows.kernel[0] * self.windows.kernel[1]) as f64;
        Cost::vector(taps * inputs[0].numel() as f64, inputs, outputs)
    }
}
