//! Convolutions whose windows read between the elements of an image, at learnt offsets.

use lessen_base::Result;

use super::columns::{Panels, blocks};
use super::convolution::{bias, grouped};
use super::windows::{Windows, bounded};
use crate::operators::real::{Real, in_real};
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[("", "DeformConv", deform_conv)];

fn deform_conv(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, deform_conv_of)
}

/// `DeformConv(X, W, offset, B, mask)` of images of two axes.
fn deform_conv_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (x, w, offset) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let Some(element) = x.element().filter(|element| w.element() == Some(*element)) else {
        return call.refused("its image and weights have different types");
    };
    if x.rank() != 4 {
        return call.refused(format!("its image has {} axes, where 4 are known", x.rank()));
    }
    let (groups, kernel) = grouped(call, x.shape(), w.shape())?;
    let (batch, channels, features) = (x.shape()[0], x.shape()[1], w.shape()[0]);
    let offset_groups = usize::try_from(call.int("offset_group", 1)).unwrap_or(0);
    let per_group = w.shape()[1];
    let fits = per_group.checked_mul(groups) == Some(channels) && features.is_multiple_of(groups);
    if !fits || offset_groups == 0 || !channels.is_multiple_of(offset_groups) {
        return call.refused(format!(
            "weights of {:?} in {groups} groups, with {offset_groups} groups of offsets, do not fit an image of {:?}",
            w.shape(),
            x.shape()
        ));
    }
    let windows = Windows::of(call, &x.shape()[2..], kernel, false)?;
    let (taps, positions) = (windows.taps()?, windows.count()?);
    let of_taps = |each: usize| {
        let planes = offset_groups.saturating_mul(taps).saturating_mul(each);
        [batch, planes, windows.positions[0], windows.positions[1]]
    };
    let mask = call.optional(4)?;
    if offset.shape() != of_taps(2) || mask.is_some_and(|mask| mask.shape() != of_taps(1)) {
        return call.refused(format!(
            "its offsets have the extents {:?}, where {:?} fit",
            offset.shape(),
            of_taps(2)
        ));
    }
    let shape = [batch, features, windows.positions[0], windows.positions[1]];
    let mut y = vec![R::ZERO; bounded(call, &shape)?];
    let bias = bias(call, 3, features)?.map(|bias| R::elements(bias.data()));
    if let Some(bias) = bias.filter(|_| positions > 0) {
        for (line, bias) in y.chunks_exact_mut(positions).zip(bias.iter().cycle()) {
            line.fill(*bias);
        }
    }
    let (x, w, offset) = (R::elements(x.data()), R::elements(w.data()), R::elements(offset.data()));
    let mask = mask.map(|mask| R::elements(mask.data()));
    let sampler = Sampler {
        windows: &windows,
        taps,
        positions,
        offset: &offset,
        mask: mask.as_deref(),
    };
    let image = windows.image_len()?;
    let features = features / groups;
    let depth = per_group * taps;
    let mut panels = Panels::new();
    for part in 0..batch * groups {
        let (n, group) = (part / groups, part % groups);
        let w = &w[group * features * depth..][..features * depth];
        let y = &mut y[part * features * positions..][..features * positions];
        for range in blocks(depth, positions) {
            panels.set(depth, range.len(), |row, column| {
                let channel = group * per_group + row / taps;
                let plane = n * offset_groups + channel / (channels / offset_groups);
                let x = &x[(n * channels + channel) * image..][..image];
                sampler.sample(x, plane, row % taps, range.start + column)
            });
            if features > 0 {
                panels.add_product(w, &mut y[range.start..], positions);
            }
        }
    }
    one(HostTensor::new(&shape, R::store(y, element))?)
}

/// Where windows read.
struct Sampler<'a, R> {
    windows: &'a Windows,
    taps: usize,
    positions: usize,
    /// Offsets of height and width: by plane, tap, these two and window.
    offset: &'a [R],
    /// Factors, by plane, tap and window.
    mask: Option<&'a [R]>,
}

impl<R: Real> Sampler<'_, R> {
    /// The element of a window, between four elements of the image; nought outside of the image.
    fn sample(&self, x: &[R], plane: usize, tap: usize, window: usize) -> R {
        let at = plane * self.taps + tap;
        let width = self.windows.positions[1];
        let places = [
            self.windows.place(0, window / width, tap / self.windows.kernel[1]),
            self.windows.place(1, window % width, tap % self.windows.kernel[1]),
        ];
        let [row, column] = std::array::from_fn(|axis| {
            R::of_f64(places[axis] as f64) + self.offset[(at * 2 + axis) * self.positions + window]
        });
        let value = between(x, self.windows.image[0], self.windows.image[1], row, column);
        match self.mask {
            Some(mask) => value * mask[at * self.positions + window],
            None => value,
        }
    }
}

/// The bilinear value of a plane at a place; what is outside counts as nought.
fn between<R: Real>(x: &[R], height: usize, width: usize, row: R, column: R) -> R {
    let (low_row, low_column) = (row.floor(), column.floor());
    let (down, right) = (row - low_row, column - low_column);
    let (low_row, low_column) = (low_row.to_f64(), low_column.to_f64());
    let at = |row: f64, column: f64| {
        let is_inside = row >= 0.0 && column >= 0.0 && row < height as f64 && column < width as f64;
        if is_inside {
            x[row as usize * width + column as usize]
        } else {
            R::ZERO
        }
    };
    let top = at(low_row, low_column) * (R::ONE - right) + at(low_row, low_column + 1.0) * right;
    let bottom = at(low_row + 1.0, low_column) * (R::ONE - right) + at(low_row + 1.0, low_column + 1.0) * right;
    top * (R::ONE - down) + bottom * down
}
