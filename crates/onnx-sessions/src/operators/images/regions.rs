//! Pooling of regions of images.

use lessen_base::Result;

use super::windows::bounded;
use crate::operators::real::{Real, in_real};
use lessen_onnx::host::numel;
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[("", "MaxRoiPool", max_roi_pool), ("", "RoiAlign", roi_align)];

/// The extents of images, the number of regions and the parts of each.
struct Regions {
    batch: usize,
    channels: usize,
    height: usize,
    width: usize,
    count: usize,
    /// Parts of a region along the height and the width.
    parts: [usize; 2],
}

impl Regions {
    /// The regions of a node, each of `numbers` numbers.
    fn of(call: &HostCall<'_>, numbers: usize, parts: [i64; 2]) -> Result<Regions> {
        let (x, regions) = (call.tensor(0)?.shape(), call.tensor(1)?.shape());
        let (&[batch, channels, height, width], &[count, each]) = (x, regions) else {
            return call.refused(format!("regions of {regions:?} do not fit images of {x:?}"));
        };
        if each != numbers || height == 0 || width == 0 {
            return call.refused(format!("regions of {regions:?} do not fit images of {x:?}"));
        }
        if parts.iter().any(|n| !(1..=1 << 24).contains(n)) {
            return call.refused(format!("regions cannot have {parts:?} parts"));
        }
        let parts = parts.map(|n| n as usize);
        let all = Regions {
            batch,
            channels,
            height,
            width,
            count,
            parts,
        };
        bounded(call, &all.shape())?;
        Ok(all)
    }

    /// Extents of the result.
    fn shape(&self) -> [usize; 4] {
        [self.count, self.channels, self.parts[0], self.parts[1]]
    }

    /// The channels of an image.
    fn image<'x, R>(&self, call: &HostCall<'_>, x: &'x [R], image: i64) -> Result<&'x [R]> {
        let size = self.channels * self.height * self.width;
        match usize::try_from(image).ok().filter(|image| *image < self.batch) {
            Some(image) => Ok(&x[image * size..][..size]),
            None => call.refused(format!(
                "a region is of the image {image}, and there are {}",
                self.batch
            )),
        }
    }
}

fn max_roi_pool(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, max_roi_pool_of)
}

/// `MaxRoiPool(X, rois)`, whose regions `(image, x1, y1, x2, y2)` include their ends.
fn max_roi_pool_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let x = call.tensor(0)?;
    let parts = match call.ints("pooled_shape").as_deref() {
        Some(&[height, width]) => [height, width],
        _ => return call.refused("its pooled_shape has not two numbers"),
    };
    let regions = Regions::of(call, 5, parts)?;
    let scale = R::of_f64(call.float("spatial_scale", 1.0));
    let (all, rois) = (R::elements(x.data()), R::elements(call.tensor(1)?.data()));
    let mut y = Vec::new();
    for roi in rois.chunks_exact(5) {
        let image = regions.image(call, &all, roi[0].to_f64() as i64)?;
        let ends: [f64; 4] = std::array::from_fn(|i| (roi[i + 1] * scale).to_f64().round());
        let rows = ranges::<R>(ends[1], ends[3], regions.parts[0], regions.height);
        let columns = ranges::<R>(ends[0], ends[2], regions.parts[1], regions.width);
        for channel in image.chunks_exact(regions.height * regions.width) {
            for rows in &rows {
                for columns in &columns {
                    let lines = rows.clone().map(|row| &channel[row * regions.width..][columns.clone()]);
                    let greatest = lines.flatten().copied().reduce(R::greater);
                    y.push(greatest.unwrap_or(R::ZERO));
                }
            }
        }
    }
    match x.element() {
        Some(element) => one(HostTensor::new(&regions.shape(), R::store(y, element))?),
        None => call.refused("its input 0 has no floats"),
    }
}

/// The parts of a region along an axis, cut to the image.
fn ranges<R: Real>(start: f64, end: f64, parts: usize, extent: usize) -> Vec<std::ops::Range<usize>> {
    let size = R::of_f64((end - start + 1.0).max(1.0));
    let step = size / R::of_f64(parts as f64);
    let cut = |place: f64| (place + start).clamp(0.0, extent as f64) as usize;
    let part = |i: usize| {
        let first = cut((R::of_f64(i as f64) * step).floor().to_f64());
        let end = cut((R::of_f64((i + 1) as f64) * step).to_f64().ceil());
        first..end.max(first)
    };
    (0..parts).map(part).collect()
}

fn roi_align(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, roi_align_of)
}

/// `RoiAlign(X, rois, batch_indices)`, whose regions `(x1, y1, x2, y2)` are read between elements.
fn roi_align_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    /// Most places that are read, whatever the result is.
    const FREE: usize = 1 << 28;
    /// Most places that are read for each element of the result.
    const EACH: usize = 32;
    let x = call.tensor(0)?;
    let parts = [call.int("output_height", 1), call.int("output_width", 1)];
    let regions = Regions::of(call, 4, parts)?;
    let images = call.integers(2)?;
    if images.len() != regions.count {
        return call.refused(format!(
            "it has {} regions and {} images of them",
            regions.count,
            images.len()
        ));
    }
    let default = if call.opset < 16 {
        "output_half_pixel"
    } else {
        "half_pixel"
    };
    let is_half_pixel = match call
        .text("coordinate_transformation_mode")
        .as_deref()
        .unwrap_or(default)
    {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => return call.refused(format!("its coordinate_transformation_mode `{other}` is not known")),
    };
    let is_max = match call.text("mode").as_deref() {
        None | Some("avg") => false,
        Some("max") => true,
        Some(other) => return call.refused(format!("its mode `{other}` is not known")),
    };
    let scale = R::of_f64(call.float("spatial_scale", 1.0));
    let offset = R::of_f64(if is_half_pixel { 0.5 } else { 0.0 });
    let ratio = call.int("sampling_ratio", 0).max(0) as usize;
    let (all, rois) = (R::elements(x.data()), R::elements(call.tensor(1)?.data()));
    let mut y = Vec::new();
    let mut left = FREE.max(EACH * numel(&regions.shape())?);
    for (roi, image) in rois.chunks_exact(4).zip(images) {
        let image = regions.image(call, &all, image)?;
        let ends: [R; 4] = std::array::from_fn(|i| roi[i] * scale - offset);
        let extents = [regions.height, regions.width];
        let size = |axis: usize| {
            let size = ends[3 - axis] - ends[1 - axis];
            if is_half_pixel || size > R::ONE { size } else { R::ONE }
        };
        let bins: [R; 2] = std::array::from_fn(|axis| size(axis) / R::of_f64(regions.parts[axis] as f64));
        let grid = bins.map(|bin| {
            if ratio > 0 {
                ratio
            } else {
                bin.to_f64().ceil().max(0.0) as usize
            }
        });
        let work = grid
            .iter()
            .chain(&regions.shape()[1..])
            .try_fold(1usize, |n, m| n.checked_mul(*m));
        let lines = grid.iter().zip(&regions.parts).map(|(a, b)| a.saturating_mul(*b)).max();
        match work.and_then(|work| left.checked_sub(work)) {
            Some(rest) if lines.is_none_or(|lines| lines < 1 << 26) => left = rest,
            _ => return call.refused("its regions are too large to be sampled"),
        }
        let places: [Vec<Place<R>>; 2] = std::array::from_fn(|axis| {
            let places = (0..regions.parts[axis] * grid[axis]).map(|i| {
                let (part, sample) = (i / grid[axis], i % grid[axis]);
                let start = ends[1 - axis] + R::of_f64(part as f64) * bins[axis];
                let within = R::of_f64(sample as f64 + 0.5) * bins[axis] / R::of_f64(grid[axis] as f64);
                Place::of(start + within, extents[axis])
            });
            places.collect()
        });
        for channel in image.chunks_exact(regions.height * regions.width) {
            for row in 0..regions.parts[0] {
                for column in 0..regions.parts[1] {
                    let rows = &places[0][row * grid[0]..][..grid[0]];
                    let columns = &places[1][column * grid[1]..][..grid[1]];
                    y.push(pooled(channel, regions.width, rows, columns, is_max));
                }
            }
        }
    }
    match x.element() {
        Some(element) => one(HostTensor::new(&regions.shape(), R::store(y, element))?),
        None => call.refused("its input 0 has no floats"),
    }
}

/// A place between two elements along an axis.
#[derive(Clone, Copy)]
struct Place<R> {
    low: usize,
    high: usize,
    /// How far it is from the lower one; none where it is outside of the image.
    share: Option<R>,
}

impl<R: Real> Place<R> {
    fn of(place: R, extent: usize) -> Place<R> {
        let at = place.to_f64();
        if !(-1.0..=extent as f64).contains(&at) {
            return Place {
                low: 0,
                high: 0,
                share: None,
            };
        }
        let place = if at < 0.0 { R::ZERO } else { place };
        let low = place.to_f64() as usize;
        if low + 1 >= extent {
            return Place {
                low: extent - 1,
                high: extent - 1,
                share: Some(R::ZERO),
            };
        }
        Place {
            low,
            high: low + 1,
            share: Some(place - R::of_f64(low as f64)),
        }
    }
}

/// The average of values at places, or the greatest of the four weighted elements around each of them.
fn pooled<R: Real>(channel: &[R], width: usize, rows: &[Place<R>], columns: &[Place<R>], is_max: bool) -> R {
    let mut sum = R::ZERO;
    let mut greatest: Option<R> = None;
    for row in rows {
        for column in columns {
            let corners = match (row.share, column.share) {
                (Some(down), Some(right)) => {
                    let (up, left) = (R::ONE - down, R::ONE - right);
                    let at = |row: usize, column: usize| channel[row * width + column];
                    [
                        up * left * at(row.low, column.low),
                        up * right * at(row.low, column.high),
                        down * left * at(row.high, column.low),
                        down * right * at(row.high, column.high),
                    ]
                }
                _ => [R::ZERO; 4],
            };
            if is_max {
                greatest = corners.into_iter().chain(greatest).reduce(R::greater);
            } else {
                sum += corners[0] + corners[1] + corners[2] + corners[3];
            }
        }
    }
    if is_max {
        greatest.unwrap_or(R::ZERO)
    } else {
        sum / R::of_f64((rows.len() * columns.len()).max(1) as f64)
    }
}
