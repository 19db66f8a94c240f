//! BitFusion: cycles and energy of an array of fused bit-bricks (Sharma et al. 2018).
//!
//! The arithmetic is that of the published simulator, so that its results come out to the last digit of cycles.

mod accelerator;
mod groups;
mod sram;
mod tiles;

pub use accelerator::{Accelerator, EnergyCosts};
pub use groups::GroupMapping;

use lessen_base::{Error, Result};

use crate::cost::{CostModel, Energy, LayerCost};
use crate::layer::{Bits, LayerShape};

/// An accelerator of fused bit-bricks as a cost model.
#[derive(Clone, PartialEq, Debug)]
pub struct BitFusion {
    /// The accelerator.
    pub accelerator: Accelerator,
    /// How convolutions with groups are laid on it.
    pub groups: GroupMapping,
}

impl BitFusion {
    /// The model of an accelerator with this mapping of groups.
    pub fn new(accelerator: Accelerator, groups: GroupMapping) -> BitFusion {
        BitFusion { accelerator, groups }
    }
}

impl CostModel for BitFusion {
    fn name(&self) -> &str {
        &self.accelerator.name
    }

    fn notes(&self) -> Vec<String> {
        vec![
            format!(
                "groups are computed as {}: {}",
                self.groups.name(),
                self.groups.meaning()
            ),
            "leakage and the energy of stalls are not counted; partial sums have 32 bits".to_string(),
            "only products are counted: norms, activations, pooling and additions take no cycles here".to_string(),
        ]
    }

    fn layer(&self, shape: &LayerShape, bits: Bits) -> Result<LayerCost> {
        shape.check()?;
        let accelerator = &self.accelerator;
        accelerator.check()?;
        let peak = accelerator.peak(bits)?;
        let (pass, times) = self.groups.passes(shape);
        let taken = match times {
            0 => tiles::Taken::default(),
            _ => tiles::best(&pass, accelerator, bits)?,
        };
        let total = |cycles: u64| {
            let too_large = || Error::user("it is too large: its cycles exceed 2^64");
            cycles.checked_mul(times).ok_or_else(too_large)
        };
        let cycles = total(taken.cycles)?;
        let compute_cycles = total(taken.compute_cycles)?;
        let [core, weight_buffer, activation_buffer, output_buffer, dram] =
            taken.energies(accelerator).map(|energy| energy * 1e-3 * times as f64);
        let macs = shape.macs();
        Ok(LayerCost {
            cycles,
            compute_cycles,
            stall_cycles: cycles - compute_cycles,
            macs,
            utilisation: match cycles {
                0 => 0.0,
                _ => macs as f64 / (cycles as f64 * peak as f64),
            },
            energy: Some(Energy {
                core,
                weight_buffer,
                activation_buffer,
                output_buffer,
                dram,
            }),
            milliseconds: cycles as f64 / accelerator.clock_hz as f64 * 1e3,
            weight_bytes: shape.weight_bytes(bits),
        })
    }
}
