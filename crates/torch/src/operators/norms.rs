//! Normalizations.

use lessen_base::Result;
use lessen_graph::Tensor;
use lessen_nn::layers::{BatchNorm, batch_norm_of};

use crate::call::{Call, Operators, one};
use crate::images::{channels_first, channels_last};
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("_weight_norm", weight_norm),
    ("batch_norm", batch_norm),
    ("group_norm", |call| {
        let groups = call.size("num_groups", 1)?;
        grouped(call, groups)
    }),
    ("instance_norm", |call| {
        if call.has("running_mean") && !call.truth("use_input_stats") {
            return call.lacks("instance normalization by running statistics");
        }
        let channels = call.x()?.shape()[1];
        grouped(call, channels)
    }),
    ("layer_norm", layer_norm),
    ("rms_norm", rms_norm),
];

/// A row for each channel; where it is absent, every element is `absent`.
fn row(call: &Call<'_, '_>, name: &str, width: usize, absent: f64) -> Result<Tensor> {
    let x = call.x()?;
    Ok(match call.optional(name)? {
        Some(row) => row.cast(x.dtype()).reshape(&[width]),
        None => call.trace().full(x.dtype(), &[width], absent),
    })
}

/// The extents of the axes that are normalized together.
fn width(call: &mut Call<'_, '_>) -> Result<usize> {
    Ok(call.sizes("normalized_shape")?.iter().product())
}

fn layer_norm(call: &mut Call<'_, '_>) -> Result<Value> {
    let (x, width, eps) = (call.x()?, width(call)?, call.float("eps", 1e-5)?);
    let (gamma, beta) = (row(call, "weight", width, 1.0)?, row(call, "bias", width, 0.0)?);
    one(x.by_rows(width, |x| x.layer_norm(gamma, beta, eps)))
}

fn rms_norm(call: &mut Call<'_, '_>) -> Result<Value> {
    let (x, width) = (call.x()?, width(call)?);
    let eps = call.float("eps", f64::from(f32::EPSILON))?;
    let gamma = row(call, "weight", width, 1.0)?;
    one(x.by_rows(width, |x| x.rms_norm(gamma, eps)))
}

/// Statistics of the batch in training, which move the running ones; otherwise the running ones.
fn batch_norm(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let channels = x.shape()[1];
    let how = BatchNorm {
        eps: call.float("eps", 1e-5)?,
        momentum: call.float("momentum", 0.1)?,
        frozen: !call.truth("training"),
        ..BatchNorm::default()
    };
    let (weight, bias) = (row(call, "weight", channels, 1.0)?, row(call, "bias", channels, 0.0)?);
    let image = if x.rank() > 2 { channels_last(x) } else { x };
    let y = if call.has("running_mean") {
        let statistics = [call.tensor("running_mean")?, call.tensor("running_var")?];
        batch_norm_of(call.cx(), image, [weight, bias, statistics[0], statistics[1]], how)
    } else {
        let [mean, variance] = image.flatten_rows().moments();
        image.scale_shift(mean, weight * (variance + how.eps).rsqrt(), bias)
    };
    one(if x.rank() > 2 { channels_first(y) } else { y })
}

/// Normalization of groups of channels, each example by itself.
fn grouped(call: &mut Call<'_, '_>, groups: usize) -> Result<Value> {
    let x = call.x()?;
    let (shape, eps) = (x.shape(), call.float("eps", 1e-5)?);
    let channels = shape[1];
    if groups == 0 || !channels.is_multiple_of(groups) || x.ty().numel() == 0 {
        return call.lacks("a norm of groups that do not divide the channels");
    }
    let y = x.normalize_groups(groups, eps);
    let mut by_channel = vec![1; shape.len()];
    by_channel[1] = channels;
    let (scale, shift) = (row(call, "weight", channels, 1.0)?, row(call, "bias", channels, 0.0)?);
    one(y * scale.reshape(&by_channel) + shift.reshape(&by_channel))
}

/// `g v / |v|`, with the norms of all axes but one (Salimans and Kingma 2016).
fn weight_norm(call: &mut Call<'_, '_>) -> Result<Value> {
    let (v, g) = (call.tensor("v")?, call.tensor("g")?);
    let axis = call.int("dim", 0)?;
    let kept = if axis < 0 {
        None
    } else {
        Some(call.axis_of(axis, v.rank())?)
    };
    let axes: Vec<usize> = (0..v.rank()).filter(|own| Some(*own) != kept).collect();
    let length = (v * v).sum_axes(&axes).sqrt();
    one(v * (g / length.reshape(&g.shape())))
}
