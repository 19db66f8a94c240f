//! Parameters in codes of 8 bits.

use std::borrow::Cow;

use lessen_base::Result;
use lessen_graph::ops::QuantizeRows;
use lessen_graph::{DType, Host, Tensor, Type};

use super::{ParamStorage, Put, Stored, as_f32};

/// Matrices, and kernels of convolutions other than depthwise ones, are codes of 8 bits with a scale for each row or
/// kernel, which are the states `codes` and `scale`; the rest is `f32`. The codes of a kernel are in the order of taps
/// first, `[KH, KW, C]`. For inference: products read the codes where the precision says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Int8Storage;

impl Int8Storage {
    /// Codes of a row or a kernel of a parameter of this shape; none where it has no codes.
    pub fn codes_of(shape: &[usize]) -> Option<usize> {
        match *shape {
            [_, inputs] if inputs > 0 => Some(inputs),
            // A kernel of one channel is that of a depthwise convolution, or of a gray image's first one.
            [_, channels, height, width] if channels > 1 => {
                let taps = height.checked_mul(width).filter(|taps| *taps > 0)?;
                taps.checked_mul(channels)
            }
            _ => None,
        }
    }
}

impl ParamStorage for Int8Storage {
    fn states(&self, Stored { shape, .. }: Stored<'_>) -> Vec<(&'static str, Type)> {
        if let Some(codes) = Int8Storage::codes_of(shape) {
            vec![
                ("codes", Type::new(DType::U8, &[shape[0], codes])),
                ("scale", Type::f32(&shape[..1])),
            ]
        } else {
            vec![("", Type::f32(shape))]
        }
    }

    fn value(&self, Stored { shape, .. }: Stored<'_>, states: &[Tensor]) -> Tensor {
        let [codes, scale] = *states else { return states[0] };
        let rows = codes.dequantize_rows(scale);
        match *shape {
            [_, _, 1, 1] => rows.reshape(shape),
            [o, c, height, width] => rows.reshape(&[o, height, width, c]).permute(&[0, 3, 1, 2]),
            _ => rows,
        }
    }

    fn unit(&self, Stored { shape, .. }: Stored<'_>) -> usize {
        Int8Storage::codes_of(shape).unwrap_or(1)
    }

    fn encode(&self, Stored { shape, .. }: Stored<'_>, first: usize, values: &[f32], put: &mut Put<'_>) -> Result<()> {
        let Some(of_row) = Int8Storage::codes_of(shape) else {
            return put(0, first, Host::F32(values));
        };
        let (mut codes, mut scales) = (vec![0; values.len()], Vec::with_capacity(values.len() / of_row));
        let mut turned = vec![0.0; of_row];
        for (row, codes) in values.chunks(of_row).zip(codes.chunks_mut(of_row)) {
            for (place, value) in taps_first(shape).zip(row) {
                turned[place] = *value;
            }
            scales.push(QuantizeRows::quantize(&turned, codes));
        }
        put(0, first, Host::U8(&codes))?;
        put(1, first / of_row, Host::F32(&scales))
    }

    fn decode<'a>(&self, Stored { shape, .. }: Stored<'_>, states: &[Host<'a>]) -> Cow<'a, [f32]> {
        let [Host::U8(codes), Host::F32(scales)] = *states else {
            return as_f32(states[0]);
        };
        let Some(of_row) = Int8Storage::codes_of(shape) else {
            return as_f32(states[0]);
        };
        let rows = codes.chunks(of_row).zip(scales);
        rows.flat_map(|(codes, scale)| {
            taps_first(shape).map(move |place| QuantizeRows::dequantize(codes[place], *scale))
        })
        .collect()
    }
}

/// The place of each element of a row of a matrix, or of a kernel `[C, KH, KW]`, in the order of taps first.
fn taps_first(shape: &[usize]) -> impl Iterator<Item = usize> {
    let (channels, taps) = match *shape {
        [_, channels, height, width] => (channels, height * width),
        _ => (1, Int8Storage::codes_of(shape).unwrap_or(0)),
    };
    (0..channels).flat_map(move |channel| (0..taps).map(move |tap| tap * channels + channel))
}
