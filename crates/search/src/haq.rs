//! Bits by reinforcement learning, as HAQ (Wang et al. 2019) searches them: an agent goes through the layers, and its
//! reward is the accuracy of the network with its bits.

use crate::cost::CostTable;
use crate::ddpg::{Agent, AgentSettings, Transition};
use crate::space::{Choice, Space};
use lessen_base::Result;
use lessen_device::SharedDevice;

/// Settings of such a search; the default has HAQ's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HaqSettings {
    /// Episodes: networks that are tried.
    pub episodes: usize,
    /// Episodes at first whose actions are drawn uniformly.
    pub warmup: usize,
    /// Deviation of the noise after them.
    pub noise: f64,
    /// Factor of the noise from one episode to the next.
    pub noise_decay: f64,
    /// Factor of the difference of accuracies that is the reward.
    pub reward: f64,
    /// The agent.
    pub agent: AgentSettings,
}

impl Default for HaqSettings {
    fn default() -> HaqSettings {
        HaqSettings {
            episodes: 600,
            warmup: 20,
            noise: 0.5,
            noise_decay: 0.99,
            reward: 0.1,
            agent: AgentSettings::default(),
        }
    }
}

/// An episode.
#[derive(Clone, PartialEq, Debug)]
pub struct Episode {
    /// Its number, from 0.
    pub number: usize,
    /// The accuracy.
    pub accuracy: f64,
    /// The cost.
    pub cost: f64,
    /// The best accuracy up to it.
    pub best: f64,
}

/// Numbers of a state.
const STATE: usize = 9;

/// The bits of each block of a space of bits alone, among networks that cost `limit` at most: those of the best
/// accuracy that `accuracy` tells of, in all episodes. `before` is the accuracy with 8 bits. Bits that exceed the
/// limit are lowered one step after another, from the last layer to the first and again, until they do not.
///
/// Actions are of a block's 1 x 1 layers and then of its depthwise layer, as the space has them; HAQ has one for the
/// weights and one for the inputs of each layer.
///
/// # Errors
/// A limit that no network meets, a device that fails, an error of `accuracy` or `progress`.
pub fn haq(
    device: impl Into<SharedDevice>,
    (space, table): (&Space, &CostTable),
    (limit, unit): (f64, &str),
    (settings, before): (&HaqSettings, f64),
    accuracy: &mut dyn FnMut(&[Choice]) -> Result<f64>,
    progress: &mut dyn FnMut(&Episode) -> Result<()>,
) -> Result<(Vec<Choice>, f64)> {
    if table.range()[0] > CostTable::most(limit) {
        return Err(table.over_limit(limit, unit));
    }
    let layers = layers(space);
    let mut agent = Agent::new(device, STATE, settings.agent)?;
    let mut best: Option<(Vec<Choice>, f64)> = None;
    for number in 0..settings.episodes {
        let deviation = settings.noise * settings.noise_decay.powi(number.saturating_sub(settings.warmup) as i32);
        let (mut choices, mut transitions) = (vec![[0; 5]; space.blocks.len()], Vec::<Transition>::new());
        let mut last = 1.0;
        for (at, (block, which, features)) in layers.iter().enumerate() {
            let state: Vec<f32> = features.iter().copied().chain([last]).collect();
            if let Some(before) = transitions.last_mut() {
                before.next.clone_from(&state);
            }
            let action = match number < settings.warmup {
                true => agent.explore(),
                false => agent.act(&state, deviation)?,
            };
            let bits = space.blocks[*block].bits[*which].len();
            choices[*block][3 + which] = (f64::from(action) * (bits - 1) as f64).round() as usize;
            last = action;
            transitions.push(Transition {
                next: state.clone(),
                state,
                action,
                reward: 0.0,
                is_last: at + 1 == layers.len(),
            });
        }
        lower(space, table, limit, &layers, &mut choices);
        let found = accuracy(&choices)?;
        let reward = (settings.reward * 100.0 * (found - before)) as f32;
        for transition in transitions {
            agent.remember(Transition { reward, ..transition });
        }
        if number >= settings.warmup {
            for _ in 0..layers.len() {
                agent.learn()?;
            }
        }
        if best.as_ref().is_none_or(|(_, known)| found > *known) {
            best = Some((choices.clone(), found));
        }
        progress(&Episode {
            number,
            accuracy: found,
            cost: table.of(space, &choices),
            best: best.as_ref().map_or(found, |(_, known)| *known),
        })?;
    }
    let first = || (vec![[0; 5]; space.blocks.len()], before);
    Ok(best.unwrap_or_else(first))
}

/// Lowers bits until a network keeps to the limit.
fn lower(space: &Space, table: &CostTable, limit: f64, layers: &[Layer], choices: &mut [Choice]) {
    loop {
        let mut has_changed = false;
        for (block, which, _) in layers.iter().rev() {
            if table.of(space, choices) <= CostTable::most(limit) {
                return;
            }
            if choices[*block][3 + which] > 0 {
                choices[*block][3 + which] -= 1;
                has_changed = true;
            }
        }
        if !has_changed {
            return;
        }
    }
}

/// A group of layers with bits of its own: the block, 0 for its 1 x 1 layers and 1 for the depthwise one, and what the
/// agent sees of it, from 0 to 1.
type Layer = (usize, usize, Vec<f32>);

/// The groups in the order of the agent.
fn layers(space: &Space) -> Vec<Layer> {
    let mut raw: Vec<(usize, usize, [f64; STATE - 1])> = Vec::new();
    let mut shrunk = space.stem_stride;
    for (number, block) in space.blocks.iter().enumerate() {
        let inputs = space.inputs(number);
        let inner = inputs * block.expansions[0].max(1);
        for which in 0..2 {
            let kernel = if which == 1 { block.kernels[0] } else { 1 };
            let weights = match which {
                1 => inner * kernel * kernel,
                _ => inner * (inputs + block.out),
            };
            let seen = [number, which, inputs, block.out, block.stride, shrunk, kernel, weights];
            raw.push((number, which, seen.map(|x| x as f64)));
        }
        shrunk *= block.stride;
    }
    let range = |place: usize| {
        let all = raw.iter().map(|(.., seen)| seen[place]);
        (all.clone().fold(f64::MAX, f64::min), all.fold(f64::MIN, f64::max))
    };
    let ranges: [(f64, f64); STATE - 1] = std::array::from_fn(range);
    let scaled = |seen: [f64; STATE - 1]| {
        let parts = seen.into_iter().zip(ranges);
        let part = |(x, (least, most)): (f64, (f64, f64))| {
            if most > least {
                (x - least) / (most - least)
            } else {
                0.0
            }
        };
        parts.map(|pair| part(pair) as f32).collect()
    };
    raw.into_iter()
        .map(|(block, which, seen)| (block, which, scaled(seen)))
        .collect()
}
