//! Conversion between the values of parameters and the states that store them.

use lessen_base::Result;
use lessen_device::{Host, HostArray};
use lessen_graph::bf16_bits;
use lessen_graph::ops::{DequantizeGroups, QuantizeRows};
use lessen_nn::{Bf16Storage, F32Storage, FloatsBeside, Int4Storage, Int8Storage, PackedStorage, ParamStorage, Stored};
use std::borrow::Cow;

/// Takes elements of a state: its number in [`ParamStorage::states`], the number of the first element, and the
/// elements.
pub type Put<'a> = dyn FnMut(usize, usize, Host<'_>) -> Result<()> + 'a;

/// How values of parameters become elements of their states, and are read back.
pub trait ParamCodec: ParamStorage {
    /// The number of consecutive elements of a parameter that are encoded together, such as a row that shares a scale.
    fn unit(&self, _: Stored<'_>) -> usize {
        1
    }

    /// Encodes elements of a parameter from number `first` on: whole units.
    ///
    /// # Errors
    /// The errors of `put`.
    fn encode(&self, param: Stored<'_>, first: usize, values: &[f32], put: &mut Put<'_>) -> Result<()>;

    /// Decodes all elements of a parameter from the elements of its states.
    fn decode<'a>(&self, param: Stored<'_>, states: &[Host<'a>]) -> Cow<'a, [f32]>;

    /// How rows of codes of 4 bits are restored where they and their scales are the two states of a parameter; none
    /// where it is stored otherwise.
    fn groups(&self, _: Stored<'_>) -> Option<DequantizeGroups> {
        None
    }
}

impl ParamCodec for F32Storage {
    fn encode(&self, _: Stored<'_>, first: usize, values: &[f32], put: &mut Put<'_>) -> Result<()> {
        put(0, first, Host::F32(values))
    }

    fn decode<'a>(&self, _: Stored<'_>, states: &[Host<'a>]) -> Cow<'a, [f32]> {
        as_f32(states[0])
    }
}

impl ParamCodec for Bf16Storage {
    fn encode(&self, Stored { shape, .. }: Stored<'_>, first: usize, values: &[f32], put: &mut Put<'_>) -> Result<()> {
        if shape.len() > 1 {
            let rounded: Vec<u16> = values.iter().map(|&value| bf16_bits(value)).collect();
            put(0, first, Host::BF16(&rounded))
        } else {
            put(0, first, Host::F32(values))
        }
    }

    fn decode<'a>(&self, _: Stored<'_>, states: &[Host<'a>]) -> Cow<'a, [f32]> {
        as_f32(states[0])
    }
}

impl ParamCodec for Int8Storage {
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

/// Rows of a matrix `[in, out]` that are put side by side at once: as many numbers as a cache line has.
const TURNED: usize = 16;

impl ParamCodec for Int4Storage {
    /// A row; of a matrix `[in, out]`, whose rows of codes are its columns, all of it.
    fn unit(&self, param: Stored<'_>) -> usize {
        match self.rows(param) {
            Some((rows, op)) if param.is_turned => rows * op.columns,
            Some((_, op)) => op.columns,
            None => 1,
        }
    }

    fn encode(&self, param: Stored<'_>, first: usize, values: &[f32], put: &mut Put<'_>) -> Result<()> {
        let Some((_, op)) = self.rows(param) else {
            return put(0, first, Host::F32(values));
        };
        let [of_codes, of_scales] = op.types(1)?.map(|ty| ty.last());
        let count = values.len() / op.columns;
        let (mut codes, mut scales) = (vec![0; count * of_codes], vec![0.0; count * of_scales]);
        // Rows of a matrix that is turned are read side by side.
        let mut turned = vec![0.0; if param.is_turned { TURNED * op.columns } else { 0 }];
        let parts = codes.chunks_mut(of_codes).zip(scales.chunks_mut(of_scales));
        for (row, (codes, scales)) in parts.enumerate() {
            let own = if param.is_turned {
                let within = row % TURNED;
                if within == 0 {
                    for (column, all) in values.chunks_exact(count).enumerate() {
                        for (r, value) in all[row..].iter().take(TURNED).enumerate() {
                            turned[r * op.columns + column] = *value;
                        }
                    }
                }
                &turned[within * op.columns..][..op.columns]
            } else {
                &values[row * op.columns..][..op.columns]
            };
            op.quantize(own, codes, scales);
        }
        let row = first / op.columns;
        put(0, row * of_codes, Host::U8(&codes))?;
        put(1, row * of_scales, Host::F32(&scales))
    }

    fn decode<'a>(&self, param: Stored<'_>, states: &[Host<'a>]) -> Cow<'a, [f32]> {
        let (&[Host::U8(codes), Host::F32(scales)], Some((rows, op))) = (states, self.rows(param)) else {
            return as_f32(states[0]);
        };
        let (of_codes, of_scales) = (codes.len() / rows, scales.len() / rows);
        let element = |row: usize, column: usize| {
            let (codes, scales) = (&codes[row * of_codes..], &scales[row * of_scales..]);
            op.element(codes, scales, column)
        };
        let place = |i: usize| {
            if param.is_turned {
                (i % rows, i / rows)
            } else {
                (i / op.columns, i % op.columns)
            }
        };
        let all = (0..rows * op.columns).map(place);
        all.map(|(row, column)| element(row, column)).collect()
    }

    fn groups(&self, param: Stored<'_>) -> Option<DequantizeGroups> {
        self.rows(param).map(|(_, op)| op)
    }
}

impl<R: ParamCodec> ParamCodec for PackedStorage<R> {
    fn unit(&self, param: Stored<'_>) -> usize {
        match self.own(param) {
            Some(own) => own.unit(param),
            None => self.rest.unit(param),
        }
    }

    fn encode(&self, param: Stored<'_>, first: usize, values: &[f32], put: &mut Put<'_>) -> Result<()> {
        match self.own(param) {
            Some(own) => own.encode(param, first, values, put),
            None => self.rest.encode(param, first, values, put),
        }
    }

    fn decode<'a>(&self, param: Stored<'_>, states: &[Host<'a>]) -> Cow<'a, [f32]> {
        match self.own(param) {
            Some(own) => own.decode(param, states),
            None => self.rest.decode(param, states),
        }
    }

    fn groups(&self, param: Stored<'_>) -> Option<DequantizeGroups> {
        match self.own(param) {
            Some(own) => own.groups(param),
            None => self.rest.groups(param),
        }
    }
}

impl<R: ParamCodec> ParamCodec for FloatsBeside<R> {
    fn unit(&self, param: Stored<'_>) -> usize {
        match self.floats.contains(param.name) {
            true => F32Storage.unit(param),
            false => self.rest.unit(param),
        }
    }

    fn encode(&self, param: Stored<'_>, first: usize, values: &[f32], put: &mut Put<'_>) -> Result<()> {
        match self.floats.contains(param.name) {
            true => F32Storage.encode(param, first, values, put),
            false => self.rest.encode(param, first, values, put),
        }
    }

    fn decode<'a>(&self, param: Stored<'_>, states: &[Host<'a>]) -> Cow<'a, [f32]> {
        match self.floats.contains(param.name) {
            true => F32Storage.decode(param, states),
            false => self.rest.decode(param, states),
        }
    }

    fn groups(&self, param: Stored<'_>) -> Option<DequantizeGroups> {
        match self.floats.contains(param.name) {
            true => None,
            false => self.rest.groups(param),
        }
    }
}

/// The elements as `f32`, rounded where `f32` has fewer digits.
fn as_f32(host: Host<'_>) -> Cow<'_, [f32]> {
    match host.as_f32() {
        Some(elements) => Cow::Borrowed(elements),
        None => host.elements().map(|element| element as f32).collect(),
    }
}

/// The elements of a parameter whose states are `arrays`, read one after another.
pub(crate) fn decoded(codec: &dyn ParamCodec, param: Stored<'_>, arrays: &[HostArray]) -> Vec<f32> {
    let hosts: Vec<Host<'_>> = arrays.iter().map(HostArray::host).collect();
    codec.decode(param, &hosts).into_owned()
}
