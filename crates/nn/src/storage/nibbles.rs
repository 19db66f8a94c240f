//! Parameters in codes of 4 bits.

use std::borrow::Cow;

use lessen_base::Result;
use lessen_graph::ops::DequantizeGroups;
use lessen_graph::{Host, Tensor, Type};

use super::{ParamStorage, Put, Stored, as_f32};

/// Matrices are codes of 4 bits with a scale for each group of elements of a row, which are the states `nibbles` and
/// `scale`; the rest is `f32`. Rows are what products add up: a matrix `[in, out]` is stored turned. For inference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Int4Storage {
    /// Elements of a group, a multiple of 32.
    pub group: usize,
}

impl Default for Int4Storage {
    /// Groups of 32 elements.
    fn default() -> Int4Storage {
        Int4Storage { group: 32 }
    }
}

impl Int4Storage {
    /// The number of rows of codes of a parameter, and how they are restored; none where it has no codes.
    pub fn rows(&self, param: Stored<'_>) -> Option<(usize, DequantizeGroups)> {
        let (rows, columns) = match *param.shape {
            [rows, columns] if param.is_turned => (columns, rows),
            [rows, columns] => (rows, columns),
            _ => return None,
        };
        let group = self.group;
        (rows > 0 && columns > 0).then_some((rows, DequantizeGroups { group, columns }))
    }
}

/// Rows of a matrix `[in, out]` that are put side by side at once: as many numbers as a cache line has.
const TURNED: usize = 16;

impl ParamStorage for Int4Storage {
    fn states(&self, param: Stored<'_>) -> Vec<(&'static str, Type)> {
        let types = self.rows(param).and_then(|(rows, op)| op.types(rows).ok());
        match types {
            Some([codes, scale]) => vec![("nibbles", codes), ("scale", scale)],
            None => vec![("", Type::f32(param.shape))],
        }
    }

    fn value(&self, param: Stored<'_>, states: &[Tensor]) -> Tensor {
        let (&[codes, scale], Some((_, op))) = (states, self.rows(param)) else {
            return states[0];
        };
        let rows = codes.dequantize_groups(scale, op);
        if param.is_turned { rows.permute(&[1, 0]) } else { rows }
    }

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
