//! The description of an accelerator: its array, buffers, memory, clock and energies.

use lessen_base::{Error, Result};
use serde::Deserialize;
use std::fs;
use std::path::Path;

use super::sram::{Port, energy_per_bit};
use crate::layer::Bits;
use crate::toml_text::read;

/// Energies in pJ, at 45 nm in the published configurations.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnergyCosts {
    /// Of a cycle in which the array multiplies.
    pub core_cycle: f64,
    /// Of a bit that is read from the weights' buffer.
    pub weight_read: f64,
    /// Of a bit that is written to it.
    pub weight_write: f64,
    /// Of a bit that is read from the activations' buffer.
    pub activation_read: f64,
    /// Of a bit that is written to it.
    pub activation_write: f64,
    /// Of a bit that is read from the partial sums' buffer.
    pub output_read: f64,
    /// Of a bit that is written to it.
    pub output_write: f64,
    /// Of a bit that is read from the memory off the chip, or written to it.
    pub dram: f64,
}

/// An accelerator of fused bit-bricks (Sharma et al. 2018, "Bit Fusion"): an array of units that multiply numbers of
/// `high_bits`, and fall apart into more units for fewer bits. Buffers are double: a tile takes half of one.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accelerator {
    /// Its name.
    pub name: String,
    /// Cycles per second.
    pub clock_hz: u64,
    /// Rows of the array: input channels side by side.
    pub rows: u64,
    /// Columns of the array: output channels side by side.
    pub columns: u64,
    /// Bits of the factors of one product of a unit; it has no more.
    pub high_bits: u32,
    /// Bits of the smallest factors; fewer are computed as these.
    pub low_bits: u32,
    /// Bytes of the weights' buffer.
    pub weight_buffer: u64,
    /// Bytes of the activations' buffer.
    pub activation_buffer: u64,
    /// Bytes of the partial sums' buffer.
    pub output_buffer: u64,
    /// Bits that the memory off the chip gives or takes in a cycle.
    pub memory_bits: u64,
    /// Energies.
    pub energy: EnergyCosts,
}

/// Bits of a partial sum.
pub(super) const OUTPUT_BITS: u64 = 32;

/// What a file of an accelerator has.
const FIELDS: &str = "an accelerator has name, clock_hz, rows, columns, high_bits, low_bits, weight_buffer, \
                      activation_buffer, output_buffer, memory_bits and the table energy with core_cycle, weight_read, \
                      weight_write, activation_read, activation_write, output_read, output_write and dram";

/// Largest extent of an array, in bits of the number.
const MOST_UNITS: u64 = 1 << 16;

impl Accelerator {
    /// The published configurations by name: `bf_e`, the size of Eyeriss with 192 bits of memory in a cycle at 500 MHz,
    /// and `bf_s`, the size of Stripes with 4096 bits at 980 MHz.
    pub const NAMES: [&'static str; 2] = ["bf_e", "bf_s"];

    /// The published configuration of this name.
    pub fn named(name: &str) -> Option<Accelerator> {
        match name {
            "bf_e" => Some(Accelerator::published(name, 500_000_000, [16, 32], [64, 32, 16], 192)),
            "bf_s" => Some(Accelerator::published(
                name,
                980_000_000,
                [16, 32],
                [128, 128, 128],
                4096,
            )),
            _ => None,
        }
    }

    /// A configuration of 8 and 2 bits at 45 nm with the energies of the published synthesis and memory tables: an
    /// array of `[rows, columns]`, buffers of weights, activations and partial sums in KiB.
    pub fn published(
        name: &str,
        clock_hz: u64,
        [rows, columns]: [u64; 2],
        buffers: [u64; 3],
        memory_bits: u64,
    ) -> Accelerator {
        /// Dynamic power of an array of 4 x 4 units at 500 MHz, in pJ of a cycle.
        const CORE_OF_16: f64 = 3_673_500.0 / 500e6 * 1e3;
        let [weight_buffer, activation_buffer, output_buffer] = buffers.map(|kib| kib << 10);
        let bank = |bytes: u64, banks: u64| bytes as f64 / banks as f64;
        let [weight_read, weight_write] = energy_per_bit(bank(weight_buffer, rows * columns), Port::Apart);
        let [activation_read, activation_write] = energy_per_bit(bank(activation_buffer, rows), Port::Apart);
        let [output_read, output_write] = energy_per_bit(bank(output_buffer, columns), Port::Shared);
        Accelerator {
            name: name.to_string(),
            clock_hz,
            rows,
            columns,
            high_bits: 8,
            low_bits: 2,
            weight_buffer,
            activation_buffer,
            output_buffer,
            memory_bits,
            energy: EnergyCosts {
                core_cycle: CORE_OF_16 * (rows * columns) as f64 / 16.0,
                weight_read,
                weight_write,
                activation_read,
                activation_write,
                output_read,
                output_write,
                dram: 15.0,
            },
        }
    }

    /// Reads a TOML file with all fields of this type.
    ///
    /// # Errors
    /// A file that cannot be read, a missing or unknown field, and numbers that no accelerator has; the sentence names
    /// file and field.
    pub fn from_file(path: &Path) -> Result<Accelerator> {
        let text = fs::read_to_string(path).map_err(|e| {
            Error::user(format!(
                "{} cannot be read ({e}); name one of {} or a TOML file of an accelerator",
                path.display(),
                Accelerator::NAMES.join(", ")
            ))
        })?;
        Accelerator::parse(&text).map_err(|e| e.at(path.display()))
    }

    /// Reads the text of a TOML file.
    ///
    /// # Errors
    /// As [`Accelerator::from_file`], without the file's name.
    pub fn parse(text: &str) -> Result<Accelerator> {
        let found: Accelerator = read(text, FIELDS)?;
        found.check()?;
        Ok(found)
    }

    /// Checks that the numbers are those of an accelerator.
    ///
    /// # Errors
    /// A sentence that names the field.
    pub fn check(&self) -> Result<()> {
        let counts = [
            ("clock_hz", self.clock_hz, u64::MAX),
            ("rows", self.rows, MOST_UNITS),
            ("columns", self.columns, MOST_UNITS),
            ("high_bits", self.high_bits.into(), 32),
            ("low_bits", self.low_bits.into(), self.high_bits.into()),
            ("weight_buffer", self.weight_buffer, 1 << 40),
            ("activation_buffer", self.activation_buffer, 1 << 40),
            ("output_buffer", self.output_buffer, 1 << 40),
            ("memory_bits", self.memory_bits, 1 << 32),
        ];
        if let Some((field, value, most)) = counts.into_iter().find(|&(_, value, most)| value == 0 || value > most) {
            return Err(Error::user(format!("{field} is {value}; give it 1 to {most}")));
        }
        let costs = self.energy;
        let energies = [
            ("core_cycle", costs.core_cycle),
            ("weight_read", costs.weight_read),
            ("weight_write", costs.weight_write),
            ("activation_read", costs.activation_read),
            ("activation_write", costs.activation_write),
            ("output_read", costs.output_read),
            ("output_write", costs.output_write),
            ("dram", costs.dram),
        ];
        match energies
            .into_iter()
            .find(|(_, value)| !value.is_finite() || *value < 0.0)
        {
            Some((field, value)) => Err(Error::user(format!("energy.{field} is {value}; give it pJ from 0 on"))),
            None => Ok(()),
        }
    }

    /// Products of numbers of these bits that a unit computes in a cycle: `floor(high / max(low, a)) floor(high /
    /// max(low, w))`, so that 5 to 7 bits take as long as 8.
    ///
    /// # Errors
    /// A sentence that names the bits, where the accelerator does not have them.
    pub fn fused(&self, bits: Bits) -> Result<u64> {
        let factor = |bits: u32, of: &str| match bits {
            1.. if bits <= self.high_bits => Ok(u64::from(self.high_bits / bits.max(self.low_bits))),
            _ => Err(Error::user(format!(
                "{} does not have {of} of {bits} bits; it has 1 to {}",
                self.name, self.high_bits
            ))),
        };
        Ok(factor(bits.weights, "weights")? * factor(bits.activations, "activations")?)
    }

    /// Multiplications and additions of these bits in a cycle of the whole array.
    ///
    /// # Errors
    /// As [`Accelerator::fused`].
    pub fn peak(&self, bits: Bits) -> Result<u64> {
        Ok(self.rows * self.columns * self.fused(bits)?)
    }
}
