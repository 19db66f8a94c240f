//! Convolutions and averages of quantized integers, whose sums are exact.

use lessen_base::Result;

use super::convolution::{Convolution, bias};
use super::pooling::averages;
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "ConvInteger", conv_integer),
    ("", "QLinearConv", q_linear_conv),
    ("com.microsoft", "QLinearAveragePool", q_linear_average_pool),
    (
        "com.microsoft",
        "QLinearGlobalAveragePool",
        q_linear_global_average_pool,
    ),
];

/// The integers of 8 bits of an input.
fn bytes(call: &HostCall<'_>, input: usize) -> Result<Vec<i32>> {
    match call.tensor(input)?.data() {
        Data::I8(v) => Ok(v.iter().map(|x| i32::from(*x)).collect()),
        Data::U8(v) => Ok(v.iter().map(|x| i32::from(*x)).collect()),
        _ => call.refused(format!("its input {input} has no integers of 8 bits")),
    }
}

/// The integers of an input less its zero points: one, or one for each part of the first axis.
fn centered(call: &HostCall<'_>, input: usize, zero: usize, by_part: bool) -> Result<Vec<i32>> {
    let mut all = bytes(call, input)?;
    if !call.has(zero) {
        return Ok(all);
    }
    if call.tensor(zero)?.element() != call.tensor(input)?.element() {
        return call.refused(format!("its inputs {input} and {zero} have different types"));
    }
    let zeros = bytes(call, zero)?;
    let parts = call.tensor(input)?.shape().first().copied().unwrap_or(1);
    match zeros[..] {
        [zero] => all.iter_mut().for_each(|x| *x -= zero),
        _ if by_part && zeros.len() == parts => {
            let part = (all.len() / parts.max(1)).max(1);
            for (part, zero) in all.chunks_mut(part).zip(zeros) {
                part.iter_mut().for_each(|x| *x -= zero);
            }
        }
        _ => return call.refused(format!("its input {zero} has {} zero points", zeros.len())),
    }
    Ok(all)
}

/// `ConvInteger(x, w, x_zero_point, w_zero_point)`.
fn conv_integer(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let convolution = Convolution::of(call, call.tensor(0)?.shape(), call.tensor(1)?.shape())?;
    let (x, w) = (centered(call, 0, 2, false)?, centered(call, 1, 3, true)?);
    let y = convolution.run(&x, &w, None)?;
    one(HostTensor::new(&convolution.shape, y)?)
}

/// The scales of an input: positive or not, one or `count`.
fn scales(call: &HostCall<'_>, input: usize, count: usize) -> Result<Vec<f32>> {
    let scales = call.tensor(input)?;
    match scales.data() {
        Data::F32(v) if v.len() == 1 || v.len() == count => Ok(v.clone()),
        Data::F32(v) => call.refused(format!("its input {input} has {} scales", v.len())),
        _ => call.refused(format!("its input {input} has no floats of 32 bits")),
    }
}

/// The single scale of an input.
fn scale(call: &HostCall<'_>, input: usize) -> Result<f32> {
    match scales(call, input, 1)?[..] {
        [scale] => Ok(scale),
        _ => call.refused(format!("its input {input} has more than one scale")),
    }
}

/// The type of a result and its zero point.
fn zero_point(call: &HostCall<'_>, input: usize, default: Option<Element>) -> Result<(Element, f32)> {
    if !call.has(input)
        && let Some(element) = default
    {
        return Ok((element, 0.0));
    }
    match bytes(call, input)?[..] {
        [zero] => Ok((
            call.tensor(input)?.element().unwrap_or(Element::Unsigned(1)),
            zero as f32,
        )),
        _ => call.refused(format!("its input {input} is no single zero point")),
    }
}

/// Integers of 8 bits from floats, to the nearest and saturated.
fn quantized(all: impl Iterator<Item = f32>, (element, zero): (Element, f32)) -> Data {
    Data::of_f64(element, all.map(|x| f64::from(x.round_ties_even() + zero)))
}

/// `QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B)`.
fn q_linear_conv(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let convolution = Convolution::of(call, call.tensor(0)?.shape(), call.tensor(3)?.shape())?;
    let (x, w) = (centered(call, 0, 2, false)?, centered(call, 3, 5, true)?);
    let features = convolution.features;
    let bias = match bias(call, 8, features)?.map(HostTensor::data) {
        None => None,
        Some(Data::I32(bias)) => Some(&bias[..]),
        Some(_) => return call.refused("its input 8 has no integers of 32 bits"),
    };
    let (x_scale, y_scale) = (scale(call, 1)?, scale(call, 6)?);
    let factors: Vec<f32> = scales(call, 4, features)?
        .iter()
        .map(|w_scale| x_scale * w_scale / y_scale)
        .collect();
    let zero = zero_point(call, 7, None)?;
    let sums = convolution.run(&x, &w, bias)?;
    let line = convolution.shape[2..].iter().product::<usize>().max(1);
    let scaled = sums.iter().enumerate().map(|(i, sum)| {
        let feature = i / line % features.max(1);
        *sum as f32 * factors[feature % factors.len()]
    });
    one(HostTensor::new(&convolution.shape, quantized(scaled, zero))?)
}

/// The quantized averages of an input whose averages of differences from the zero point are `of(differences)`.
fn average(
    call: &HostCall<'_>,
    of: impl Fn(&[usize], Vec<f32>) -> Result<(Vec<usize>, Vec<f32>)>,
) -> Result<Vec<HostValue>> {
    if call.int("channels_last", 0) != 0 {
        return call.refused("its channels are last");
    }
    let x = call.tensor(0)?;
    let differences = centered(call, 0, 2, false)?.into_iter().map(|x| x as f32);
    let factor = scale(call, 1)? / scale(call, 3)?;
    let (element, zero) = zero_point(call, 4, x.element())?;
    let (shape, averages) = of(x.shape(), differences.collect())?;
    let scaled = averages.into_iter().map(|average| average * factor);
    one(HostTensor::new(&shape, quantized(scaled, (element, zero)))?)
}

/// `QLinearAveragePool(X, x_scale, x_zero_point, y_scale, y_zero_point)`.
fn q_linear_average_pool(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    if call.int("ceil_mode", 0) != 0 && call.int("count_include_pad", 0) != 0 {
        return call.refused("its windows may reach beyond the padding, which it counts");
    }
    average(call, |shape, x| averages(call, shape, x))
}

/// `QLinearGlobalAveragePool(X, x_scale, x_zero_point, y_scale, y_zero_point)`.
fn q_linear_global_average_pool(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    average(call, |shape, x| {
        if shape.len() < 3 {
            return call.refused(format!("an array of {shape:?} is no image"));
        }
        let line = shape[2..].iter().product::<usize>();
        if line == 0 {
            return call.refused(format!("an image of {shape:?} has no average"));
        }
        let mut result = shape[..2].to_vec();
        result.resize(shape.len(), 1);
        let sums = x
            .chunks_exact(line)
            .map(|line| line.iter().map(|x| f64::from(*x)).sum::<f64>());
        let averages = sums.map(|sum| (sum / line as f64) as f32).collect();
        Ok((result, averages))
    })
}
