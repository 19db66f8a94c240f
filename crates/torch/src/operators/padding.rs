//! Elements around tensors, and other sizes of images.

use lessen_base::Result;
use lessen_graph::Tensor;

use crate::call::{Call, Operators, one};
use crate::images::{along, channels_first, channels_last};
use crate::value::Value;
use crate::window::taken;

pub const OPERATORS: Operators = &[
    ("constant_pad_nd", pad),
    ("pad", pad),
    ("reflection_pad1d", |call| mirrored(call, reflected)),
    ("reflection_pad2d", |call| mirrored(call, reflected)),
    ("replication_pad1d", |call| mirrored(call, nearest)),
    ("replication_pad2d", |call| mirrored(call, nearest)),
    ("upsample_bilinear2d", |call| resize(call, Tensor::resize_bilinear)),
    ("upsample_nearest1d", |call| {
        let x = call.x()?.unsqueeze(2);
        let wanted = call.sizes("output_size")?;
        let [width] = wanted[..] else {
            return call.lacks("sequences at a size that is given as a factor; give the size");
        };
        let y = channels_first(channels_last(x).resize_nearest([1, width]));
        let shape = y.shape();
        one(y.reshape(&[shape[0], shape[1], width]))
    }),
    ("upsample_nearest2d", |call| resize(call, Tensor::resize_nearest)),
];

/// Pads of the last axes, from the last one on, in pairs; negative ones cut.
fn pads(call: &mut Call<'_, '_>, rank: usize) -> Result<Vec<(usize, i64, i64)>> {
    let pads = call
        .ints(if call.has("pad") { "pad" } else { "padding" })?
        .unwrap_or_default();
    if pads.len() > 2 * rank {
        return call.lacks("padding of more axes than the tensor has");
    }
    Ok(pads
        .chunks(2)
        .enumerate()
        .map(|(i, pair)| (rank - 1 - i, pair[0], pair[pair.len() - 1]))
        .collect())
}

fn pad(call: &mut Call<'_, '_>) -> Result<Value> {
    match call.text("mode").as_deref() {
        None | Some("constant") => {}
        Some("reflect") => return mirrored(call, reflected),
        Some("replicate") => return mirrored(call, nearest),
        Some("circular") => return mirrored(call, |at, extent| at.rem_euclid(extent)),
        Some(mode) => return call.lacks(&format!("padding of the mode {mode}")),
    }
    let mut x = call.x()?;
    let value = call.float("value", 0.0)?;
    let value = x.dtype().round(value);
    for (axis, before, after) in pads(call, x.rank())? {
        let extent = x.shape()[axis] as i64;
        let (cut, end) = ((-before).max(0), extent + after.min(0));
        x = along(x, axis, |x, axis| {
            let kept = if end - cut == extent {
                x
            } else {
                x.slice(axis, cut as usize, (end - cut).max(0) as usize)
            };
            let (before, after) = (before.max(0) as usize, after.max(0) as usize);
            if before + after == 0 {
                kept
            } else {
                kept.pad(axis, before, after, value)
            }
        });
    }
    one(x)
}

fn reflected(at: i64, extent: i64) -> i64 {
    let at = at.abs();
    if at < extent { at } else { 2 * (extent - 1) - at }
}

fn nearest(at: i64, extent: i64) -> i64 {
    at.clamp(0, extent - 1)
}

/// Padding by elements of the tensor, whose position `place` says for one outside.
fn mirrored(call: &mut Call<'_, '_>, place: impl Fn(i64, i64) -> i64) -> Result<Value> {
    let mut x = call.x()?;
    for (axis, before, after) in pads(call, x.rank())? {
        let extent = x.shape()[axis] as i64;
        let positions: Vec<usize> = (-before..extent + after).map(|at| place(at, extent) as usize).collect();
        x = along(x, axis, |x, axis| taken(x, axis as usize, &positions));
    }
    one(x)
}

/// Images at another height and width, which are given or follow from factors.
fn resize(call: &mut Call<'_, '_>, f: impl FnOnce(Tensor, [usize; 2]) -> Tensor) -> Result<Value> {
    let x = call.x()?;
    let [_, _, height, width] = x.shape()[..] else {
        return call.lacks("resizing of other than images");
    };
    if call.truth("align_corners") {
        return call.lacks("resizing with align_corners=True; use align_corners=False");
    }
    let size = if call.has("output_size") {
        call.pair("output_size", [height, width])?
    } else {
        let Value::List(factors) = call.value("scale_factors") else {
            return call.lacks("resizing without a size");
        };
        let factor = |at: usize| {
            factors
                .get(at)
                .or(factors.first())
                .and_then(Value::number)
                .unwrap_or(1.0)
        };
        let sized = |extent: usize, at: usize| (extent as f64 * factor(at)).floor() as usize;
        [sized(height, 0), sized(width, 1)]
    };
    one(channels_first(f(channels_last(x), size)))
}
