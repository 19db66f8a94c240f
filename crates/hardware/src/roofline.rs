//! The roofline of a machine (Williams et al. 2009): a layer takes as long as its products at the measured peak, or as
//! its bytes at the measured bandwidth, whichever is longer.

use lessen_base::{Error, Result};

use crate::cost::{CostModel, LayerCost};
use crate::layer::{Bits, LayerKind, LayerShape};

/// A machine by two measured rates. A cycle of this model is a nanosecond; it has no energy.
#[derive(Clone, PartialEq, Debug)]
pub struct Roofline {
    name: String,
    flops: f64,
    bytes_per_second: f64,
}

/// Cycles of a second.
const CLOCK: f64 = 1e9;

/// Bits of the widest factors.
const WIDEST: u32 = 32;

impl Roofline {
    /// A machine that reaches `flops` floating-point operations of matrix products in a second, a multiplication and an
    /// addition counting two, and moves `bytes_per_second` to and from memory.
    ///
    /// # Errors
    /// A rate that is no positive number.
    pub fn new(name: impl Into<String>, flops: f64, bytes_per_second: f64) -> Result<Roofline> {
        let rates = [("peak", flops), ("bandwidth", bytes_per_second)];
        match rates.into_iter().find(|(_, rate)| !(rate.is_finite() && *rate > 0.0)) {
            Some((rate, value)) => Err(Error::user(format!(
                "the {rate} of a roofline is {value}; measure a positive one"
            ))),
            None => Ok(Roofline {
                name: name.into(),
                flops,
                bytes_per_second,
            }),
        }
    }

    /// Bytes of a factor of so many bits: 1, 2 or 4.
    fn bytes(bits: u32) -> f64 {
        match bits {
            ..=8 => 1.0,
            9..=16 => 2.0,
            _ => 4.0,
        }
    }
}

/// Numbers that a layer reads and writes: weights or right factors, inputs, outputs.
pub(crate) fn numbers(shape: &LayerShape) -> [f64; 3] {
    let area = |pair: [u64; 2]| pair[0] as f64 * pair[1] as f64;
    let rows = shape.batch as f64 * shape.repeats as f64;
    let right = match shape.kind {
        LayerKind::Product => shape.inputs as f64 * shape.outputs as f64 * shape.repeats as f64,
        _ => shape.weights() as f64,
    };
    [
        right,
        rows * shape.inputs as f64 * area(shape.input_size),
        rows * shape.outputs as f64 * area(shape.output_size),
    ]
}

impl CostModel for Roofline {
    fn name(&self) -> &str {
        &self.name
    }

    fn notes(&self) -> Vec<String> {
        vec![
            format!(
                "measured: {:.1} GFLOP/s in products of f32 matrices, {:.1} GB/s from memory; a cycle is a nanosecond",
                self.flops * 1e-9,
                self.bytes_per_second * 1e-9
            ),
            "products take the time of f32 at any bits; factors take 1, 2 or 4 bytes, results 4".to_string(),
            "inputs, weights and outputs pass memory once; energy is not modelled".to_string(),
        ]
    }

    fn layer(&self, shape: &LayerShape, bits: Bits) -> Result<LayerCost> {
        shape.check()?;
        for bits in [bits.weights, bits.activations] {
            if !(1..=WIDEST).contains(&bits) {
                return Err(Error::user(format!(
                    "{} does not have factors of {bits} bits; it has 1 to {WIDEST}",
                    self.name
                )));
            }
        }
        let macs = shape.macs();
        let [right, inputs, outputs] = numbers(shape);
        let bytes = right * Roofline::bytes(bits.weights) + inputs * Roofline::bytes(bits.activations) + 4.0 * outputs;
        let compute = 2.0 * macs as f64 / self.flops;
        let seconds = compute.max(bytes / self.bytes_per_second);
        let cycles = |seconds: f64| (seconds * CLOCK).ceil() as u64;
        Ok(LayerCost {
            cycles: cycles(seconds),
            compute_cycles: cycles(compute),
            stall_cycles: cycles(seconds) - cycles(compute),
            macs,
            utilisation: compute / seconds,
            energy: None,
            milliseconds: seconds * 1e3,
            weight_bytes: shape.weight_bytes(bits),
        })
    }
}
