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

/// A search for the bits of each block of a space of bits alone, one episode after another: the agent proposes bits,
/// and learns from the accuracy with them. Bits that exceed the limit are lowered one step after another, from the last
/// layer to the first and again, until they do not.
///
/// Actions are of a block's 1 x 1 layers and then of its depthwise layer, as the space has them; HAQ has one for the
/// weights and one for the inputs of each layer.
pub struct Haq<'a> {
    space: &'a Space,
    table: &'a CostTable,
    limit: f64,
    settings: HaqSettings,
    /// The accuracy with 8 bits.
    before: f64,
    layers: Vec<Layer>,
    agent: Agent,
    done: usize,
    /// The proposal that is not judged yet.
    proposal: (Vec<Choice>, Vec<Transition>),
    best: Option<(Vec<Choice>, f64)>,
}

impl<'a> Haq<'a> {
    /// Prepares a search among networks that cost `limit` at most. `before` is the accuracy with 8 bits.
    ///
    /// # Errors
    /// A limit that no network meets, a device that fails.
    pub fn new(
        device: impl Into<SharedDevice>,
        (space, table): (&'a Space, &'a CostTable),
        (limit, unit): (f64, &str),
        (settings, before): (&HaqSettings, f64),
    ) -> Result<Haq<'a>> {
        if table.range()[0] > CostTable::most(limit) {
            return Err(table.over_limit(limit, unit));
        }
        Ok(Haq {
            space,
            table,
            limit,
            settings: *settings,
            before,
            layers: layers(space),
            agent: Agent::new(device, STATE, settings.agent)?,
            done: 0,
            proposal: (Vec::new(), Vec::new()),
            best: None,
        })
    }

    /// Episodes done.
    pub fn done(&self) -> usize {
        self.done
    }

    /// The bits of the next episode.
    ///
    /// # Errors
    /// A device that fails.
    pub fn propose(&mut self) -> Result<&[Choice]> {
        let (settings, number) = (&self.settings, self.done);
        let deviation = settings.noise * settings.noise_decay.powi(number.saturating_sub(settings.warmup) as i32);
        let (mut choices, mut transitions) = (vec![[0; 5]; self.space.blocks.len()], Vec::<Transition>::new());
        let mut last = 1.0;
        for (at, (block, which, features)) in self.layers.iter().enumerate() {
            let state: Vec<f32> = features.iter().copied().chain([last]).collect();
            if let Some(before) = transitions.last_mut() {
                before.next.clone_from(&state);
            }
            let action = match number < settings.warmup {
                true => self.agent.explore(),
                false => self.agent.act(&state, deviation)?,
            };
            let bits = self.space.blocks[*block].bits[*which].len();
            choices[*block][3 + which] = (f64::from(action) * (bits - 1) as f64).round() as usize;
            last = action;
            transitions.push(Transition {
                next: state.clone(),
                state,
                action,
                reward: 0.0,
                is_last: at + 1 == self.layers.len(),
            });
        }
        lower(self.space, self.table, self.limit, &self.layers, &mut choices);
        self.proposal = (choices, transitions);
        Ok(&self.proposal.0)
    }

    /// Ends the episode whose bits were proposed, with the accuracy that they have.
    ///
    /// # Errors
    /// A device that fails.
    pub fn judge(&mut self, accuracy: f64) -> Result<Episode> {
        let (choices, transitions) = std::mem::take(&mut self.proposal);
        let reward = (self.settings.reward * 100.0 * (accuracy - self.before)) as f32;
        for transition in transitions {
            self.agent.remember(Transition { reward, ..transition });
        }
        let number = self.done;
        if number >= self.settings.warmup {
            for _ in 0..self.layers.len() {
                self.agent.learn()?;
            }
        }
        let cost = self.table.of(self.space, &choices);
        if self.best.as_ref().is_none_or(|(_, known)| accuracy > *known) {
            self.best = Some((choices, accuracy));
        }
        self.done += 1;
        Ok(Episode {
            number,
            accuracy,
            cost,
            best: self.best.as_ref().map_or(accuracy, |(_, known)| *known),
        })
    }

    /// The bits with the best accuracy of all episodes, and that accuracy.
    pub fn best(&self) -> (Vec<Choice>, f64) {
        let first = || (vec![[0; 5]; self.space.blocks.len()], self.before);
        self.best.clone().unwrap_or_else(first)
    }
}

/// All episodes of a search for bits; see [`Haq`]. `accuracy` tells that of bits, and `progress` hears of each episode.
///
/// # Errors
/// A limit that no network meets, a device that fails, an error of `accuracy` or `progress`.
pub fn haq(
    device: impl Into<SharedDevice>,
    of_space: (&Space, &CostTable),
    limit: (f64, &str),
    (settings, before): (&HaqSettings, f64),
    accuracy: &mut dyn FnMut(&[Choice]) -> Result<f64>,
    progress: &mut dyn FnMut(&Episode) -> Result<()>,
) -> Result<(Vec<Choice>, f64)> {
    let mut search = Haq::new(device, of_space, limit, (settings, before))?;
    for _ in 0..settings.episodes {
        let found = accuracy(search.propose()?)?;
        progress(&search.judge(found)?)?;
    }
    Ok(search.best())
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
