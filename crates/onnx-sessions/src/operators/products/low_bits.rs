//! Products with weights of few bits, in blocks with a scale and a zero point each.

use lessen_base::{Error, Result};

use super::kernel::{product, transposed};
use super::sizes::room;
use crate::operators::real::{Real, float_of, in_reals, rounded};
use lessen_onnx::host::numel;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[("com.microsoft", "MatMulNBits", matmul_bits)];

fn matmul_bits(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let a = call.tensor(0)?;
    in_reals!(a, matmul_of(call, a))
}

/// How weights are stored.
struct Blocks {
    /// Columns of the weights.
    columns: usize,
    /// Rows of the weights, of which `size` are a block.
    rows: usize,
    size: usize,
    /// Blocks of a column.
    count: usize,
    bits: usize,
}

impl Blocks {
    fn of(call: &HostCall<'_>) -> Result<Blocks> {
        let extent = |name: &str| match usize::try_from(call.int(name, 0)) {
            Ok(extent) if extent > 0 => room(&[extent]),
            _ => call.refused(format!("its attribute {name} is not positive")),
        };
        let (rows, columns, size) = (extent("K")?, extent("N")?, extent("block_size")?);
        let bits = match call.int("bits", 4) {
            bits @ (2 | 4 | 8) => bits as usize,
            bits => return call.refused(format!("weights of {bits} bits are not known")),
        };
        if !size.is_power_of_two() || size < 8 {
            return call.refused(format!("its blocks of {size} weights do not fill bytes"));
        }
        Ok(Blocks {
            columns,
            rows,
            size,
            count: rows.div_ceil(size),
            bits,
        })
    }

    /// The integer at a place of packed bytes, the first of a byte in its low bits.
    fn integer(&self, bytes: &[u8], at: usize) -> u8 {
        let bit = at * self.bits;
        let mask = ((1u16 << self.bits) - 1) as u8;
        bytes[bit / 8] >> (bit % 8) & mask
    }

    /// The zero point of each block.
    fn zeros<R: Real>(&self, call: &HostCall<'_>) -> Result<Vec<R>> {
        let all = numel(&[self.columns, self.count])?;
        let unfit = || Error::user("its zero points are not one for each block");
        match call.optional(3)? {
            None => Ok(vec![R::of_f64(f64::from(1u8 << (self.bits - 1))); all]),
            Some(zeros) => match zeros.data() {
                Data::U8(bytes) => {
                    let line = (self.count * self.bits).div_ceil(8);
                    if bytes.len() != self.columns * line {
                        return Err(unfit());
                    }
                    let lines = bytes.chunks_exact(line);
                    let zeros = lines.flat_map(|line| (0..self.count).map(|at| self.integer(line, at)));
                    Ok(zeros.map(|zero| R::of_f64(f64::from(zero))).collect())
                }
                _ if zeros.len() == all => Ok(R::read(zeros)?.into_owned()),
                _ => Err(unfit()),
            },
        }
    }

    /// The weights, a line for each column.
    fn weights<R: Real>(&self, call: &HostCall<'_>) -> Result<Vec<R>> {
        let (packed, scales) = (call.tensor(1)?, call.tensor(2)?);
        let Data::U8(bytes) = packed.data() else {
            return call.refused("its weights are not packed in bytes");
        };
        let blob = self.size * self.bits / 8;
        if bytes.len() != numel(&[self.columns, self.count, blob])? {
            return call.refused(format!(
                "weights of extents {:?} are not {} columns of {} blocks of {blob} bytes",
                packed.shape(),
                self.columns,
                self.count,
            ));
        }
        if scales.len() != numel(&[self.columns, self.count])? {
            return call.refused("its scales are not one for each block");
        }
        let (scales, zeros) = (R::read(scales)?, self.zeros::<R>(call)?);
        let mut all = Vec::with_capacity(numel(&[self.columns, self.rows])?);
        for (at, block) in bytes.chunks_exact(blob).enumerate() {
            let first = at % self.count * self.size;
            let length = self.size.min(self.rows - first);
            let (scale, zero) = (scales[at], zeros[at]);
            all.extend((0..length).map(|i| (R::of_f64(f64::from(self.integer(block, i))) - zero) * scale));
        }
        Ok(all)
    }
}

fn matmul_of<R: Real>(call: &HostCall<'_>, a: &HostTensor) -> Result<Vec<HostValue>> {
    let blocks = Blocks::of(call)?;
    if call.has(4) {
        return call.refused("its input g_idx is not known");
    }
    if call.int("weight_prepacked", 0) != 0 {
        return call.refused("its weights are packed for one device");
    }
    let [stack @ .., width] = a.shape() else {
        return call.refused("its first input has no axes");
    };
    if *width != blocks.rows {
        return call.refused(format!(
            "rows of {width} elements do not fit weights of {} rows",
            blocks.rows
        ));
    }
    let mut shape = stack.to_vec();
    shape.push(blocks.columns);
    room(&shape)?;
    let weights = transposed(&blocks.weights::<R>(call)?, blocks.columns, blocks.rows);
    let rows = a.len() / blocks.rows;
    let mut y = product(&R::read(a)?, &weights, [rows, blocks.rows, blocks.columns])?;
    if let Some(bias) = call.optional(5)? {
        let bias = R::read(bias)?;
        if bias.len() != blocks.columns {
            return call.refused("its bias is not one for each column");
        }
        for line in y.chunks_exact_mut(blocks.columns) {
            line.iter_mut().zip(&bias[..]).for_each(|(y, bias)| *y += *bias);
        }
    }
    one(rounded(&shape, y, float_of(a)?)?)
}
