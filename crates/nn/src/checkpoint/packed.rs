//! Matrices in codes of 4 bits, as compressed-tensors stores them in its format `pack-quantized`.
//!
//! In place of a tensor `NAME` of shape `[rows, columns]` there are `NAME_packed`, `I32` of shape `[rows, ceil(columns
//! / 8)]`, whose words have the codes of 8 neighbouring elements, the first one in the lowest bits; `NAME_scale` with
//! a scale for each group of neighbouring elements of a row; and `NAME_shape` with both extents. A number is `(code -
//! 8) scale`. A matrix `[in, out]` is stored as its transpose, since products add up its rows.

use lessen_base::Result;
use lessen_graph::numel;
use lessen_graph::ops::DequantizeGroups;
use safetensors::Dtype;

use super::names::{beside_packed, packed};
use super::scales::{positive, width};
use super::shards::Checkpoint;
use crate::storage::Stored;

/// The code of zero.
const ZERO: u8 = 8;

/// Codes of a word.
const WORD: usize = 8;

/// Elements of the smallest group that a device stores.
pub(super) const LEAST: usize = DequantizeGroups::BLOCK / 2;

/// Bytes of codes that are shown at once, unless a row has more.
const BLOCK: usize = 1 << 16;

/// Takes rows of codes, as [`DequantizeGroups`] has them, and their scales, with the number of the first row.
pub(super) type TakeRows<'a> = dyn FnMut(usize, &[u8], &[f32]) -> Result<()> + 'a;

/// The number of words of a row.
pub(super) fn words(columns: usize) -> usize {
    columns.div_ceil(WORD)
}

/// Packs the codes of a row, which are in the order of [`DequantizeGroups`], as bytes of words.
pub(super) fn pack(codes: &[u8], columns: usize) -> Vec<u8> {
    let mut bytes = vec![0; 4 * words(columns)];
    for element in 0..columns {
        let (byte, is_high) = DequantizeGroups::place(element);
        let code = if is_high { codes[byte] >> 4 } else { codes[byte] & 0x0f };
        bytes[element / 2] |= code << (4 * (element % 2));
    }
    bytes
}

/// The code of an element of a row of words.
fn code(row: &[u8], element: usize) -> u8 {
    row[element / 2] >> (4 * (element % 2)) & 0x0f
}

/// A matrix in codes of 4 bits.
pub(super) struct Packed {
    /// The name of its codes.
    name: String,
    rows: usize,
    columns: usize,
    /// Elements of a row that share a scale.
    width: usize,
    /// The scales of each row.
    scales: Vec<f32>,
    /// Whether the tensor is the transpose of these rows.
    is_turned: bool,
}

impl Packed {
    /// The matrix in place of a tensor; none where there are no codes of it, or the tensor itself is there. `wanted` is
    /// what a model needs.
    ///
    /// # Errors
    /// Another shape than the model needs; extents, codes and scales that are missing or do not fit each other; scales
    /// that are no positive numbers; zero points and orders of inputs, which Lessen does not read.
    pub(super) fn of(checkpoint: &mut Checkpoint, tensor: &str, wanted: Option<Stored<'_>>) -> Result<Option<Packed>> {
        let name = packed(tensor);
        if checkpoint.stored(tensor).is_some() {
            return Ok(None);
        }
        let Some(codes) = checkpoint.stored(&name) else {
            return Ok(None);
        };
        let others = [
            ("_zero_point", "zero points, and Lessen reads symmetric codes"),
            (
                "_g_idx",
                "an order of its inputs (actorder), which Lessen does not read",
            ),
            ("_global_scale", "a scale of all scales, which Lessen does not read"),
        ];
        for (ending, what) in others {
            let other = format!("{tensor}{ending}");
            if checkpoint.stored(&other).is_some() {
                return Err(checkpoint.file(&other).wrong(&other, &format!("has {what}")));
            }
        }
        let is_turned = checkpoint.is_turned(tensor);
        let [rows, columns] = extents(checkpoint, tensor)?;
        if let Some(wanted) = wanted {
            let of_tensor = if is_turned { [columns, rows] } else { [rows, columns] };
            if is_turned != wanted.is_turned || wanted.shape != of_tensor {
                let order = |is_turned| if is_turned { "[in, out]" } else { "[out, in]" };
                let what = format!(
                    "is of the shape {of_tensor:?} in the order {}, and the model needs {:?} in the order {}",
                    order(is_turned),
                    wanted.shape,
                    order(wanted.is_turned)
                );
                return Err(checkpoint.file(&name).wrong(&name, &what));
            }
        }
        if codes.dtype != Dtype::I32 || codes.shape != [rows, words(columns)] {
            let what = format!(
                "holds {} of the shape {:?}, and 4 bits of {rows} x {columns} elements are I32 of {:?}",
                codes.dtype,
                codes.shape,
                [rows, words(columns)]
            );
            return Err(checkpoint.file(&name).wrong(&name, &what));
        }
        let [scale, _] = beside_packed(tensor);
        let Some(own) = checkpoint.stored(&scale) else {
            let what = format!("has no tensor `{scale}` beside it");
            return Err(checkpoint.file(&name).wrong(&name, &what));
        };
        let Some(width) = width(&[rows, columns], &own.shape) else {
            let what = format!(
                "has the shape {:?}, which are no scales of {:?}",
                own.shape,
                [rows, columns]
            );
            return Err(checkpoint.file(&scale).wrong(&scale, &what));
        };
        let mut scales = positive(checkpoint, &scale, &own.shape)?;
        if numel(&own.shape) == 1 {
            scales = vec![scales[0]; rows];
        }
        Ok(Some(Packed {
            name,
            rows,
            columns,
            width: width.min(columns),
            scales,
            is_turned,
        }))
    }

    /// The shape of the tensor.
    pub(super) fn shape(&self) -> Vec<usize> {
        if self.is_turned {
            vec![self.columns, self.rows]
        } else {
            vec![self.rows, self.columns]
        }
    }

    /// How a device stores the rows as they are; none where groups are no multiples of its own.
    pub(super) fn op(&self) -> Option<DequantizeGroups> {
        let group = match self.width {
            width if width == self.columns => width.next_multiple_of(LEAST),
            width => width,
        };
        let op = DequantizeGroups {
            group,
            columns: self.columns,
        };
        op.types(self.rows).is_ok().then_some(op)
    }

    /// Shows each row's number and its words.
    fn visit_rows(&self, checkpoint: &mut Checkpoint, visit: &mut dyn FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
        let of_row = 4 * words(self.columns);
        let (mut left, mut row) = (Vec::with_capacity(of_row), 0);
        checkpoint.file(&self.name).visit(&self.name, &mut |mut bytes| {
            while !bytes.is_empty() {
                let (now, rest) = bytes.split_at(bytes.len().min(of_row - left.len()));
                left.extend_from_slice(now);
                bytes = rest;
                if left.len() == of_row {
                    visit(row, &left)?;
                    row += 1;
                    left.clear();
                }
            }
            Ok(())
        })
    }

    /// Shows the numbers of the tensor, some after others.
    ///
    /// # Errors
    /// A file that cannot be read, and the errors of `put`.
    pub(super) fn numbers(&self, checkpoint: &mut Checkpoint, put: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        let scales = self.scales.len() / self.rows;
        let number = |row: usize, words: &[u8], column: usize| {
            let level = f32::from(code(words, column)) - f32::from(ZERO);
            level * self.scales[row * scales + column / self.width]
        };
        if !self.is_turned {
            return self.visit_rows(checkpoint, &mut |row, words| {
                let numbers: Vec<f32> = (0..self.columns).map(|column| number(row, words, column)).collect();
                put(&numbers)
            });
        }
        let mut all = vec![0.0; self.rows * self.columns];
        self.visit_rows(checkpoint, &mut |row, words| {
            for column in 0..self.columns {
                all[column * self.rows + row] = number(row, words, column);
            }
            Ok(())
        })?;
        put(&all)
    }

    /// Shows the rows as a device stores them, some after others.
    ///
    /// # Errors
    /// A file that cannot be read, and the errors of `take`.
    pub(super) fn codes(
        &self,
        checkpoint: &mut Checkpoint,
        op: DequantizeGroups,
        take: &mut TakeRows<'_>,
    ) -> Result<()> {
        let [of_codes, of_scales] = op.types(1)?.map(|ty| ty.last());
        let (mut codes, mut first) = (Vec::new(), 0);
        let last = self.rows - 1;
        self.visit_rows(checkpoint, &mut |row, words| {
            let begin = codes.len();
            codes.resize(begin + of_codes, ZERO | ZERO << 4);
            let own = &mut codes[begin..];
            for element in 0..self.columns {
                let (byte, is_high) = DequantizeGroups::place(element);
                let code = code(words, element);
                own[byte] = if is_high {
                    own[byte] & 0x0f | code << 4
                } else {
                    own[byte] & 0xf0 | code
                };
            }
            if codes.len() >= BLOCK || row == last {
                take(first, &codes, &self.scales[first * of_scales..(row + 1) * of_scales])?;
                first = row + 1;
                codes.clear();
            }
            Ok(())
        })
    }
}

/// The number of rows and columns that a tensor of extents says.
///
/// # Errors
/// A tensor that is missing, of another type, or does not say two positive numbers.
fn extents(checkpoint: &mut Checkpoint, tensor: &str) -> Result<[usize; 2]> {
    let (codes, [_, name]) = (packed(tensor), beside_packed(tensor));
    let Some(stored) = checkpoint.stored(&name) else {
        let what = format!("has no tensor `{name}` beside it");
        return Err(checkpoint.file(&codes).wrong(&codes, &what));
    };
    let file = checkpoint.file(&name);
    let mut all: Vec<i64> = Vec::new();
    if stored.shape == [2] {
        file.visit(&name, &mut |bytes| {
            match stored.dtype {
                Dtype::I64 => all.extend(bytes.as_chunks::<8>().0.iter().map(|x| i64::from_le_bytes(*x))),
                Dtype::I32 => all.extend(
                    bytes
                        .as_chunks::<4>()
                        .0
                        .iter()
                        .map(|x| i64::from(i32::from_le_bytes(*x))),
                ),
                _ => {}
            }
            Ok(())
        })?;
    }
    let sizes: Vec<usize> = all.iter().filter_map(|extent| usize::try_from(*extent).ok()).collect();
    match sizes[..] {
        [rows, columns] if rows > 0 && columns > 0 && rows.checked_mul(columns).is_some() => Ok([rows, columns]),
        _ => {
            let what = format!(
                "holds {} of the shape {:?} with the numbers {all:?}, and the extents of a matrix are two positive integers, I64",
                stored.dtype, stored.shape
            );
            Err(file.wrong(&name, &what))
        }
    }
}
