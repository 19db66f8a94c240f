//! Transposed convolutions, and images from columns.

use lessen_base::Result;

use super::columns::{Panels, blocks, scatter};
use super::convolution::{bias, grouped};
use super::windows::{AutoPad, Windows, auto_pad, bounded, by_axis, explicit_pads, halves};
use crate::operators::real::{Real, in_real};
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Number, each_number, one};

pub(crate) const OPERATORS: HostOperators = &[("", "ConvTranspose", conv_transpose), ("", "Col2Im", col2im)];

fn conv_transpose(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, conv_transpose_of)
}

/// `ConvTranspose(X, W, B)` of `[N, C, ...]` and `[C, M / group, ...]`: every element of the input adds its window to
/// the output.
fn conv_transpose_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (x, w) = (call.tensor(0)?, call.tensor(1)?);
    let Some(element) = x.element().filter(|element| w.element() == Some(*element)) else {
        return call.refused("its image and weights have different types");
    };
    let (groups, kernel) = grouped(call, x.shape(), w.shape())?;
    let (batch, channels) = (x.shape()[0], x.shape()[1]);
    if w.shape()[0] != channels || !channels.is_multiple_of(groups) {
        return call.refused(format!(
            "weights of {:?} in {groups} groups do not fit an image of {:?}",
            w.shape(),
            x.shape()
        ));
    }
    let windows = transposed(call, &x.shape()[2..], kernel)?;
    let Some(features) = w.shape()[1].checked_mul(groups) else {
        return call.refused("its weights have too many features");
    };
    let mut shape = vec![batch, features];
    shape.extend(&windows.image);
    let count = bounded(call, &shape)?;
    let (taps, positions, image) = (windows.taps()?, windows.count()?, windows.image_len()?);
    let (channels, features) = (channels / groups, features / groups);
    let (x, w) = (R::elements(x.data()), R::elements(w.data()));
    let mut y = vec![R::ZERO; count];
    if let Some(bias) = bias(call, 2, features * groups)? {
        let bias = R::elements(bias.data());
        for (line, bias) in y.chunks_exact_mut(image.max(1)).zip(bias.iter().cycle()) {
            line.fill(*bias);
        }
    }
    let depth = features * taps;
    let mut panels = Panels::new();
    let mut columns = Vec::new();
    for group in 0..groups {
        let w = transpose(&w[group * channels * depth..][..channels * depth], channels, depth);
        for part in (0..batch).map(|n| n * groups + group) {
            let x = &x[part * channels * positions..][..channels * positions];
            let y = &mut y[part * features * image..][..features * image];
            for range in blocks(channels.max(depth), positions) {
                panels.take(x, channels, positions, range.clone());
                columns.clear();
                columns.resize(depth * range.len(), R::ZERO);
                panels.add_product(&w, &mut columns, range.len());
                scatter(&windows, range.clone(), &columns, range.len(), y, features, taps);
            }
        }
    }
    one(HostTensor::new(&shape, R::store(y, element))?)
}

/// The columns of a matrix as rows.
fn transpose<T: Number>(matrix: &[T], rows: usize, columns: usize) -> Vec<T> {
    let mut all = vec![T::ZERO; matrix.len()];
    for (row, line) in matrix.chunks_exact(columns.max(1)).enumerate() {
        for (column, x) in line.iter().enumerate() {
            all[column * rows + row] = *x;
        }
    }
    all
}

/// Windows over the output, one for each element of the input.
fn transposed(call: &HostCall<'_>, input: &[usize], kernel: &[usize]) -> Result<Windows> {
    let count = input.len();
    let strides = by_axis(call, "strides", count, 1, 1)?;
    let dilations = by_axis(call, "dilations", count, 1, 1)?;
    let extra = by_axis(call, "output_padding", count, 0, 0)?;
    let auto_pad = auto_pad(call)?;
    let given = match call.ints("output_shape").filter(|given| !given.is_empty()) {
        None => None,
        // Older files give the extents of all axes.
        Some(all) if all.len() == count + 2 => Some(all[2..].to_vec()),
        Some(all) if all.len() == count => Some(all),
        Some(all) => return call.refused(format!("its output_shape {all:?} does not fit {count} axes")),
    };
    let mut pads = match auto_pad {
        AutoPad::Explicit => explicit_pads(call, count)?,
        _ => vec![(0, 0); count],
    };
    let mut image = Vec::with_capacity(count);
    for axis in 0..count {
        let size = |n: usize| i64::try_from(n).ok().filter(|n| *n <= 1 << 30);
        let (Some(extent), Some(taps)) = (size(input[axis]), size(kernel[axis]).filter(|taps| *taps > 0)) else {
            return call.refused(format!("weights of {kernel:?} do not fit an image of {input:?}"));
        };
        let reach = (taps - 1) * dilations[axis] as i64 + 1;
        let full = (extent - 1) * strides[axis] as i64 + extra[axis] as i64;
        let Some(full) = full.checked_add(reach) else {
            return call.refused("its output is too large");
        };
        let wanted = match (&given, auto_pad) {
            (Some(given), _) => Some(given[axis]),
            (None, AutoPad::Upper | AutoPad::Lower) => Some(extent * strides[axis] as i64),
            (None, _) => None,
        };
        if let Some(wanted) = wanted {
            if given.is_none() && wanted > full {
                return call
                    .refused("its windows are shorter than its strides, where an auto_pad has no agreed meaning");
            }
            let is_lower = auto_pad != AutoPad::Upper;
            pads[axis] = halves(full.saturating_sub(wanted).max(0), is_lower);
        }
        let extent = wanted.unwrap_or(full - pads[axis].0 - pads[axis].1);
        match usize::try_from(extent)
            .ok()
            .filter(|extent| (1..=1 << 30).contains(extent))
        {
            Some(extent) => image.push(extent),
            None => return call.refused(format!("its output would have {extent} elements along an axis")),
        }
    }
    Ok(Windows {
        image,
        kernel: kernel.to_vec(),
        strides,
        dilations,
        pads,
        positions: input.to_vec(),
    })
}

/// `Col2Im(input, image_shape, block_shape)` of `[N, C * elements of a block, blocks]`: blocks that overlap are added.
fn col2im(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let extents = |input: usize| -> Result<Vec<usize>> {
        let all = call.integers(input)?;
        if all.iter().any(|n| !(1..=1 << 30).contains(n)) {
            return call.refused(format!("the extents {all:?} are no extents of images"));
        }
        Ok(all.into_iter().map(|n| n as usize).collect())
    };
    let input = call.tensor(0)?;
    let windows = Windows::of(call, &extents(1)?, &extents(2)?, false)?;
    let (taps, positions) = (windows.taps()?, windows.count()?);
    let (batch, channels) = match *input.shape() {
        [batch, rows, columns] if columns == positions && rows.is_multiple_of(taps) => (batch, rows / taps),
        ref shape => return call.refused(format!("{positions} blocks of {taps} elements do not fit {shape:?}")),
    };
    let mut result = vec![batch, channels];
    result.extend(&windows.image);
    let count = bounded(call, &result)?;
    let image = channels * windows.image_len()?;
    let sizes = [batch, channels, taps, positions, image, count];
    let y: Data = each_number!(input.data(), v => col2im_of(&windows, v, sizes).into(), else {
        return call.refused("its input 0 has no numbers");
    });
    one(HostTensor::new(&result, y)?)
}

fn col2im_of<T: Number>(
    windows: &Windows,
    columns: &[T],
    [batch, channels, taps, positions, image, count]: [usize; 6],
) -> Vec<T> {
    let mut y = vec![T::ZERO; count];
    let rows = channels * taps;
    for n in 0..batch {
        let columns = &columns[n * rows * positions..][..rows * positions];
        let y = &mut y[n * image..][..image];
        scatter(windows, 0..positions, columns, positions, y, channels, taps);
    }
    y
}
