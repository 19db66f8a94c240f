//! Options and extents of convolutions, and the loop over all products.

use lessen_base::{Error, Result};

use crate::attrs::Attrs;
use crate::named::AttrValue;
use crate::op::Cost;
use crate::ops::rules::float;
use crate::slide::Slide;
use crate::types::{DType, Type};

/// How a convolution slides over an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conv2dOptions {
    /// Pixels from window to window, along height and width.
    pub stride: [usize; 2],
    /// Rows of zeros above and below the image, and columns left and right of it.
    pub padding: [usize; 4],
    /// Pixels from tap to tap, along height and width.
    pub dilation: [usize; 2],
    /// Groups of channels: the output channels of group `g` read the input channels of group `g` alone.
    pub groups: usize,
    /// Factors are `bf16` and results `f32`: they are added up in `f32` and not rounded.
    pub widens: bool,
}

impl Default for Conv2dOptions {
    /// Stride 1, no padding, dilation 1, one group.
    fn default() -> Conv2dOptions {
        Conv2dOptions {
            stride: [1; 2],
            padding: [0; 4],
            dilation: [1; 2],
            groups: 1,
            widens: false,
        }
    }
}

/// The extents of a convolution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conv2dSizes {
    /// Number of images.
    pub images: usize,
    /// The windows along the height.
    pub rows: Slide,
    /// The windows along the width.
    pub columns: Slide,
    /// Channels of the input.
    pub inputs: usize,
    /// Channels of the output.
    pub outputs: usize,
    /// Groups of channels.
    pub groups: usize,
}

impl Conv2dOptions {
    /// Whether it widens is only written where it does.
    pub(super) fn to_attrs(self) -> Attrs {
        let attrs = Attrs::new()
            .with("stride", self.stride.to_attr())
            .with("padding", self.padding.to_attr())
            .with("dilation", self.dilation.to_attr())
            .with("groups", self.groups.to_attr());
        if self.widens {
            attrs.with("widens", true.to_attr())
        } else {
            attrs
        }
    }

    pub(super) fn from_attrs(attrs: &Attrs) -> Result<Conv2dOptions> {
        Ok(Conv2dOptions {
            stride: AttrValue::read(attrs, "stride")?,
            padding: AttrValue::read(attrs, "padding")?,
            dilation: AttrValue::read(attrs, "dilation")?,
            groups: AttrValue::read(attrs, "groups")?,
            widens: attrs.get("widens").is_some() && AttrValue::read(attrs, "widens")?,
        })
    }

    /// The extents of the convolution of an image with a weight.
    ///
    /// # Errors
    /// A sentence that names the axis and the sizes that do not fit.
    pub fn sizes(&self, x: &Type, weight: &Type) -> Result<Conv2dSizes> {
        float(x)?;
        x.check_size()?;
        weight.check_size()?;
        if x.rank() != 4 {
            return Err(Error::user(format!("the image {x} is not [N,H,W,C]")));
        }
        if weight.rank() != 4 || weight.dtype != x.dtype {
            return Err(Error::user(format!(
                "the weight {weight} is not [O,C/G,KH,KW] of the dtype of {x}"
            )));
        }
        if self.widens && x.dtype != DType::BF16 {
            return Err(Error::user(format!(
                "the image {x} is not bf16, as factors of a convolution that widens"
            )));
        }
        let (inputs, outputs, groups) = (x.shape[3], weight.shape[0], self.groups);
        if groups == 0 || !outputs.is_multiple_of(groups) {
            return Err(Error::user(format!(
                "the {outputs} output channels of the weight {weight} do not divide into {groups} groups"
            )));
        }
        if weight.shape[1].checked_mul(groups) != Some(inputs) {
            return Err(Error::user(format!(
                "the weight {weight} takes {} channels in each of {groups} groups, the image {x} has {inputs}",
                weight.shape[1]
            )));
        }
        let [top, bottom, left, right] = self.padding;
        let slide = |axis, at: usize, padding| {
            let image = (x.shape[1 + at], padding);
            Slide::new(axis, image, weight.shape[2 + at], self.stride[at], self.dilation[at])
        };
        let (rows, columns) = (slide("height", 0, [top, bottom])?, slide("width", 1, [left, right])?);
        // The image with its padding.
        let padded = [x.shape[1] + top + bottom, x.shape[2] + left + right];
        Type::sized(x.dtype, &[x.shape[0], padded[0], padded[1], inputs])?;
        Type::sized(x.dtype, &[x.shape[0], rows.windows, columns.windows, outputs])?;
        Ok(Conv2dSizes {
            images: x.shape[0],
            rows,
            columns,
            inputs,
            outputs,
            groups,
        })
    }

    /// The type of a result of this shape and dtype, unless it widens.
    pub(super) fn result(&self, ty: Type) -> Type {
        if self.widens {
            Type::new(DType::F32, &ty.shape)
        } else {
            ty
        }
    }

    /// These options for factors in `bf16`, where inputs in `f32` can be rounded that far and sums have enough channels
    /// side by side, `of_group` in each group: with few of them, rounding takes longer than it saves.
    pub(super) fn of_bf16(
        &self,
        inputs: &[Type],
        sizes: Result<Conv2dSizes>,
        of_group: fn(&Conv2dSizes) -> usize,
    ) -> Option<Conv2dOptions> {
        const FEWEST: usize = 16;
        let is_f32 = inputs.iter().all(|ty| ty.dtype == DType::F32);
        let sizes = sizes.ok().filter(|_| is_f32)?;
        let is_worth = sizes.side_by_side(of_group(&sizes)) >= FEWEST;
        is_worth.then_some(Conv2dOptions { widens: true, ..*self })
    }

    /// The extents of the convolution of `x` with `weight`, whose result has the type of `dy`.
    ///
    /// # Errors
    /// The errors of [`Conv2dOptions::sizes`], and another type of `dy`.
    pub(super) fn sizes_of_derivative(&self, x: &Type, weight: &Type, dy: &Type) -> Result<Conv2dSizes> {
        let sizes = self.sizes(x, weight)?;
        let y = sizes.output(x);
        if y == *dy {
            return Ok(sizes);
        }
        Err(Error::user(format!(
            "the cotangent {dy} is not {y}, the type of the convolution of {x} with {weight}"
        )))
    }
}

impl Conv2dSizes {
    /// The type of the result for an image of this type.
    pub(super) fn output(&self, x: &Type) -> Type {
        Type::new(
            x.dtype,
            &[self.images, self.rows.windows, self.columns.windows, self.outputs],
        )
    }

    /// Channels of the input in a group.
    pub fn group_inputs(&self) -> usize {
        self.inputs / self.groups
    }

    /// Channels of the output in a group.
    pub fn group_outputs(&self) -> usize {
        self.outputs / self.groups
    }

    /// Whether each channel is a group of its own.
    pub fn is_depthwise(&self) -> bool {
        self.groups == self.inputs && self.groups == self.outputs
    }

    /// Number of channels whose sums are computed side by side: `of_group`, or all channels of a depthwise convolution.
    pub(super) fn side_by_side(&self, of_group: usize) -> usize {
        if self.is_depthwise() { self.inputs } else { of_group }
    }

    /// Whether each pixel of the result is a product of the same pixel of the image with one matrix.
    pub(super) fn is_pixelwise(&self) -> bool {
        let is_identity = |slide: Slide| slide.taps == 1 && slide.stride == 1 && slide.windows == slide.input;
        is_identity(self.rows) && is_identity(self.columns) && self.groups == 1
    }

    /// Calls `f` with the positions in image, weight and result of the factors and the sum of each product.
    pub(super) fn for_each_product(&self, mut f: impl FnMut(usize, usize, usize)) {
        let (rows, columns) = (self.rows, self.columns);
        let (c, o) = (self.group_inputs(), self.group_outputs());
        for (n, oh, ow) in indices(self.images, rows.windows, columns.windows) {
            let y = ((n * rows.windows + oh) * columns.windows + ow) * self.outputs;
            for (kh, kw, group) in indices(rows.taps, columns.taps, self.groups) {
                let (Some(ih), Some(iw)) = (rows.position(oh, kh), columns.position(ow, kw)) else {
                    continue;
                };
                let x = ((n * rows.input + ih) * columns.input + iw) * self.inputs + group * c;
                for (out, inner) in (group * o..(group + 1) * o).flat_map(|out| (0..c).map(move |inner| (out, inner))) {
                    let weight = ((out * c + inner) * rows.taps + kh) * columns.taps + kw;
                    f(x + inner, weight, y + out);
                }
            }
        }
    }

    /// The cost of one multiplication and addition for each tap of each window and pair of channels of a group; none
    /// where extents do not fit.
    pub(super) fn cost_of(sizes: Result<Conv2dSizes>, inputs: &[Type], outputs: &[Type]) -> Cost {
        sizes.map_or(Cost::default(), |sizes| sizes.cost(inputs, outputs))
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        let windows = (self.images * self.rows.windows * self.columns.windows) as f64;
        let taps = (self.rows.taps * self.columns.taps) as f64;
        Cost {
            product_flops: 2.0 * windows * taps * (self.group_inputs() * self.outputs) as f64,
            ..Cost::vector(0.0, inputs, outputs)
        }
    }
}

/// The triples of numbers below these.
fn indices(a: usize, b: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
}
