//! A bit-serial accelerator, fitted to the latency table of HAQ's public code (Wang et al. 2019).
//!
//! That table gives cycles for each of the 53 layers of MobileNetV2, in batches of 16, at 1 to 8 bits of weights and of
//! activations. Its totals are 39,624,933 cycles at 8 and 8 bits, 15,716,150 at 4 and 4, and 7,063,425 at 2 and 2. A
//! bit-serial array computes one bit of a weight times one bit of an activation at a time, so that computing takes time
//! in proportion to `w a`, and memory in proportion to the bits that it moves. Three rates fit the three totals; the
//! table's entries layer by layer are not reproduced.

use lessen_base::{Error, Result};

use crate::cost::{CostModel, LayerCost};
use crate::layer::{Bits, Layer, LayerShape};
use crate::roofline::numbers;

/// Cycles of a layer: `macs w a / products + (weights w + (inputs + outputs) a) / memory + layer`, rounded. It has no
/// energy.
#[derive(Clone, PartialEq, Debug)]
pub struct BitSerial {
    /// Its name.
    pub name: String,
    /// Products of one bit with one bit in a cycle.
    pub products: f64,
    /// Bits from and to memory in a cycle.
    pub memory: f64,
    /// Cycles of a layer beside them.
    pub layer: f64,
    /// Cycles per second.
    pub clock_hz: f64,
    /// Most bits of a factor.
    pub most_bits: u32,
}

impl BitSerial {
    /// The name of [`BitSerial::haq`].
    pub const HAQ: &'static str = "haq";

    /// The rates that give the totals of HAQ's table for the layers of
    /// [`mobilenet_v2`](crate::networks::mobilenet_v2). The table has no clock; 200 MHz are assumed.
    pub fn haq() -> BitSerial {
        BitSerial {
            name: BitSerial::HAQ.to_string(),
            products: 17_490.761_172_880_422,
            memory: 81.707_479_742_044_28,
            layer: 11_543.603_773_584_906,
            clock_hz: 200e6,
            most_bits: 8,
        }
    }

    /// Cycles of each layer at each number of bits of weights, then of activations, from 1 to `most_bits`: the
    /// structure of HAQ's table.
    ///
    /// # Errors
    /// As [`CostModel::layer`].
    pub fn table(&self, layers: &[Layer]) -> Result<Vec<Vec<Vec<u64>>>> {
        let of = |layer: &Layer| {
            let row = |weights: u32| {
                let cell = |activations: u32| Ok(self.layer(&layer.shape, Bits { weights, activations })?.cycles);
                (1..=self.most_bits).map(cell).collect::<Result<_>>()
            };
            let found: Result<_> = (1..=self.most_bits).map(row).collect();
            found.map_err(|e: Error| e.at(format_args!("layer {}", layer.name)))
        };
        layers.iter().map(of).collect()
    }
}

impl CostModel for BitSerial {
    fn name(&self) -> &str {
        &self.name
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "a bit-serial array with three rates, fitted to the three totals of HAQ's latency table for MobileNetV2; \
             single layers of that table are not reproduced"
                .to_string(),
            format!(
                "the table has no clock: times are those of {:.0} MHz",
                self.clock_hz * 1e-6
            ),
            "convolutions with groups take the cycles of their own products; energy is not modelled".to_string(),
        ]
    }

    fn layer(&self, shape: &LayerShape, bits: Bits) -> Result<LayerCost> {
        shape.check()?;
        for bits in [bits.weights, bits.activations] {
            if !(1..=self.most_bits).contains(&bits) {
                return Err(Error::user(format!(
                    "{} does not have factors of {bits} bits; it has 1 to {}",
                    self.name, self.most_bits
                )));
            }
        }
        let (w, a) = (f64::from(bits.weights), f64::from(bits.activations));
        let macs = shape.macs();
        let [right, inputs, outputs] = numbers(shape);
        let compute = macs as f64 * w * a / self.products;
        let moved = (right * w + (inputs + outputs) * a) / self.memory;
        let cycles = (compute + moved + self.layer).round();
        let compute_cycles = (compute.round() as u64).min(cycles as u64);
        Ok(LayerCost {
            cycles: cycles as u64,
            compute_cycles,
            stall_cycles: cycles as u64 - compute_cycles,
            macs,
            utilisation: compute / cycles.max(1.0),
            energy: None,
            milliseconds: cycles / self.clock_hz * 1e3,
            weight_bytes: shape.weight_bytes(bits),
        })
    }
}
