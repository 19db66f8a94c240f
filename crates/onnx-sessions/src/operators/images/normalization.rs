//! Normalization of images by averages of channels.

use lessen_base::Result;

use crate::operators::real::{Real, in_real};
use lessen_onnx::host::numel;
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "BatchNormalization", batch_normalization),
    ("", "InstanceNormalization", instance_normalization),
    ("", "GroupNormalization", group_normalization),
    ("", "LRN", local_response_normalization),
];

/// The batch, the channels and the elements of a channel of `[N, C, ...]`.
fn channels(call: &HostCall<'_>, least: usize) -> Result<(usize, usize, usize)> {
    let shape = call.tensor(0)?.shape();
    match *shape {
        [batch, channels, ref rest @ ..] if shape.len() >= least => Ok((batch, channels, numel(rest)?)),
        [batch] if least < 2 => Ok((batch, 1, 1)),
        _ => call.refused(format!("an array of {shape:?} is no image")),
    }
}

/// The `count` numbers of an input.
fn numbers<'c, R: Real>(call: &'c HostCall<'_>, input: usize, count: usize) -> Result<std::borrow::Cow<'c, [R]>> {
    let tensor = call.tensor(input)?;
    if tensor.len() != count || !tensor.element().is_some_and(|element| element.is_float()) {
        return call.refused(format!("its input {input} has not {count} floats"));
    }
    Ok(R::elements(tensor.data()))
}

/// The average and the variance of numbers, summed in double precision.
fn moments<'x, R: Real>(lines: impl Iterator<Item = &'x [R]> + Clone) -> (f64, f64) {
    let count: usize = lines.clone().map(<[R]>::len).sum();
    let all = || lines.clone().flatten().map(|x| x.to_f64());
    let mean = all().sum::<f64>() / count as f64;
    let variance = all().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count as f64;
    (mean, variance)
}

/// Replaces `x` by `(x - mean) * factor + shift`.
fn standardize<R: Real>(x: &mut [R], mean: f64, variance: f64, epsilon: f64, (scale, bias): (R, R)) {
    let factor = R::of_f64(scale.to_f64() / (variance + epsilon).sqrt());
    let mean = R::of_f64(mean);
    x.iter_mut().for_each(|x| *x = (*x - mean) * factor + bias);
}

/// The result, in the type of the input.
fn result<R: Real>(call: &HostCall<'_>, y: Vec<R>) -> Result<HostTensor> {
    let x = call.tensor(0)?;
    match x.element() {
        Some(element) => HostTensor::new(x.shape(), R::store(y, element)),
        None => call.refused("its input 0 has no floats"),
    }
}

fn batch_normalization(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, batch_normalization_of)
}

/// `BatchNormalization(X, scale, B, mean, var)`; while it trains, its other outputs are the running averages.
fn batch_normalization_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let x = call.tensor(0)?;
    let (batch, channels, size) = channels(call, 1)?;
    // Before version 9 a channel may have a mean for each of its places.
    let by_place = call.opset < 9 && call.int("spatial", 1) == 0;
    let trains = call.opset >= 14 && call.int("training_mode", 0) != 0;
    if !trains && (1..call.node.output.len()).any(|output| call.wants(output)) {
        return call.refused("its averages are wanted, which are learnt");
    }
    let (features, size) = if by_place {
        (channels * size, 1)
    } else {
        (channels, size)
    };
    let (scale, bias) = (numbers::<R>(call, 1, features)?, numbers::<R>(call, 2, features)?);
    let (mean, variance) = (numbers::<f64>(call, 3, features)?, numbers::<f64>(call, 4, features)?);
    let epsilon = call.float("epsilon", 1e-5);
    let mut y = R::elements(x.data()).into_owned();
    let mut learnt = Vec::new();
    if trains {
        if batch * size == 0 {
            return call.refused("its batch has no elements to learn from");
        }
        let lines = |feature: usize| {
            let lines = y.chunks_exact(size).skip(feature);
            moments(lines.step_by(features))
        };
        learnt = (0..features).map(lines).collect();
    }
    for (i, line) in y.chunks_exact_mut(size.max(1)).enumerate() {
        let feature = i % features.max(1);
        let (mean, variance) = match learnt.get(feature) {
            Some(moments) => *moments,
            None => (mean[feature], variance[feature]),
        };
        standardize(line, mean, variance, epsilon, (scale[feature], bias[feature]));
    }
    let mut outputs = vec![result(call, y)?.into()];
    if trains {
        let momentum = call.float("momentum", 0.9);
        let mixed = |old: f64, new: f64| old * momentum + new * (1.0 - momentum);
        let means = mean.iter().zip(&learnt).map(|(old, new)| mixed(*old, new.0));
        let variances = variance.iter().zip(&learnt).map(|(old, new)| mixed(*old, new.1));
        for (input, running) in [(3, means.collect::<Vec<f64>>()), (4, variances.collect())] {
            let before = call.tensor(input)?;
            if let Some(element) = before.element() {
                outputs.push(HostTensor::new(before.shape(), f64::store(running, element))?.into());
            }
        }
    }
    Ok(outputs)
}

fn instance_normalization(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, instance_normalization_of)
}

/// `InstanceNormalization(input, scale, B)`: every channel of every image by its own average.
fn instance_normalization_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (_, channels, size) = channels(call, 2)?;
    let (scale, bias) = (numbers::<R>(call, 1, channels)?, numbers::<R>(call, 2, channels)?);
    let epsilon = call.float("epsilon", 1e-5);
    let mut y = R::elements(call.tensor(0)?.data()).into_owned();
    for (i, line) in y.chunks_exact_mut(size.max(1)).enumerate() {
        let (mean, variance) = moments::<R>([&*line].into_iter());
        let channel = i % channels;
        standardize(line, mean, variance, epsilon, (scale[channel], bias[channel]));
    }
    one(result(call, y)?)
}

fn group_normalization(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, group_normalization_of)
}

/// `GroupNormalization(X, scale, bias)`; before version 21 each group has one scale and bias, later each channel.
fn group_normalization_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (_, channels, size) = channels(call, 2)?;
    let groups = usize::try_from(call.int("num_groups", 0)).unwrap_or(0);
    if groups == 0 || !channels.is_multiple_of(groups) {
        return call.refused(format!("{channels} channels cannot be in {groups} groups"));
    }
    let each = channels / groups;
    let factors = if call.opset < 21 { groups } else { channels };
    let (scale, bias) = (numbers::<R>(call, 1, factors)?, numbers::<R>(call, 2, factors)?);
    let epsilon = call.float("epsilon", 1e-5);
    let mut y = R::elements(call.tensor(0)?.data()).into_owned();
    for (i, group) in y.chunks_exact_mut((each * size).max(1)).enumerate() {
        let (mean, variance) = moments::<R>([&*group].into_iter());
        for (j, line) in group.chunks_exact_mut(size).enumerate() {
            let channel = i % groups * each + j;
            let factor = if call.opset < 21 { channel / each } else { channel };
            standardize(line, mean, variance, epsilon, (scale[factor], bias[factor]));
        }
    }
    one(result(call, y)?)
}

fn local_response_normalization(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, local_response_normalization_of)
}

/// `LRN(X)`: `x / (bias + alpha / size * sum of squares of the channels around)^beta`.
fn local_response_normalization_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (batch, channels, size) = channels(call, 2)?;
    let around = usize::try_from(call.int("size", 0)).unwrap_or(0);
    if around == 0 {
        return call.refused(format!("its size is {}", call.int("size", 0)));
    }
    let factor = R::of_f64(call.float("alpha", 1e-4) / around as f64);
    let beta = R::of_f64(call.float("beta", 0.75));
    let bias = R::of_f64(call.float("bias", 1.0));
    let x = R::elements(call.tensor(0)?.data());
    let mut y = vec![R::ZERO; x.len()];
    let mut squares = vec![R::ZERO; size];
    for part in 0..batch * channels {
        let channel = part % channels;
        let first = channel.saturating_sub((around - 1) / 2);
        let end = channels.min(channel.saturating_add(around / 2 + 1));
        squares.fill(R::ZERO);
        for other in first..end {
            let line = &x[(part - channel + other) * size..][..size];
            squares.iter_mut().zip(line).for_each(|(sum, x)| *sum += *x * *x);
        }
        let (x, y) = (&x[part * size..][..size], &mut y[part * size..][..size]);
        for ((y, x), squares) in y.iter_mut().zip(x).zip(&squares) {
            *y = *x / (bias + factor * *squares).powf(beta);
        }
    }
    one(result(call, y)?)
}
