//! Windows that slide along an axis of an image.

use lessen_base::{Error, Result};

use crate::size::checked_sum;

/// Windows along one axis: tap `t` of window `w` is at position `w stride + t dilation - before` of the image, in the
/// padding where that is negative or not below `input`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slide {
    /// Extent of the image.
    pub input: usize,
    /// Number of windows.
    pub windows: usize,
    /// Taps of a window.
    pub taps: usize,
    /// Positions from window to window.
    pub stride: usize,
    /// Positions from tap to tap.
    pub dilation: usize,
    /// Padding in front of the image.
    pub before: usize,
}

/// Strides, dilations and paddings are below it, so that products of a few extents do not overflow.
const STEP_LIMIT: usize = 1 << 31;

impl Slide {
    /// A window of one tap on each position.
    pub(crate) fn pixels(input: usize) -> Slide {
        Slide {
            input,
            windows: input,
            taps: 1,
            stride: 1,
            dilation: 1,
            before: 0,
        }
    }

    /// The windows of `taps` taps, `dilation` apart, that lie wholly in an image with padding before and after it.
    ///
    /// # Errors
    /// A sentence that names the axis: no taps, a stride or dilation of 0, an image that no window fits into, or a step
    /// or padding of 2^31 or more.
    pub(crate) fn new(
        axis: &str,
        (input, padding): (usize, [usize; 2]),
        taps: usize,
        stride: usize,
        dilation: usize,
    ) -> Result<Slide> {
        let [before, after] = padding;
        for (what, value) in [("kernel", taps), ("stride", stride), ("dilation", dilation)] {
            if value == 0 {
                return Err(Error::user(format!(
                    "the {what} along the {axis} is 0; it must be at least 1"
                )));
            }
        }
        let steps = [
            ("stride", stride),
            ("dilation", dilation),
            ("padding", before),
            ("padding", after),
        ];
        if let Some((what, value)) = steps.into_iter().find(|(_, value)| *value >= STEP_LIMIT) {
            return Err(Error::user(format!(
                "the {what} along the {axis} is {value}; it must be below 2^31"
            )));
        }
        let covered = (taps - 1).checked_mul(dilation).and_then(|n| n.checked_add(1));
        let padded = checked_sum([input, before, after]);
        match (padded, covered) {
            (Some(padded), Some(covered)) if covered <= padded => Ok(Slide {
                input,
                windows: (padded - covered) / stride + 1,
                taps,
                stride,
                dilation,
                before,
            }),
            _ => Err(Error::user(format!(
                "the {axis} {input} with a padding of {before} before and {after} after it is less than what {taps} taps \
                 with a dilation of {dilation} cover"
            ))),
        }
    }

    /// The position of a tap in the image; none in the padding.
    pub fn position(&self, window: usize, tap: usize) -> Option<usize> {
        let position = (window * self.stride + tap * self.dilation).checked_sub(self.before)?;
        (position < self.input).then_some(position)
    }

    /// Checks that every window of adjacent taps has one in the image.
    ///
    /// # Errors
    /// A sentence that names the axis.
    pub(crate) fn check_covers(&self, axis: &str) -> Result<()> {
        let last = (self.windows - 1) * self.stride;
        if self.input > 0 && self.taps > self.before && last < self.input + self.before {
            return Ok(());
        }
        Err(Error::user(format!(
            "along the {axis} {} a window of {} lies in the padding alone; use less padding",
            self.input, self.taps
        )))
    }
}
