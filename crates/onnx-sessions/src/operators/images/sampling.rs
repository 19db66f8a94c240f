//! Reading images at places that a grid gives.

use lessen_base::Result;

use super::windows::bounded;
use crate::operators::real::{Real, in_real};
use lessen_onnx::Element;
use lessen_onnx::host::coordinates::cubic;
use lessen_onnx::host::numel;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, moved, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "GridSample", grid_sample),
    ("com.microsoft", "GridSample", grid_sample),
    ("", "AffineGrid", affine_grid),
];

/// How values between elements are computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// What is outside of an image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// What a node says about all axes.
struct Rules {
    mode: Mode,
    outside: Outside,
    aligns_corners: bool,
}

/// An element of an image and its factor.
type Tap = (usize, f64);

impl Rules {
    fn of(call: &HostCall<'_>) -> Result<Rules> {
        let mode = match call.text("mode").as_deref() {
            None | Some("linear" | "bilinear") => Mode::Linear,
            Some("nearest") => Mode::Nearest,
            Some("cubic" | "bicubic") => Mode::Cubic,
            Some(other) => return call.refused(format!("its mode `{other}` is not known")),
        };
        let outside = match call.text("padding_mode").as_deref() {
            None | Some("zeros") => Outside::Zeros,
            Some("border") => Outside::Border,
            Some("reflection") => Outside::Reflection,
            Some(other) => return call.refused(format!("its padding_mode `{other}` is not known")),
        };
        Ok(Rules {
            mode,
            outside,
            aligns_corners: call.int("align_corners", 0) != 0,
        })
    }

    /// The place on an axis for a number of the grid, which is -1 at the first end and 1 at the last.
    fn place<R: Real>(&self, number: R, extent: usize) -> f64 {
        let (one, two, extent_) = (R::ONE, R::of_f64(2.0), R::of_f64(extent as f64));
        let place = if self.aligns_corners {
            (number + one) / two * (extent_ - one)
        } else {
            ((number + one) * extent_ - one) / two
        };
        let place = match self.mode {
            Mode::Nearest => place.to_f64().round_ties_even(),
            _ => place.to_f64(),
        };
        let (low, high) = self.ends(extent);
        match self.outside {
            // Of a cubic sum each element is looked for by itself.
            _ if self.mode == Mode::Cubic || (low..=high).contains(&place) => place,
            Outside::Zeros => place,
            Outside::Border => place.clamp(0.0, extent as f64 - 1.0),
            Outside::Reflection => R::of_f64(reflected(place, low, high)).to_f64(),
        }
    }

    /// The ends of an axis, between which nothing is reflected.
    fn ends(&self, extent: usize) -> (f64, f64) {
        if self.aligns_corners {
            (0.0, extent as f64 - 1.0)
        } else {
            (-0.5, extent as f64 - 0.5)
        }
    }

    /// The element of an axis for any index; none where it counts as zero.
    fn element(&self, index: f64, extent: usize) -> Option<usize> {
        let most = extent as f64 - 1.0;
        let (low, high) = self.ends(extent);
        match self.outside {
            Outside::Zeros => (0.0..=most).contains(&index).then_some(index as usize),
            Outside::Border => Some(index.clamp(0.0, most) as usize),
            Outside::Reflection if (low..=high).contains(&index) => Some(index.clamp(0.0, most) as usize),
            Outside::Reflection => Some(reflected(index, low, high).clamp(0.0, most) as usize),
        }
    }

    /// The elements of an axis that a value at a place is a sum of.
    fn taps(&self, place: f64, extent: usize, taps: &mut Vec<Tap>) {
        let low = place.floor();
        let share = place - low;
        let mut put = |index: f64, factor: f64| {
            if let Some(index) = self.element(index, extent) {
                taps.push((index, factor));
            }
        };
        match self.mode {
            Mode::Nearest => put(place, 1.0),
            Mode::Linear => {
                put(low, 1.0 - share);
                put(low + 1.0, share);
            }
            Mode::Cubic => {
                for step in [-1.0, 0.0, 1.0, 2.0] {
                    put(low + step, cubic((step - share).abs(), -0.75));
                }
            }
        }
    }
}

/// A place that is reflected at the ends until it is between them.
fn reflected(place: f64, low: f64, high: f64) -> f64 {
    let range = high - low;
    if range <= 0.0 || !place.is_finite() {
        return low.max(0.0);
    }
    let beyond = if place < low { low - place } else { place - high };
    let turns = (beyond / range).trunc();
    let rest = beyond - turns * range;
    if (turns % 2.0 == 0.0) == (place < low) {
        low + rest
    } else {
        high - rest
    }
}

/// `GridSample(X, grid)` of `[N, C, ...]` and `[N, ..., axes]`, whose last numbers are for the first axis.
fn grid_sample(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 1, grid_sample_of)
}

fn grid_sample_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    /// Most spatial axes: each has up to four elements around a place.
    const MOST_AXES: usize = 5;
    let (x, grid) = (call.tensor(0)?, call.tensor(1)?);
    let rules = Rules::of(call)?;
    let (from, to) = (x.shape(), grid.shape());
    let axes = from.len().saturating_sub(2);
    let fits = axes > 0 && axes <= MOST_AXES && to.len() == from.len() && to[0] == from[0] && to[axes + 1] == axes;
    if !fits {
        return call.refused(format!("a grid of {to:?} does not fit an image of {from:?}"));
    }
    let mut shape = from[..2].to_vec();
    shape.extend(&to[1..=axes]);
    bounded(call, &shape)?;
    let (size, positions) = (numel(&from[2..])?, numel(&to[1..=axes])?);
    if size == 0 {
        return call.refused(format!("an image of {from:?} has no elements"));
    }
    let numbers = R::elements(grid.data());
    let reader = Reader {
        rules: &rules,
        extents: &from[2..],
        numbers: &numbers,
        channels: from[1],
        positions,
        size,
    };
    let y = match (rules.mode, x.element()) {
        (Mode::Nearest, _) => moved!(x.data(), v => reader.nearest(v)),
        (_, Some(Element::F64)) => f64::store(reader.mixed(&f64::elements(x.data())), Element::F64),
        (_, Some(element)) if element.is_float() => f32::store(reader.mixed(&f32::elements(x.data())), element),
        _ => return call.refused("its image has no floats"),
    };
    one(HostTensor::new(&shape, y)?)
}

/// Reads an image at places.
struct Reader<'a, R> {
    rules: &'a Rules,
    extents: &'a [usize],
    /// The grid.
    numbers: &'a [R],
    channels: usize,
    /// Places of each image.
    positions: usize,
    /// Elements of each channel.
    size: usize,
}

impl<R: Real> Reader<'_, R> {
    /// The elements of a channel that the value at a place of the grid is a sum of.
    fn taps(&self, place: usize, all: &mut Vec<Tap>, along: &mut Vec<Tap>, next: &mut Vec<Tap>) {
        let axes = self.extents.len();
        all.clear();
        all.push((0, 1.0));
        for (axis, extent) in self.extents.iter().enumerate() {
            let number = self.numbers[place * axes + axes - 1 - axis];
            along.clear();
            self.rules.taps(self.rules.place(number, *extent), *extent, along);
            next.clear();
            for (line, factor) in all.iter() {
                next.extend(along.iter().map(|(at, share)| (line * extent + at, factor * share)));
            }
            std::mem::swap(all, next);
        }
    }

    /// Calls a function with each place and the elements around it: `(n, position, taps)`.
    fn each(&self, mut visitor: impl FnMut(usize, usize, &[Tap])) {
        let (mut all, mut along, mut next) = (Vec::new(), Vec::new(), Vec::new());
        for place in 0..self.numbers.len() / self.extents.len() {
            self.taps(place, &mut all, &mut along, &mut next);
            visitor(place / self.positions, place % self.positions, &all);
        }
    }

    fn nearest<T: Clone + Default>(&self, x: &[T]) -> Vec<T> {
        let mut y = vec![T::default(); x.len() / self.size * self.positions];
        self.each(|n, position, taps| {
            let Some((at, _)) = taps.first() else {
                return;
            };
            for part in n * self.channels..(n + 1) * self.channels {
                y[part * self.positions + position] = x[part * self.size + at].clone();
            }
        });
        y
    }

    fn mixed<T: Real>(&self, x: &[T]) -> Vec<T> {
        let mut y = vec![T::ZERO; x.len() / self.size * self.positions];
        self.each(|n, position, taps| {
            for part in n * self.channels..(n + 1) * self.channels {
                let x = &x[part * self.size..][..self.size];
                let sum = taps
                    .iter()
                    .fold(T::ZERO, |sum, (at, factor)| sum + T::of_f64(*factor) * x[*at]);
                y[part * self.positions + position] = sum;
            }
        });
        y
    }
}

fn affine_grid(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, affine_grid_of)
}

/// `AffineGrid(theta, size)`: the grid of an image `[N, C, ...]`, transformed.
fn affine_grid_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let theta = call.tensor(0)?;
    let size = call.integers(1)?;
    let axes = size.len().saturating_sub(2);
    if !(1..=3).contains(&axes) || size.iter().any(|n| !(0..=1 << 30).contains(n)) {
        return call.refused(format!("its size is {size:?}"));
    }
    let size: Vec<usize> = size.into_iter().map(|n| n as usize).collect();
    if theta.shape() != [size[0], axes, axes + 1] {
        return call.refused(format!("transformations of {:?} do not fit {size:?}", theta.shape()));
    }
    let mut shape = vec![size[0]];
    shape.extend(&size[2..]);
    let places = numel(&size[2..])?;
    shape.push(axes);
    let count = bounded(call, &shape)?;
    let aligns_corners = call.int("align_corners", 0) != 0;
    if aligns_corners && size[2..].contains(&1) {
        return call.refused("an axis has one element, whose place between aligned corners is not agreed");
    }
    // The numbers of each axis, the last axis first.
    let lines: Vec<Vec<R>> = size[2..]
        .iter()
        .rev()
        .map(|extent| line(*extent, aligns_corners))
        .collect();
    let matrix = R::elements(theta.data());
    let mut y = Vec::with_capacity(count);
    for matrix in matrix.chunks_exact(axes * (axes + 1)) {
        for place in 0..places {
            let mut rest = place;
            let point: [R; 3] = std::array::from_fn(|axis| match lines.get(axis) {
                Some(line) => {
                    let at = rest % line.len();
                    rest /= line.len();
                    line[at]
                }
                None => R::ZERO,
            });
            for row in matrix.chunks_exact(axes + 1) {
                let products = row.iter().zip(&point[..axes]).map(|(a, b)| *a * *b);
                y.push(products.fold(row[axes], |sum, product| sum + product));
            }
        }
    }
    let y: Data = R::store(y, theta.element().unwrap_or(Element::F32));
    one(HostTensor::new(&shape, y)?)
}

/// Places of an axis from -1 to 1: from the first to the last element, or between the outer ends of both.
fn line<R: Real>(extent: usize, aligns_corners: bool) -> Vec<R> {
    let place = |i: usize| match aligns_corners {
        true => -1.0 + 2.0 * i as f64 / (extent - 1) as f64,
        false => -1.0 + (2 * i + 1) as f64 / extent as f64,
    };
    (0..extent).map(|i| R::of_f64(place(i))).collect()
}
