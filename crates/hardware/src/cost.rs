//! What a layer and a network cost, and what every model of hardware answers.

use lessen_base::{Error, Result};
use std::collections::HashMap;

use crate::layer::{Bits, Layer, LayerShape};

/// Energy by the part that takes it, in nJ.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Energy {
    /// The units that multiply and add.
    pub core: f64,
    /// Reads and writes of the weights' buffer.
    pub weight_buffer: f64,
    /// Reads and writes of the activations' buffer.
    pub activation_buffer: f64,
    /// Reads and writes of the buffer of partial sums.
    pub output_buffer: f64,
    /// Reads and writes of the memory off the chip.
    pub dram: f64,
}

impl Energy {
    /// The parts in the order of tables.
    pub fn parts(&self) -> [(&'static str, f64); 5] {
        [
            ("core", self.core),
            ("weight buffer", self.weight_buffer),
            ("activation buffer", self.activation_buffer),
            ("output buffer", self.output_buffer),
            ("DRAM", self.dram),
        ]
    }

    /// All of it, in nJ.
    pub fn total(&self) -> f64 {
        self.core + self.weight_buffer + self.activation_buffer + self.output_buffer + self.dram
    }

    /// The energy of this many such layers.
    pub fn times(&self, count: f64) -> Energy {
        Energy {
            core: self.core * count,
            weight_buffer: self.weight_buffer * count,
            activation_buffer: self.activation_buffer * count,
            output_buffer: self.output_buffer * count,
            dram: self.dram * count,
        }
    }

    fn plus(&self, other: &Energy) -> Energy {
        Energy {
            core: self.core + other.core,
            weight_buffer: self.weight_buffer + other.weight_buffer,
            activation_buffer: self.activation_buffer + other.activation_buffer,
            output_buffer: self.output_buffer + other.output_buffer,
            dram: self.dram + other.dram,
        }
    }
}

/// What a layer costs for its whole batch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LayerCost {
    /// Cycles from the first read to the last write.
    pub cycles: u64,
    /// Cycles in which the units multiply.
    pub compute_cycles: u64,
    /// Cycles in which they wait for memory: `cycles - compute_cycles`.
    pub stall_cycles: u64,
    /// Multiplications and additions of the layer itself, without those that a mapping adds.
    pub macs: u64,
    /// Those, as a share of what the units could do in all cycles at these bits: 0 to 1.
    pub utilisation: f64,
    /// Energy by part; none where the model has no energy.
    pub energy: Option<Energy>,
    /// Time in ms.
    pub milliseconds: f64,
    /// Bytes of the weights at their bits, rounded up.
    pub weight_bytes: u64,
}

/// A model of hardware: what a layer costs there.
pub trait CostModel: Send + Sync {
    /// Name of the hardware, as `--accelerator` takes it.
    fn name(&self) -> &str;

    /// The choices and approximations that its numbers rest on, a sentence each without a full stop.
    fn notes(&self) -> Vec<String>;

    /// The cost of a layer.
    ///
    /// # Errors
    /// A sentence about bits that the hardware does not have, an extent that is 0, groups that do not divide the
    /// channels, and a layer that is too large to count or to fit the buffers.
    fn layer(&self, shape: &LayerShape, bits: Bits) -> Result<LayerCost>;
}

/// What a network costs.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkCost {
    /// The cost of each layer, in their order.
    pub layers: Vec<LayerCost>,
    /// The sums over them; the utilisation is the mean, weighted by cycles.
    pub total: LayerCost,
}

/// The cost of the layers of a network, one after another. Equal layers are modelled once.
///
/// # Errors
/// A network of no layers; the errors of [`CostModel::layer`], with the layer's name in front.
pub fn network_cost(model: &dyn CostModel, layers: &[Layer]) -> Result<NetworkCost> {
    if layers.is_empty() {
        return Err(Error::user(
            "the network has no layers that multiply, so there is nothing to model; give one with a convolution or a \
             product",
        ));
    }
    let mut known: HashMap<(LayerShape, Bits), LayerCost> = HashMap::new();
    let mut costs = Vec::with_capacity(layers.len());
    for layer in layers {
        let key = (layer.shape, layer.bits);
        let cost = match known.get(&key) {
            Some(&cost) => cost,
            None => {
                let cost = model.layer(&layer.shape, layer.bits);
                let cost = cost.map_err(|e| e.at(format_args!("layer {}", layer.name)))?;
                known.insert(key, cost);
                cost
            }
        };
        costs.push(cost);
    }
    let total = sum(&costs)?;
    Ok(NetworkCost { layers: costs, total })
}

/// The sum of costs.
fn sum(costs: &[LayerCost]) -> Result<LayerCost> {
    let added = |of: &dyn Fn(&LayerCost) -> u64| {
        let too_large = || Error::user("the network is too large: its counts exceed 2^64");
        let mut all = costs.iter().map(of);
        all.try_fold(0u64, u64::checked_add).ok_or_else(too_large)
    };
    let cycles = added(&|cost| cost.cycles)?;
    let busy: f64 = costs.iter().map(|cost| cost.utilisation * cost.cycles as f64).sum();
    let energies = costs.iter().map(|cost| cost.energy);
    Ok(LayerCost {
        cycles,
        compute_cycles: added(&|cost| cost.compute_cycles)?,
        stall_cycles: added(&|cost| cost.stall_cycles)?,
        macs: added(&|cost| cost.macs)?,
        utilisation: busy / (cycles as f64).max(1.0),
        energy: energies.reduce(|all, one| Some(all?.plus(&one?))).unwrap_or_default(),
        milliseconds: costs.iter().map(|cost| cost.milliseconds).sum(),
        weight_bytes: added(&|cost| cost.weight_bytes)?,
    })
}
