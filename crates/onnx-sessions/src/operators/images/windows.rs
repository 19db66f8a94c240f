//! Windows that move over the spatial axes of an image: where they start, and which elements they meet.

use std::ops::Range;

use lessen_base::Result;

use lessen_onnx::host::HostCall;
use lessen_onnx::host::numel;

/// The greatest size, stride, dilation and padding of a window.
const MOST: i64 = 1 << 30;

/// Windows over an image, all by spatial axis.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    /// Extents of the image.
    pub image: Vec<usize>,
    /// Elements of a window.
    pub kernel: Vec<usize>,
    /// Steps from window to window.
    pub strides: Vec<usize>,
    /// Steps from element to element of a window.
    pub dilations: Vec<usize>,
    /// Elements that are added before and after the image.
    pub pads: Vec<(i64, i64)>,
    /// The number of windows.
    pub positions: Vec<usize>,
}

/// The numbers of an attribute by spatial axis, each between a least number and [`MOST`].
pub(super) fn by_axis(call: &HostCall<'_>, name: &str, count: usize, least: i64, default: i64) -> Result<Vec<usize>> {
    let Some(given) = call.ints(name).filter(|given| !given.is_empty()) else {
        return Ok(vec![default as usize; count]);
    };
    if given.len() != count || given.iter().any(|n| !(least..=MOST).contains(n)) {
        return call.refused(format!("its {name} are {given:?}, where {count} axes have windows"));
    }
    Ok(given.into_iter().map(|n| n as usize).collect())
}

/// The attribute `pads`: before and after each spatial axis.
pub(super) fn explicit_pads(call: &HostCall<'_>, count: usize) -> Result<Vec<(i64, i64)>> {
    let all = by_axis(call, "pads", 2 * count, 0, 0)?;
    let (before, after) = all.split_at(count);
    let pairs = before.iter().zip(after);
    Ok(pairs.map(|(before, after)| (*before as i64, *after as i64)).collect())
}

/// Padding that a node asks for by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AutoPad {
    /// The attribute `pads`.
    Explicit,
    /// As much that there is a window for each stride; what is odd comes after the image.
    Upper,
    /// The same; what is odd comes before the image.
    Lower,
    /// None.
    Valid,
}

/// The attribute `auto_pad`.
pub(super) fn auto_pad(call: &HostCall<'_>) -> Result<AutoPad> {
    match call.text("auto_pad").as_deref() {
        None | Some("" | "NOTSET") => Ok(AutoPad::Explicit),
        Some("SAME_UPPER") => Ok(AutoPad::Upper),
        Some("SAME_LOWER") => Ok(AutoPad::Lower),
        Some("VALID") => Ok(AutoPad::Valid),
        Some(other) => call.refused(format!("its auto_pad `{other}` is not known")),
    }
}

/// Padding in two parts.
pub(super) fn halves(total: i64, is_lower: bool) -> (i64, i64) {
    let small = total / 2;
    if is_lower {
        (total - small, small)
    } else {
        (small, total - small)
    }
}

impl Windows {
    /// The windows of a node with the attributes `strides`, `dilations`, `pads`, `auto_pad` and, where it may have one,
    /// `ceil_mode`.
    ///
    /// # Errors
    /// Attributes that do not fit each other, windows larger than the padded image.
    pub fn of(call: &HostCall<'_>, image: &[usize], kernel: &[usize], has_ceil: bool) -> Result<Windows> {
        let count = image.len();
        if kernel.len() != count || count == 0 {
            return call.refused(format!("windows of {kernel:?} do not fit an image of {image:?}"));
        }
        if let Some(bad) = kernel.iter().chain(image).find(|extent| **extent as u64 > MOST as u64) {
            return call.refused(format!("an extent of {bad} is too large"));
        }
        let strides = by_axis(call, "strides", count, 1, 1)?;
        let dilations = by_axis(call, "dilations", count, 1, 1)?;
        let ceil = has_ceil && call.int("ceil_mode", 0) != 0;
        let auto_pad = auto_pad(call)?;
        let mut pads = match auto_pad {
            AutoPad::Explicit => explicit_pads(call, count)?,
            _ => vec![(0, 0); count],
        };
        let mut positions = Vec::with_capacity(count);
        for axis in 0..count {
            let extent = image[axis] as i64;
            let stride = strides[axis] as i64;
            let reach = (kernel[axis] as i64 - 1) * dilations[axis] as i64 + 1;
            if kernel[axis] == 0 {
                return call.refused("its windows are empty");
            }
            if matches!(auto_pad, AutoPad::Upper | AutoPad::Lower) {
                let windows = (extent + stride - 1) / stride;
                let total = (windows - 1) * stride + reach - extent;
                // Pooling would begin inside of the image, as not all do.
                if has_ceil && total < -1 {
                    return call
                        .refused("its windows are shorter than its strides, where an auto_pad has no agreed meaning");
                }
                let total = total.max(0);
                pads[axis] = halves(total, auto_pad == AutoPad::Lower);
                positions.push(windows as usize);
                continue;
            }
            let (before, after) = pads[axis];
            let room = extent + before + after - reach;
            if room < 0 {
                return call.refused(format!(
                    "a window that reaches over {reach} elements does not fit an axis of {extent} elements and {} of \
                     padding",
                    before + after
                ));
            }
            let mut windows = room / stride + 1;
            if ceil && room % stride != 0 && windows * stride < extent + before {
                windows += 1;
            }
            positions.push(windows as usize);
        }
        Ok(Windows {
            image: image.to_vec(),
            kernel: kernel.to_vec(),
            strides,
            dilations,
            pads,
            positions,
        })
    }

    /// Elements of the image.
    pub fn image_len(&self) -> Result<usize> {
        numel(&self.image)
    }

    /// The number of windows.
    pub fn count(&self) -> Result<usize> {
        numel(&self.positions)
    }

    /// Elements of a window.
    pub fn taps(&self) -> Result<usize> {
        numel(&self.kernel)
    }

    /// The elements of a window along an axis that are in the image: their range within the window.
    pub fn within(&self, axis: usize, position: usize) -> Range<usize> {
        let dilation = self.dilations[axis] as i64;
        let start = position as i64 * self.strides[axis] as i64 - self.pads[axis].0;
        let first = (-start).max(0).div_euclid(dilation) + i64::from((-start).max(0) % dilation != 0);
        let after = (self.image[axis] as i64 - start + dilation - 1).div_euclid(dilation);
        let end = after.clamp(0, self.kernel[axis] as i64);
        first.min(end) as usize..end as usize
    }

    /// The place on an axis of an element of a window, which may be outside of the image.
    pub fn place(&self, axis: usize, position: usize, tap: usize) -> i64 {
        position as i64 * self.strides[axis] as i64 - self.pads[axis].0 + tap as i64 * self.dilations[axis] as i64
    }

    /// Visits where one element of some windows is in the image: a first window, how many follow one another, the place
    /// in the image of the first one, and the step from each to the next.
    pub fn visit(&self, tap: usize, windows: Range<usize>, mut visitor: impl FnMut(usize, usize, usize, usize)) {
        let last = self.kernel.len() - 1;
        let width = self.positions[last];
        if windows.is_empty() || width == 0 {
            return;
        }
        let (stride, extent) = (self.strides[last] as i64, self.image[last] as i64);
        let offset = (tap % self.kernel[last]) as i64 * self.dilations[last] as i64 - self.pads[last].0;
        let low = (-offset).max(0).div_euclid(stride) + i64::from((-offset).max(0) % stride != 0);
        let high = (extent - offset + stride - 1).div_euclid(stride).clamp(0, width as i64);
        if low >= high {
            return;
        }
        let (low, high) = (low as usize, high as usize);
        for row in windows.start / width..=(windows.end - 1) / width {
            let from = windows.start.saturating_sub(row * width).max(low);
            let to = (windows.end - row * width).min(high);
            if from >= to {
                continue;
            }
            if let Some(line) = self.line(tap / self.kernel[last], row) {
                let at = line * self.image[last] + (from as i64 * stride + offset) as usize;
                visitor(row * width + from, to - from, at, self.strides[last]);
            }
        }
    }

    /// The line of the image, along its last axis, that a tap of a row of windows meets.
    fn line(&self, mut tap: usize, mut row: usize) -> Option<usize> {
        let (mut line, mut size) = (0, 1);
        for axis in (0..self.kernel.len() - 1).rev() {
            let place = self.place(axis, row % self.positions[axis], tap % self.kernel[axis]);
            tap /= self.kernel[axis];
            row /= self.positions[axis];
            let place = usize::try_from(place).ok().filter(|place| *place < self.image[axis])?;
            line += place * size;
            size *= self.image[axis];
        }
        Some(line)
    }
}

/// The number of elements of a result.
///
/// # Errors
/// Far more elements than the inputs have: a small file could ask for them.
pub(super) fn bounded(call: &HostCall<'_>, shape: &[usize]) -> Result<usize> {
    /// Most elements of a result, whatever its inputs are.
    const FREE: usize = 1 << 25;
    /// Most elements for each one that is read.
    const EACH: usize = 1 << 10;
    let count = numel(shape)?;
    let inputs = call.inputs.iter().flatten().filter_map(|value| value.tensor());
    let read: usize = inputs.map(|tensor| tensor.len()).sum();
    if count > FREE.max(read.saturating_mul(EACH)) || count > 1 << 31 {
        return call.refused(format!("a result of {shape:?} is too large for its inputs"));
    }
    Ok(count)
}
