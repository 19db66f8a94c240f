//! Spectra: Fourier transforms, windows, and weights of the mel scale.

use std::f64::consts::PI;

use lessen_base::Result;

use super::fourier::{Complex, Fourier, in_single_precision};
use super::sizes::{around, check_work, room};
use crate::operators::real::{Real, float_of, rounded};
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "DFT", dft),
    ("", "STFT", stft),
    ("", "HannWindow", |call| window(call, &[0.5, -0.5])),
    ("", "HammingWindow", |call| window(call, &[25.0 / 46.0, -21.0 / 46.0])),
    ("", "BlackmanWindow", |call| window(call, &[0.42, -0.5, 0.08])),
    ("", "MelWeightMatrix", mel_weights),
];

/// Most elements of a window or a line.
const LONGEST: usize = 1 << 22;

/// A length that an input says.
fn length(call: &HostCall<'_>, input: usize) -> Result<Option<usize>> {
    let Some(tensor) = call.optional(input)? else {
        return Ok(None);
    };
    let given = tensor.integers().and_then(|all| all.first().copied());
    match given
        .and_then(|length| usize::try_from(length).ok())
        .filter(|_| tensor.len() == 1)
    {
        Some(length) if length <= LONGEST => Ok(Some(length)),
        Some(length) => call.refused(format!("a length of {length} is larger than {LONGEST}")),
        None => call.refused(format!("its input {input} is no length")),
    }
}

/// Extents without the last one, and whether it says that numbers are complex.
fn parts<'a>(call: &HostCall<'_>, shape: &'a [usize]) -> Result<(&'a [usize], bool)> {
    match shape {
        [signal @ .., 1] => Ok((signal, false)),
        [signal @ .., 2] => Ok((signal, true)),
        _ => call.refused("the last axis of its input is neither 1, for real numbers, nor 2, for complex ones"),
    }
}

fn dft(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    let element = float_of(tensor)?;
    let (signal, is_complex) = parts(call, tensor.shape())?;
    let axis = match call.optional(2)? {
        Some(_) if call.opset < 20 => return call.refused("it has three inputs before version 20"),
        Some(axis) => axis.integers().and_then(|axis| axis.first().copied()),
        None if call.opset < 20 => Some(call.int("axis", 1)),
        None => Some(-2),
    };
    let Some(axis) = axis else {
        return call.refused("its axis is no integer");
    };
    let axis = call.axis(axis, tensor.rank())?;
    if axis == signal.len() {
        return call.refused("the axis of parts of complex numbers is not transformed");
    }
    let (is_inverse, is_onesided) = (call.int("inverse", 0) != 0, call.int("onesided", 0) != 0);
    let is_to_real = is_inverse && is_onesided;
    if is_onesided && is_complex != is_inverse {
        return call.refused("half of a spectrum is of real numbers forwards, and of complex ones backwards");
    }
    let (outer, extent, inner) = around(signal, axis);
    let full = match length(call, 1)? {
        Some(full) => full,
        None if is_to_real => extent.saturating_sub(1).saturating_mul(2),
        None => extent,
    };
    let kept = if is_onesided && !is_inverse { full / 2 + 1 } else { full };
    if full == 0 {
        return call.refused("a transform of length 0 is not defined");
    }
    let mut shape = signal.to_vec();
    shape[axis] = kept;
    shape.push(if is_to_real { 1 } else { 2 });
    let width = if is_to_real { 1 } else { 2 };
    let mut all = vec![0.0; room(&shape)?];
    if !all.is_empty() {
        check_work(&[outer, inner, full, 64])?;
        let elements = f64::read(tensor)?;
        let components = if is_complex { 2 } else { 1 };
        let read = |at: usize| {
            let x = &elements[at * components..(at + 1) * components];
            [x[0], x.get(1).copied().unwrap_or(0.0)]
        };
        let fourier = Fourier::new(full, is_inverse);
        let factor = if is_inverse { 1.0 / full as f64 } else { 1.0 };
        let mut line = vec![[0.0; 2]; full];
        for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
            line.fill([0.0; 2]);
            let given = if is_to_real {
                extent.min(full / 2 + 1)
            } else {
                extent.min(full)
            };
            for (n, x) in line.iter_mut().enumerate().take(given) {
                *x = read((o * extent + n) * inner + i);
            }
            if is_to_real {
                mirror(&mut line);
            }
            let is_single = is_complex && !is_to_real && element != Element::F64;
            if !(is_single && in_single_precision(&mut line, is_inverse)) {
                fourier.transform(&mut line);
            }
            for (k, [re, im]) in line.iter().enumerate().take(kept) {
                let at = ((o * kept + k) * inner + i) * width;
                all[at] = re * factor;
                if width == 2 {
                    all[at + 1] = im * factor;
                }
            }
        }
    }
    one(rounded(&shape, all, element)?)
}

/// Completes a spectrum of real numbers: the second half is the first one's conjugate, in reverse.
fn mirror(line: &mut [Complex]) {
    let n = line.len();
    line[0][1] = 0.0;
    if n.is_multiple_of(2) {
        line[n / 2][1] = 0.0;
    }
    for k in 1..n.div_ceil(2) {
        let [re, im] = line[k];
        line[n - k] = [re, -im];
    }
}

fn stft(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    let element = float_of(tensor)?;
    // Files of exporters leave out the last axis of real signals, as ONNX Runtime allows.
    let (signal, is_complex) = match tensor.shape() {
        signal @ [_, _] => (signal, false),
        shape => parts(call, shape)?,
    };
    let [batch, samples] = *signal else {
        return call.refused("its signal has not three axes");
    };
    let step = match length(call, 1)? {
        Some(step) if step > 0 => step,
        _ => return call.refused("its step is not positive"),
    };
    let window = match call.optional(2)? {
        Some(window) => Some(f64::read(window)?),
        None => None,
    };
    let given = length(call, 3)?;
    let frame = given.or(window.as_ref().map(|window| window.len())).unwrap_or(samples);
    if window.as_ref().is_some_and(|window| window.len() != frame) {
        return call.refused("its window has not the length of a frame");
    }
    if frame == 0 || frame > samples {
        return call.refused(format!("frames of {frame} samples are not in a signal of {samples}"));
    }
    let is_onesided = call.int("onesided", 1) != 0;
    if is_onesided && is_complex {
        return call.refused("half of a spectrum is of real numbers");
    }
    let frames = (samples - frame) / step + 1;
    let kept = if is_onesided { frame / 2 + 1 } else { frame };
    let shape = [batch, frames, kept, 2];
    let mut all: Vec<f64> = Vec::with_capacity(room(&shape)?);
    check_work(&[batch, frames, frame, 64])?;
    let elements = f64::read(tensor)?;
    let components = if is_complex { 2 } else { 1 };
    let fourier = Fourier::new(frame, false);
    let mut line = vec![[0.0; 2]; frame];
    for (b, f) in (0..batch).flat_map(|b| (0..frames).map(move |f| (b, f))) {
        let first = b * samples + f * step;
        let part = &elements[first * components..(first + frame) * components];
        for (n, (out, x)) in line.iter_mut().zip(part.chunks_exact(components)).enumerate() {
            let weight = window.as_ref().map_or(1.0, |window| window[n]);
            *out = [x[0] * weight, x.get(1).map_or(0.0, |im| im * weight)];
        }
        fourier.transform(&mut line);
        all.extend(line.iter().take(kept).flatten());
    }
    one(rounded(&shape, all, element)?)
}

/// The element type of a result, from `output_datatype`.
fn output_type(call: &HostCall<'_>) -> Result<Element> {
    match call.element(call.int("output_datatype", 1))? {
        Element::Bool => call.refused("its output_datatype is no number"),
        element => Ok(element),
    }
}

/// A sum of cosines of 0, 1, 2 turns over the window.
fn window(call: &HostCall<'_>, factors: &[f64]) -> Result<Vec<HostValue>> {
    let element = output_type(call)?;
    let Some(size) = length(call, 0)? else {
        return call.refused("its size is missing");
    };
    let turns = if call.int("periodic", 1) != 0 {
        size
    } else {
        size.saturating_sub(1)
    };
    let at = |n: usize| {
        let angle = 2.0 * PI * n as f64 / turns as f64;
        let terms = factors.iter().enumerate();
        terms.map(|(k, factor)| factor * (k as f64 * angle).cos()).sum()
    };
    let all = (0..size).map(|n| if turns == 0 { 1.0 } else { at(n) });
    one(HostTensor::new(&[size], Data::of_f64(element, all))?)
}

fn mel_weights(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let element = output_type(call)?;
    let (bands, full) = match (length(call, 0)?, length(call, 1)?) {
        (Some(bands), Some(full)) => (bands, full),
        _ => return call.refused("its numbers of bands or of samples are missing"),
    };
    let (rate, low, high) = (call.number(2)?, call.number(3)?, call.number(4)?);
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let step = (mel(high) - mel(low)) / (bands as f64 + 2.0);
    let bins = full / 2 + 1;
    let edge = |i: usize| {
        let hertz = 700.0 * (10f64.powf((i as f64 * step + mel(low)) / 2595.0) - 1.0);
        ((full as f64 + 1.0) * hertz / rate).floor()
    };
    let mut all = vec![0.0; room(&[bins, bands])?];
    for band in 0..bands {
        let edges = [edge(band), edge(band + 1), edge(band + 2)];
        if edges.iter().any(|edge| !(0.0..bins as f64).contains(edge)) {
            return call.refused("its frequencies are outside of the spectrum");
        }
        let [left, peak, right] = edges.map(|edge| edge as usize);
        if left == peak {
            all[peak * bands + band] = 1.0;
        }
        for bin in left..=peak {
            if left < peak {
                all[bin * bands + band] = (bin - left) as f64 / (peak - left) as f64;
            }
        }
        for bin in peak..right {
            all[bin * bands + band] = (right - bin) as f64 / (right - peak) as f64;
        }
    }
    one(HostTensor::new(&[bins, bands], Data::of_f64(element, all.into_iter()))?)
}
