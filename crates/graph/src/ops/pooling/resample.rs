//! Images of another size, whose pixels are weighted sums of pixels: average pooling, interpolation.

use lessen_base::Result;

use super::resample_grad::Resample2dGrad;
use super::sampling::Sampling;
use super::window::{Pool2d, resized, size_of};
use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::Named;
use crate::op::{Cost, Op, Vjp};
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::types::Type;

/// Input `x[N, H, W, C]`; the result is `y[N, OH, OW, C]` with
/// `y[n, i, j, c] = sum over a, b of A[i, a] B[j, b] x[n, a, b, c]`, where the sampling says `A` and `B`, which have
/// few elements that are not zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resample2d {
    /// The weights.
    pub sampling: Sampling,
}

impl Named for Resample2d {
    const NAME: &'static str = "resample2d";

    fn to_attrs(&self) -> Attrs {
        self.sampling.to_attrs()
    }

    fn from_attrs(attrs: &Attrs) -> Result<Resample2d> {
        let sampling = Sampling::from_attrs(attrs)?;
        Ok(Resample2d { sampling })
    }
}

impl Op for Resample2d {
    named!();

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        let size = self.sampling.outputs(size_of(&inputs[0])?)?;
        Ok(vec![resized(&inputs[0], size)?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let x = inputs[0];
        let mut y = Array::full(outputs[0].clone(), 0.0);
        for_each_weight(self.sampling, &x.ty, &outputs[0], |from, to, weight| {
            y.data[to] += weight * x.data[from]
        });
        vec![y]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let shape = cx.inputs[0].shape();
        let op = Resample2dGrad {
            sampling: self.sampling,
            size: [shape[1], shape[2]],
        };
        vec![cx.cotangents[0].map(|dy| dy.trace().apply1(op, &[dy]))]
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        let flops = inputs[0].numel().max(outputs[0].numel());
        Cost::vector(2.0 * flops as f64, inputs, outputs)
    }
}

/// Calls `f` for each element of the result of type `y`, and each element of `x` that it reads, with their positions
/// and the weight.
pub(super) fn for_each_weight(sampling: Sampling, x: &Type, y: &Type, mut f: impl FnMut(usize, usize, f64)) {
    if y.numel() == 0 {
        return;
    }
    let image = [x.shape[1], x.shape[2]];
    let (rows, columns) = (sampling.weights(image, 0), sampling.weights(image, 1));
    let channels = x.shape[3];
    for to in 0..y.numel() {
        let (pixel, c) = (to / channels, to % channels);
        let (row, column) = (pixel / columns.len(), pixel % columns.len());
        let (n, row) = (row / rows.len(), row % rows.len());
        for (a, by_row) in &rows[row] {
            for (b, by_column) in &columns[column] {
                f(
                    ((n * image[0] + a) * image[1] + b) * channels + c,
                    to,
                    by_row * by_column,
                );
            }
        }
    }
}

impl Tensor {
    #[track_caller]
    fn resample(self, sampling: Sampling) -> Tensor {
        self.trace().apply1(Resample2d { sampling }, &[self])
    }

    /// The mean of each window of images `[N, H, W, C]`, channel by channel: `[N, OH, OW, C]`; padding counts as zeros,
    /// or does not count.
    ///
    /// # Panics
    /// If no window fits, or one lies in the padding alone.
    #[track_caller]
    pub fn avg_pool2d(self, windows: Pool2d, count_padding: bool) -> Tensor {
        self.resample(Sampling::Average { windows, count_padding })
    }

    /// The means of `size` windows along height and width of images `[N, H, W, C]`; see [`Sampling::AdaptiveAverage`].
    ///
    /// # Panics
    /// If the image has no pixels.
    #[track_caller]
    pub fn adaptive_avg_pool2d(self, size: [usize; 2]) -> Tensor {
        self.resample(Sampling::AdaptiveAverage { size })
    }

    /// The mean of all pixels of each image: `[N, H, W, C]` to `[N, C]`.
    #[track_caller]
    pub fn global_avg_pool2d(self) -> Tensor {
        self.mean_axes(&[1, 2])
    }

    /// The images, `[N, H, W, C]`, at another height and width, each pixel a copy of the nearest one; see
    /// [`Sampling::Nearest`].
    ///
    /// # Panics
    /// If the image has no pixels.
    #[track_caller]
    pub fn resize_nearest(self, size: [usize; 2]) -> Tensor {
        self.resample(Sampling::Nearest { size })
    }

    /// The images, `[N, H, W, C]`, at another height and width, by linear interpolation; see [`Sampling::Bilinear`].
    ///
    /// # Panics
    /// If the image has no pixels.
    #[track_caller]
    pub fn resize_bilinear(self, size: [usize; 2]) -> Tensor {
        self.resample(Sampling::Bilinear { size })
    }
}
