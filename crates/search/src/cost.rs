//! What the networks of a space cost on a model of hardware, from tables of the choices of each block.

use crate::knapsack::{Item, knapsack};
use crate::space::{Aspect, Choice, Space};
use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_hardware::{Bits, CostModel, Layer, LayerCost, LayerShape, NetworkCost, network_cost};
use lessen_nn::models::vision::{MixedArchitecture, QuantizedLayer};
use std::collections::HashMap;

lessen_base::words! {
    /// What counts as the cost of a network.
    pub enum CostKind {
        /// Energy of an image, in mJ.
        Energy = "energy",
        /// Time of an image, in ms.
        Latency = "latency",
        /// Bytes of the weights at their bits, in MB of a million bytes.
        Size = "size",
    }
}

impl CostKind {
    /// All of them, in the order of their words.
    pub const ALL: [CostKind; 3] = [CostKind::Energy, CostKind::Latency, CostKind::Size];

    /// Its unit.
    pub fn unit(self) -> &'static str {
        ["mJ", "ms", "MB"][self as usize]
    }

    /// Units that a limit may have, as factors of the own one.
    fn units(self) -> [(&'static str, f64); 4] {
        match self {
            CostKind::Energy => [("nJ", 1e-6), ("uJ", 1e-3), ("mJ", 1.0), ("J", 1e3)],
            CostKind::Latency => [("ns", 1e-6), ("us", 1e-3), ("ms", 1.0), ("s", 1e3)],
            CostKind::Size => [("kB", 1e-3), ("MB", 1.0), ("GB", 1e3), ("B", 1e-6)],
        }
    }

    /// Reads a limit such as `1.2mJ`, in the own unit.
    ///
    /// # Errors
    /// A text without such a unit, a number that is not above 0.
    pub fn parse(self, text: &str) -> Result<f64> {
        let units = self.units();
        let split = text
            .find(|c: char| c.is_ascii_alphabetic() && c != 'e')
            .unwrap_or(text.len());
        let (number, unit) = (text[..split].trim(), text[split..].trim());
        let factor = units.iter().find(|(own, _)| *own == unit).map(|(_, factor)| factor);
        let number = number
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite() && *number > 0.0);
        match (number, factor) {
            (Some(number), Some(factor)) => Ok(number * factor),
            _ => Err(Error::user(format!(
                "the limit `{text}` is no {}; write a number above 0 with one of {}, such as 1.2{}",
                self.word(),
                units.map(|(unit, _)| unit).join(", "),
                self.unit()
            ))),
        }
    }

    /// The cost of an image in a layer that `batch` images go through together.
    fn of_layer(self, cost: &LayerCost, batch: u64, model: &dyn CostModel) -> Result<f64> {
        let per_image = 1.0 / batch as f64;
        match self {
            CostKind::Energy => match cost.energy {
                Some(energy) => Ok(energy.total() * 1e-6 * per_image),
                None => Err(Error::user(format!(
                    "{} has no energy; search with latency or size as the cost, or on another accelerator",
                    model.name()
                ))),
            },
            CostKind::Latency => Ok(cost.milliseconds * per_image),
            CostKind::Size => Ok(cost.weight_bytes as f64 * 1e-6),
        }
    }
}

/// How the cost of networks is told.
#[derive(Clone, Copy)]
pub struct Costs<'a> {
    /// The hardware.
    pub model: &'a dyn CostModel,
    /// What counts.
    pub kind: CostKind,
    /// Images that go through a network together.
    pub batch: u64,
    /// Height, width and channels of an image.
    pub image: [usize; 3],
    /// Number of classes.
    pub classes: usize,
}

impl Costs<'_> {
    /// A layer as the hardware sees it.
    pub fn layer(&self, layer: &QuantizedLayer) -> Layer {
        let [height, width] = layer.image.map(|size| size as u64);
        let [out_height, out_width] = layer.out_image().map(|size| size as u64);
        let (inputs, outputs) = (layer.inputs as u64, layer.outputs as u64);
        let shape = match layer.image {
            [1, 1] if layer.kernel == 1 => LayerShape::linear(self.batch, inputs, outputs),
            _ => LayerShape {
                input_size: [height, width],
                output_size: [out_height, out_width],
                is_first: layer.name == "stem",
                ..LayerShape::convolution(
                    self.batch,
                    [inputs, outputs],
                    layer.groups as u64,
                    height,
                    [layer.kernel as u64, layer.stride as u64],
                )
            },
        };
        let bits = Bits {
            weights: layer.weight_bits,
            activations: layer.input_bits,
        };
        Layer::new(&layer.name, shape, bits)
    }

    /// All that a network costs, for its whole batch.
    ///
    /// # Errors
    /// Bits that the hardware does not have, a layer that it cannot model.
    pub fn network(&self, architecture: &MixedArchitecture) -> Result<NetworkCost> {
        let layers = architecture.layers(self.image, self.classes);
        let layers: Vec<Layer> = layers.iter().map(|layer| self.layer(layer)).collect();
        network_cost(self.model, &layers)
    }

    /// The cost of a network for an image.
    ///
    /// # Errors
    /// As [`Costs::network`]; hardware without energy.
    pub fn of(&self, architecture: &MixedArchitecture) -> Result<f64> {
        self.kind
            .of_layer(&self.network(architecture)?.total, self.batch, self.model)
    }

    /// The cost of some layers, of which equal ones are modelled once.
    fn sum(&self, layers: &[QuantizedLayer], known: &mut HashMap<(LayerShape, Bits), f64>) -> Result<f64> {
        let mut sum = 0.0;
        for layer in layers {
            let own = self.layer(layer);
            let key = (own.shape, own.bits);
            let cost = match known.get(&key) {
                Some(cost) => *cost,
                None => {
                    let cost = self.model.layer(&own.shape, own.bits);
                    let cost = cost.map_err(|error| error.at(format_args!("layer {}", layer.name)))?;
                    let cost = self.kind.of_layer(&cost, self.batch, self.model)?;
                    known.insert(key, cost);
                    cost
                }
            };
            sum += cost;
        }
        Ok(sum)
    }
}

/// The cost of every choice of every block: a network costs the sum, since no layer's cost depends on another layer.
#[derive(Clone, PartialEq, Debug)]
pub struct CostTable {
    /// The layers before and after the blocks.
    pub fixed: f64,
    /// For each block the cost of each choice, by its number.
    pub blocks: Vec<Vec<f64>>,
}

impl CostTable {
    /// The table of a space.
    ///
    /// # Errors
    /// Bits that the hardware does not have, a layer that it cannot model.
    pub fn new(space: &Space, costs: &Costs<'_>) -> Result<CostTable> {
        let none = vec![[1, 0, 0, 0, 0]; space.blocks.len()];
        let mut ends = space.architecture(&none).layers(costs.image, costs.classes);
        let mut image = ends[0].out_image();
        let (mut blocks, mut known) = (Vec::with_capacity(space.blocks.len()), HashMap::new());
        for (number, block) in space.blocks.iter().enumerate() {
            let (name, inputs) = (format!("blocks.{number}"), space.inputs(number));
            let mut of_choice = |choice: usize| match block.block(block.choice(choice)) {
                Some(own) => costs.sum(&own.layers(&name, image, inputs), &mut known),
                None => Ok(0.0),
            };
            blocks.push((0..block.choices()).map(&mut of_choice).collect::<Result<Vec<f64>>>()?);
            image = image.map(|size| size.div_ceil(block.stride));
        }
        let (last, inputs) = (ends.len() - 2, space.inputs(space.blocks.len()));
        ends[last].image = image;
        ends[last].inputs = inputs;
        Ok(CostTable {
            fixed: costs.sum(&ends, &mut known)?,
            blocks,
        })
    }

    /// The cost of a choice of each block.
    pub fn of(&self, space: &Space, choices: &[Choice]) -> f64 {
        let blocks = self.blocks.iter().zip(&space.blocks).zip(choices);
        self.total(blocks.map(|((costs, block), choice)| costs[block.number(*choice)]))
    }

    /// The cost of a network whose blocks have these costs, in their order: every sum is added up in this one order, so
    /// that equal networks have the same cost to the last bit.
    fn total(&self, blocks: impl Iterator<Item = f64>) -> f64 {
        blocks.fold(self.fixed, |sum, cost| sum + cost)
    }

    /// Refuses a limit that no network meets.
    ///
    /// # Errors
    /// Such a limit; the sentence says the least cost.
    pub fn check_limit(&self, limit: Option<f64>, kind: CostKind) -> Result<()> {
        match limit.filter(|limit| self.range()[0] > CostTable::most(*limit)) {
            None => Ok(()),
            Some(limit) => Err(self.over_limit(limit, kind.unit())),
        }
    }

    /// The greatest cost that keeps to a limit: as much above it as sums of costs, and decimals, round.
    pub(crate) fn most(limit: f64) -> f64 {
        limit * (1.0 + 1e-12)
    }

    /// The place of the choice in each block that has the greatest sum of values among the networks within a limit, of
    /// the values of all choices of all blocks; none where no network keeps to the limit.
    pub(crate) fn best_within(&self, values: Vec<Vec<f64>>, limit: f64) -> Option<Vec<usize>> {
        let ends = Item {
            cost: self.fixed,
            value: 0.0,
        };
        let item = |(&cost, value): (&f64, f64)| Item { cost, value };
        let blocks = self.blocks.iter().zip(values);
        let blocks = blocks.map(|(costs, values)| costs.iter().zip(values).map(item).collect());
        let groups: Vec<Vec<Item>> = std::iter::once(vec![ends]).chain(blocks).collect();
        let mut chosen = knapsack(&groups, CostTable::most(limit))?;
        chosen.remove(0);
        Some(chosen)
    }

    /// The error of a limit that no network meets.
    pub(crate) fn over_limit(&self, limit: f64, unit: &str) -> Error {
        Error::user(format!(
            "no network of the space keeps to {limit}{unit}; the least that one takes is {}{unit}, choose a limit from \
             there on or a smaller space",
            self.least_limit()
        ))
    }

    /// The least cost of a network in decimals, as many as it takes that the number is a limit which the network keeps
    /// to.
    pub fn least_limit(&self) -> String {
        let [least, _] = self.range();
        let mut texts = (6..20).map(|digits| format!("{least:.digits$}"));
        let keeps = |text: &String| text.parse().is_ok_and(|limit| least <= CostTable::most(limit));
        texts.find(keeps).unwrap_or_else(|| least.to_string())
    }

    /// The least and the greatest cost of a network.
    pub fn range(&self) -> [f64; 2] {
        let sum = |of: fn(f64, f64) -> f64| {
            let extreme = |costs: &Vec<f64>| costs.iter().copied().reduce(of).unwrap_or(0.0);
            self.total(self.blocks.iter().map(extreme))
        };
        [sum(f64::min), sum(f64::max)]
    }

    /// The exact mean cost of networks drawn by these probabilities, and its derivative by the logits: blocks are
    /// independent, so it is a sum over the choices of one block at a time.
    pub fn expected(&self, space: &Space, variables: &crate::Variables, probabilities: &[f64]) -> (f64, Vec<f64>) {
        let (mut mean, mut by_probability) = (self.fixed, vec![0.0; probabilities.len()]);
        for (number, (costs, block)) in self.blocks.iter().zip(&space.blocks).enumerate() {
            let own = Aspect::ALL.map(|aspect| variables.find(number, aspect));
            for (place, cost) in costs.iter().enumerate() {
                let choice = block.choice(place);
                let logit = |aspect: usize| own[aspect].map(|variable| variable.first + choice[aspect]);
                let factor = |aspect: usize| logit(aspect).map_or(1.0, |logit| probabilities[logit]);
                let factors: [f64; 5] = std::array::from_fn(factor);
                mean += cost * factors.iter().product::<f64>();
                for aspect in 0..5 {
                    if let Some(logit) = logit(aspect) {
                        let others = (0..5).filter(|other| *other != aspect);
                        by_probability[logit] += cost * others.map(|other| factors[other]).product::<f64>();
                    }
                }
            }
        }
        let mut by_logit = vec![0.0; probabilities.len()];
        for variable in variables.all() {
            let range = variable.first..variable.first + variable.count;
            let inner: f64 = range
                .clone()
                .map(|place| probabilities[place] * by_probability[place])
                .sum();
            for place in range {
                by_logit[place] = probabilities[place] * (by_probability[place] - inner);
            }
        }
        (mean, by_logit)
    }
}
