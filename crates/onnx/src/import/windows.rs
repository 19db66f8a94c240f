//! Windows of convolutions and pooling as nodes give them.

use lessen_base::Result;
use lessen_graph::Conv2dOptions;
use lessen_graph::ops::pooling::reached_beyond;

use super::call::Call;

/// The windows along the axes of images.
pub(super) struct Windows {
    pub kernel: Vec<usize>,
    pub stride: Vec<usize>,
    pub dilation: Vec<usize>,
    /// Pixels before and after each axis.
    pub pads: Vec<[usize; 2]>,
    /// Pixels after each axis that only windows of `ceil_mode` reach.
    pub beyond: Vec<usize>,
}

impl Windows {
    /// The windows of a node over images of this size; `kernel` is the size of its weights, if it has some.
    ///
    /// # Errors
    /// Numbers that do not go together, or are negative.
    pub(super) fn of(call: &Call<'_>, size: &[usize], kernel: Option<&[usize]>) -> Result<Windows> {
        let axes = size.len();
        let sizes = |name: &str| -> Result<Option<Vec<usize>>> {
            let Some(all) = call.ints(name) else { return Ok(None) };
            let sizes: Option<Vec<usize>> = all.iter().map(|&n| usize::try_from(n).ok()).collect();
            match sizes.filter(|sizes| sizes.len() == axes && sizes.iter().all(|n| *n > 0)) {
                Some(sizes) => Ok(Some(sizes)),
                None => call.unknown(&format!("a window with these {name}")),
            }
        };
        let given = sizes("kernel_shape")?;
        let kernel = match (given, kernel) {
            (_, Some(kernel)) => kernel.to_vec(),
            (Some(kernel), None) => kernel,
            (None, None) => return call.unknown("a window without its size"),
        };
        if kernel.len() != axes || kernel.contains(&0) {
            return call.unknown("a window of other axes than the images");
        }
        let ones = || vec![1; axes];
        let mut windows = Windows {
            stride: sizes("strides")?.unwrap_or_else(ones),
            dilation: sizes("dilations")?.unwrap_or_else(ones),
            pads: vec![[0; 2]; axes],
            beyond: vec![0; axes],
            kernel,
        };
        let auto = call.text("auto_pad").unwrap_or_default();
        for (axis, &extent) in size.iter().enumerate() {
            let reach = windows.reach(axis)?;
            windows.pads[axis] = match auto.as_str() {
                "" | "NOTSET" => {
                    let pads = call.ints("pads").unwrap_or_else(|| vec![0; 2 * axes]);
                    let pad = |at: usize| pads.get(at).and_then(|&pad| usize::try_from(pad).ok());
                    match (pad(axis), pad(axis + axes)) {
                        (Some(before), Some(after)) if pads.len() == 2 * axes => [before, after],
                        _ => return call.unknown("a window with this padding"),
                    }
                }
                "VALID" => [0; 2],
                "SAME_UPPER" | "SAME_LOWER" => {
                    let windows_there = extent.div_ceil(windows.stride[axis]);
                    let all = windows_there.saturating_sub(1) * windows.stride[axis] + reach;
                    let pad = all.saturating_sub(extent);
                    let (less, more) = (pad / 2, pad - pad / 2);
                    if auto == "SAME_UPPER" {
                        [less, more]
                    } else {
                        [more, less]
                    }
                }
                _ => return call.unknown("padding of this kind"),
            };
            if call.int("ceil_mode", 0) != 0 {
                windows.beyond[axis] = reached_beyond(extent, windows.pads[axis], reach, windows.stride[axis]);
            }
        }
        Ok(windows)
    }

    /// Pixels from the first to the last tap of a window along an axis, both included.
    fn reach(&self, axis: usize) -> Result<usize> {
        let reach = (self.kernel[axis] - 1)
            .checked_mul(self.dilation[axis])
            .and_then(|n| n.checked_add(1));
        reach
            .filter(|reach| *reach < 1 << 24)
            .ok_or_else(|| lessen_base::Error::user("a window of this size is not known"))
    }

    /// Whether windows have no gaps.
    pub(super) fn is_dense(&self) -> bool {
        self.dilation.iter().all(|n| *n == 1)
    }

    /// The windows over two axes, where there is one: over rows of one pixel.
    pub(super) fn of_two_axes(mut self) -> Windows {
        if self.kernel.len() == 1 {
            self.kernel.insert(0, 1);
            self.stride.insert(0, 1);
            self.dilation.insert(0, 1);
            self.pads.insert(0, [0; 2]);
            self.beyond.insert(0, 0);
        }
        self
    }

    /// Rows above and below the images, and columns left and right of them.
    pub(super) fn padding(&self) -> [usize; 4] {
        let [[top, bottom], [left, right]] = [self.pads[0], self.pads[1]];
        [top, bottom + self.beyond[0], left, right + self.beyond[1]]
    }
}

/// How a convolution slides.
pub(super) fn options(call: &Call<'_>, windows: &Windows) -> Result<Conv2dOptions> {
    let Ok(groups) = usize::try_from(call.int("group", 1)) else {
        return call.unknown("a negative number of groups");
    };
    Ok(Conv2dOptions {
        stride: [windows.stride[0], windows.stride[1]],
        padding: windows.padding(),
        dilation: [windows.dilation[0], windows.dilation[1]],
        groups,
        ..Conv2dOptions::default()
    })
}
