//! How each pixel of an image of another size is a weighted sum of pixels: averages of windows, interpolation.

use lessen_base::{Error, Result};

use super::window::Pool2d;
use crate::attrs::{Attr, Attrs};
use crate::named::AttrValue;
use crate::ops::rules::indexable;

/// How pixels are weighted sums of pixels. Weights are products of one for the row and one for the column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sampling {
    /// The mean of each window.
    Average {
        /// The windows.
        windows: Pool2d,
        /// Whether padding counts, as zeros.
        count_padding: bool,
    },
    /// The means of windows along height and width that cover the image and overlap where their number does not divide
    /// its extent: window `i` reaches from `i H / OH`, rounded down, to `(i + 1) H / OH`, rounded up.
    AdaptiveAverage {
        /// Number of windows along height and width.
        size: [usize; 2],
    },
    /// The pixel at `i H / OH`, rounded down.
    Nearest {
        /// Height and width of the result.
        size: [usize; 2],
    },
    /// Linear interpolation between the centres of pixels: `i` is at `(i + 1/2) H / OH - 1/2`, at the outermost pixels
    /// where that is beyond them.
    Bilinear {
        /// Height and width of the result.
        size: [usize; 2],
    },
}

/// The positions that an output position reads, with their weights.
type Weighted = Vec<(usize, f64)>;

impl Sampling {
    fn word(&self) -> &'static str {
        match self {
            Sampling::Average { .. } => "average",
            Sampling::AdaptiveAverage { .. } => "adaptive_average",
            Sampling::Nearest { .. } => "nearest",
            Sampling::Bilinear { .. } => "bilinear",
        }
    }

    pub(super) fn to_attrs(self) -> Attrs {
        let named = |attrs: Attrs| {
            Attrs(
                std::iter::once(("f".to_string(), Attr::Word(self.word().to_string())))
                    .chain(attrs.0)
                    .collect(),
            )
        };
        match self {
            Sampling::Average { windows, count_padding } => {
                named(windows.to_attrs().with("count_padding", Attr::Bool(count_padding)))
            }
            Sampling::AdaptiveAverage { size } | Sampling::Nearest { size } | Sampling::Bilinear { size } => {
                named(Attrs::new().with("to", size.to_attr()))
            }
        }
    }

    pub(super) fn from_attrs(attrs: &Attrs) -> Result<Sampling> {
        let size = || AttrValue::read(attrs, "to");
        match attrs.word("f")? {
            "average" => Ok(Sampling::Average {
                windows: Pool2d::from_attrs(attrs)?,
                count_padding: attrs.bool("count_padding")?,
            }),
            "adaptive_average" => Ok(Sampling::AdaptiveAverage { size: size()? }),
            "nearest" => Ok(Sampling::Nearest { size: size()? }),
            "bilinear" => Ok(Sampling::Bilinear { size: size()? }),
            other => Err(Error::user(format!("there is no sampling `{other}`"))),
        }
    }

    /// Height and width of the result for an image of this size.
    ///
    /// # Errors
    /// A sentence that names the axis and the sizes that do not fit.
    pub fn outputs(&self, image: [usize; 2]) -> Result<[usize; 2]> {
        match *self {
            Sampling::Average { windows, .. } => Ok(windows.slides(image)?.map(|slide| slide.windows)),
            Sampling::AdaptiveAverage { size } | Sampling::Nearest { size } | Sampling::Bilinear { size } => {
                for (axis, (n, to)) in ["height", "width"].iter().zip(image.iter().zip(size)) {
                    indexable("pixels along an axis", (*n).max(to))?;
                    if *n == 0 && to > 0 {
                        return Err(Error::user(format!(
                            "the {axis} of the image is 0, of which no {to} can be made"
                        )));
                    }
                }
                Ok(size)
            }
        }
    }

    /// The pixels that each row (axis 0) or column (axis 1) of the result reads from an image of this size, with their
    /// weights.
    ///
    /// # Panics
    /// If [`Sampling::outputs`] is an error.
    pub fn weights(&self, image: [usize; 2], axis: usize) -> Vec<Weighted> {
        let n = image[axis];
        let mean = |from: usize, to: usize| (from..to).map(|i| (i, 1.0 / (to - from) as f64)).collect();
        match *self {
            Sampling::Average { windows, count_padding } => {
                let slide = windows.slides(image).expect("sizes that fit")[axis];
                let window = |window| {
                    let mut weighted: Weighted = (0..slide.taps)
                        .filter_map(|tap| Some((slide.position(window, tap)?, 0.0)))
                        .collect();
                    let count = if count_padding { slide.taps } else { weighted.len() };
                    weighted.iter_mut().for_each(|(_, weight)| *weight = 1.0 / count as f64);
                    weighted
                };
                (0..slide.windows).map(window).collect()
            }
            Sampling::AdaptiveAverage { size } => {
                let to = size[axis];
                (0..to).map(|i| mean(i * n / to, ((i + 1) * n).div_ceil(to))).collect()
            }
            Sampling::Nearest { size } => (0..size[axis]).map(|i| vec![(i * n / size[axis], 1.0)]).collect(),
            Sampling::Bilinear { size } => (0..size[axis]).map(|i| between(i, n, size[axis])).collect(),
        }
    }
}

/// The neighbours of position `i` of `to` positions that `n` are stretched to, and their weights.
fn between(i: usize, n: usize, to: usize) -> Weighted {
    let place = ((i as f64 + 0.5) * n as f64 / to as f64 - 0.5).max(0.0);
    let low = (place as usize).min(n - 1);
    let share = place - low as f64;
    if low + 1 < n && share > 0.0 {
        vec![(low, 1.0 - share), (low + 1, share)]
    } else {
        vec![(low, 1.0)]
    }
}
