//! Convolutions.

use lessen_base::Result;

use super::columns::{Panels, blocks};
use super::windows::{Windows, bounded};
use crate::operators::real::{Real, in_real};
use lessen_onnx::Element;
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, Number, one};

pub(crate) const OPERATORS: HostOperators = &[("", "Conv", conv)];

fn conv(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, conv_of)
}

/// `Conv(X, W, B)` of `[N, C, ...]` and `[M, C / group, ...]`.
fn conv_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (shape, y, element) = convolved::<R>(call)?;
    one(HostTensor::new(&shape, R::store(y, element))?)
}

/// The convolution of the first inputs: its extents, its elements and their type.
pub(super) fn convolved<R: Real>(call: &HostCall<'_>) -> Result<(Vec<usize>, Vec<R>, Element)> {
    let (x, w) = (call.tensor(0)?, call.tensor(1)?);
    let Some(element) = x.element().filter(|element| w.element() == Some(*element)) else {
        return call.refused("its image and weights have different types");
    };
    let convolution = Convolution::of(call, x.shape(), w.shape())?;
    let bias = bias(call, 2, convolution.features)?;
    let bias = bias.map(|bias| R::elements(bias.data()));
    let y = convolution.run(&R::elements(x.data()), &R::elements(w.data()), bias.as_deref())?;
    Ok((convolution.shape, y, element))
}

/// The number of each feature, if the input is there.
///
/// # Errors
/// Another number of them.
pub(super) fn bias<'c>(call: &'c HostCall<'_>, input: usize, features: usize) -> Result<Option<&'c HostTensor>> {
    let bias = call.optional(input)?;
    match bias {
        Some(bias) if bias.len() != features => call.refused(format!(
            "its input {input} has {} numbers for {features} features",
            bias.len()
        )),
        bias => Ok(bias.map(|bias| &**bias)),
    }
}

/// A convolution of some extents.
pub(super) struct Convolution {
    windows: Windows,
    batch: usize,
    groups: usize,
    /// Channels of each group.
    channels: usize,
    /// Features of the result.
    pub features: usize,
    /// Extents of the result.
    pub shape: Vec<usize>,
}

impl Convolution {
    /// The convolution of a node for an image `[N, C, ...]` and weights `[M, C / group, ...]`.
    ///
    /// # Errors
    /// Extents and attributes that do not fit each other.
    pub fn of(call: &HostCall<'_>, x: &[usize], w: &[usize]) -> Result<Convolution> {
        let (groups, kernel) = grouped(call, x, w)?;
        if w[1].checked_mul(groups) != Some(x[1]) || !w[0].is_multiple_of(groups) {
            return call.refused(format!(
                "weights of {w:?} in {groups} groups do not fit an image of {x:?}"
            ));
        }
        let windows = Windows::of(call, &x[2..], kernel, false)?;
        let mut shape = vec![x[0], w[0]];
        shape.extend(&windows.positions);
        bounded(call, &shape)?;
        Ok(Convolution {
            windows,
            batch: x[0],
            groups,
            channels: w[1],
            features: w[0],
            shape,
        })
    }

    /// The result for these elements.
    pub fn run<T: Number>(&self, x: &[T], w: &[T], bias: Option<&[T]>) -> Result<Vec<T>> {
        let (taps, positions) = (self.windows.taps()?, self.windows.count()?);
        let (image, features) = (self.channels * self.windows.image_len()?, self.features / self.groups);
        let depth = self.channels * taps;
        let mut y = vec![T::ZERO; self.batch * self.features * positions];
        if let Some(bias) = bias.filter(|_| positions > 0) {
            for (line, bias) in y.chunks_exact_mut(positions).zip(bias.iter().cycle()) {
                line.fill(*bias);
            }
        }
        let mut panels = Panels::new();
        for part in 0..self.batch * self.groups {
            let group = part % self.groups;
            let x = &x[part * image..][..image];
            let w = &w[group * features * depth..][..features * depth];
            let y = &mut y[part * features * positions..][..features * positions];
            for range in blocks(depth, positions) {
                panels.gather(&self.windows, range.clone(), x, self.channels, taps);
                if features > 0 {
                    panels.add_product(w, &mut y[range.start..], positions);
                }
            }
        }
        Ok(y)
    }
}

/// The number of groups, and the spatial extents of the weights, which the attribute `kernel_shape` must agree with.
pub(super) fn grouped<'w>(call: &HostCall<'_>, x: &[usize], w: &'w [usize]) -> Result<(usize, &'w [usize])> {
    if x.len() < 3 || w.len() != x.len() {
        return call.refused(format!("weights of {w:?} do not fit an image of {x:?}"));
    }
    let kernel = &w[2..];
    let given = call.ints("kernel_shape").filter(|given| !given.is_empty());
    if given.is_some_and(|given| !given.iter().copied().eq(kernel.iter().map(|n| *n as i64))) {
        return call.refused("its kernel_shape is not that of its weights");
    }
    match usize::try_from(call.int("group", 1)) {
        Ok(groups) if groups > 0 => Ok((groups, kernel)),
        _ => call.refused(format!("it has {} groups", call.int("group", 1))),
    }
}
