//! The windows of pooling.

use lessen_base::{Error, Result};

use crate::attrs::Attrs;
use crate::named::AttrValue;
use crate::ops::rules::{float, indexable};
use crate::slide::Slide;
use crate::types::Type;

/// Windows of pooling. Each has a pixel of the image: padding is never pooled alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool2d {
    /// Height and width of a window.
    pub kernel: [usize; 2],
    /// Pixels from window to window, along height and width.
    pub stride: [usize; 2],
    /// Rows of padding above and below the image, and columns left and right of it.
    pub padding: [usize; 4],
}

impl Pool2d {
    /// Square windows side by side, without padding.
    pub fn square(kernel: usize) -> Pool2d {
        Pool2d {
            kernel: [kernel; 2],
            stride: [kernel; 2],
            padding: [0; 4],
        }
    }

    pub(super) fn to_attrs(self) -> Attrs {
        Attrs::new()
            .with("kernel", self.kernel.to_attr())
            .with("stride", self.stride.to_attr())
            .with("padding", self.padding.to_attr())
    }

    pub(super) fn from_attrs(attrs: &Attrs) -> Result<Pool2d> {
        Ok(Pool2d {
            kernel: AttrValue::read(attrs, "kernel")?,
            stride: AttrValue::read(attrs, "stride")?,
            padding: AttrValue::read(attrs, "padding")?,
        })
    }

    /// The windows along height and width of an image of this size.
    ///
    /// # Errors
    /// A sentence that names the axis and the sizes that do not fit.
    pub fn slides(&self, size: [usize; 2]) -> Result<[Slide; 2]> {
        let [top, bottom, left, right] = self.padding;
        let slide = |axis: &str, at: usize, padding| {
            let slide = Slide::new(axis, (size[at], padding), self.kernel[at], self.stride[at], 1)?;
            slide.check_covers(axis).map(|()| slide)
        };
        let slides = [slide("height", 0, [top, bottom])?, slide("width", 1, [left, right])?];
        indexable("taps of a window", self.kernel[0].saturating_mul(self.kernel[1]))?;
        Ok(slides)
    }
}

/// Pixels beyond an image with its padding that a last window reaches, where the number of windows along an axis is
/// rounded up. `reach` are the pixels from a window's first tap to its last; no window begins after the image.
///
/// # Panics
/// If `stride` is 0.
pub fn reached_beyond(extent: usize, [before, after]: [usize; 2], reach: usize, stride: usize) -> usize {
    let Some(rest) = (extent + before + after).checked_sub(reach) else {
        return 0;
    };
    let mut last = rest.div_ceil(stride);
    if last * stride >= extent + before {
        last = last.saturating_sub(1);
    }
    (last * stride).saturating_sub(rest)
}

/// Height and width of images `[N, H, W, C]`.
///
/// # Errors
/// A sentence that names the type, if it is another one.
pub(super) fn size_of(x: &Type) -> Result<[usize; 2]> {
    float(x)?;
    match x.shape[..] {
        [_, height, width, _] => Ok([height, width]),
        _ => Err(Error::user(format!("the image {x} is not [N,H,W,C]"))),
    }
}

/// The type of images of type `x` at the size `size`.
///
/// # Errors
/// A sentence that names the type, if it is too large.
pub(super) fn resized(x: &Type, size: [usize; 2]) -> Result<Type> {
    Type::sized(x.dtype, &[x.shape[0], size[0], size[1], x.shape[3]])
}

/// For each tap of each window that lies in the image: the pixel of the window and its tap, as numbers, and the pixel
/// of the image.
pub(super) fn for_each_tap([rows, columns]: [Slide; 2], mut f: impl FnMut(usize, usize, usize)) {
    for window in 0..rows.windows * columns.windows {
        let (oh, ow) = (window / columns.windows, window % columns.windows);
        for tap in 0..rows.taps * columns.taps {
            let (kh, kw) = (tap / columns.taps, tap % columns.taps);
            if let (Some(ih), Some(iw)) = (rows.position(oh, kh), columns.position(ow, kw)) {
                f(window, tap, ih * columns.input + iw);
            }
        }
    }
}
