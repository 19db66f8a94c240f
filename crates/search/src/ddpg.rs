//! Deep deterministic policy gradients (Lillicrap et al. 2016): an actor that maps a state to an action from 0 to 1,
//! and a critic that learns what the action brings.

use lessen_base::{Result, SplitMix64};
use lessen_device::{Host, HostArray, SharedDevice};
use lessen_graph::ops::Adam;
use lessen_graph::{DType, Phase, Tensor, Trace};
use lessen_nn::layers::linear_from;
use lessen_nn::{Cx, Init, ParamSpec};
use lessen_train::{Function, FunctionOptions, Session};
use std::collections::VecDeque;

/// Settings of an agent; the default has those of HAQ.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AgentSettings {
    /// Width of both hidden layers of actor and critic.
    pub hidden: usize,
    /// Learning rates of actor and critic.
    pub rates: [f64; 2],
    /// Share by which the targets come near actor and critic in an update.
    pub tau: f64,
    /// What a later reward counts.
    pub discount: f64,
    /// Transitions of an update.
    pub batch: usize,
    /// Transitions that are remembered.
    pub memory: usize,
    /// Seed of weights, noise and batches.
    pub seed: u64,
}

impl Default for AgentSettings {
    fn default() -> AgentSettings {
        AgentSettings {
            hidden: 300,
            rates: [1e-4, 1e-3],
            tau: 0.01,
            discount: 1.0,
            batch: 64,
            memory: 128 * 64,
            seed: 1,
        }
    }
}

/// What an action led to.
#[derive(Clone, PartialEq, Debug)]
pub struct Transition {
    /// The state.
    pub state: Vec<f32>,
    /// The action, from 0 to 1.
    pub action: f32,
    /// The reward.
    pub reward: f32,
    /// The state after it.
    pub next: Vec<f32>,
    /// Whether it was the last one.
    pub is_last: bool,
}

/// An agent that learns from transitions.
pub struct Agent {
    settings: AgentSettings,
    size: usize,
    session: Session,
    act: Function,
    learn: Function,
    memory: VecDeque<Transition>,
    /// Moving average of rewards, which is subtracted.
    mean_reward: Option<f32>,
    updates: u64,
    random: SplitMix64,
}

const STATES: &str = "agent.states";
const ACTIONS: &str = "agent.actions";
const REWARDS: &str = "agent.rewards";
const NEXT: &str = "agent.next";
const LASTING: &str = "agent.lasting";
const STEP: &str = "agent.step";
const ACTION: &str = "action";
const LOSS: &str = "loss";

/// Decay of the moving average of rewards.
const REWARD_DECAY: f32 = 0.95;

impl Agent {
    /// An agent for states of this size.
    ///
    /// # Errors
    /// A device whose memory cannot hold it.
    pub fn new(device: impl Into<SharedDevice>, size: usize, settings: AgentSettings) -> Result<Agent> {
        let params = parameters(size, settings.hidden)?;
        let mut session = Session::zeros(device, params.clone())?;
        let options = FunctionOptions::default();
        let hidden = settings.hidden;
        let act = session.function_with(options, |cx| {
            let state = cx.input(STATES, DType::F32, &[1, size]);
            vec![(ACTION, actor(cx, "actor", hidden, state))]
        })?;
        let learn = session.function_with(options, |cx| add_update(cx, size, &settings, &params))?;
        // Targets begin as copies: names of a target and of its own network draw the same numbers from one seed.
        for param in &params {
            let values = param
                .init
                .values(settings.seed, &own_of(&param.name), param.shape.iter().product());
            session.set_state(&param.name, &HostArray::F32(values))?;
        }
        Ok(Agent {
            settings,
            size,
            session,
            act,
            learn,
            memory: VecDeque::new(),
            mean_reward: None,
            updates: 0,
            random: SplitMix64::named(settings.seed, "agent"),
        })
    }

    /// An action drawn uniformly.
    pub fn explore(&mut self) -> f32 {
        self.random.unit() as f32
    }

    /// The actor's action with noise of this deviation, drawn from a normal distribution that is cut off at 0 and 1.
    ///
    /// # Errors
    /// A device that fails.
    pub fn act(&mut self, state: &[f32], deviation: f64) -> Result<f32> {
        let results = self.session.run(self.act, &[(STATES, Host::F32(state))])?;
        let own = f64::from(results.f32(ACTION)?[0]);
        loop {
            let [a, b] = [self.random.unit().max(f64::MIN_POSITIVE), self.random.unit()];
            let normal = (-2.0 * a.ln()).sqrt() * (2.0 * std::f64::consts::PI * b).cos();
            let action = own + deviation * normal;
            if (0.0..=1.0).contains(&action) {
                return Ok(action as f32);
            }
            if deviation == 0.0 {
                return Ok(own.clamp(0.0, 1.0) as f32);
            }
        }
    }

    /// Remembers a transition.
    pub fn remember(&mut self, transition: Transition) {
        if self.memory.len() == self.settings.memory {
            self.memory.pop_front();
        }
        self.memory.push_back(transition);
    }

    /// Updates critic, actor and targets once, on remembered transitions; returns the critic's loss.
    ///
    /// # Errors
    /// A device that fails.
    pub fn learn(&mut self) -> Result<f64> {
        let (batch, size) = (self.settings.batch, self.size);
        let (mut states, mut next) = (Vec::with_capacity(batch * size), Vec::with_capacity(batch * size));
        let (mut actions, mut rewards, mut lasting) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..batch {
            let own = &self.memory[self.random.below(self.memory.len() as u64) as usize];
            states.extend_from_slice(&own.state);
            next.extend_from_slice(&own.next);
            actions.push(own.action);
            rewards.push(own.reward);
            lasting.push(if own.is_last { 0.0 } else { 1.0 });
        }
        let mean = rewards.iter().sum::<f32>() / batch as f32;
        let before = self.mean_reward.unwrap_or(mean);
        let baseline = REWARD_DECAY * before + (1.0 - REWARD_DECAY) * mean;
        self.mean_reward = Some(baseline);
        rewards.iter_mut().for_each(|reward| *reward -= baseline);
        self.updates += 1;
        let step = [self.updates as f32];
        let inputs = [
            (STATES, Host::F32(&states)),
            (ACTIONS, Host::F32(&actions)),
            (REWARDS, Host::F32(&rewards)),
            (NEXT, Host::F32(&next)),
            (LASTING, Host::F32(&lasting)),
            (STEP, Host::F32(&step)),
        ];
        self.session.run(self.learn, &inputs)?.scalar(LOSS)
    }
}

/// Whether a parameter belongs to a target.
fn is_target(name: &str) -> bool {
    name.starts_with("target_")
}

/// The name of the parameter that a target follows.
fn own_of(name: &str) -> String {
    name.strip_prefix("target_").unwrap_or(name).to_string()
}

/// The parameters of actor, critic and their targets.
fn parameters(size: usize, hidden: usize) -> Result<Vec<ParamSpec>> {
    let trace = Trace::new();
    trace.attempt(|| {
        let cx = Cx::new(*trace, false);
        let state = cx.input(STATES, DType::F32, &[1, size]);
        for prefix in ["", "target_"] {
            let action = actor(cx, &format!("{prefix}actor"), hidden, state);
            critic(cx, &format!("{prefix}critic"), hidden, state, action);
        }
        cx.params()
    })
}

/// A layer with uniform initial values within one over the root of its inputs.
fn dense(cx: Cx, name: &str, x: Tensor, out: usize) -> Tensor {
    let bound = 1.0 / (x.dim(-1) as f64).sqrt();
    linear_from(cx, name, x, out, [Init::Uniform { bound }; 2])
}

/// Actions `[N, 1]` of states `[N, size]`.
fn actor(cx: Cx, name: &str, hidden: usize, state: Tensor) -> Tensor {
    let x = dense(cx, &format!("{name}.first"), state, hidden).relu();
    let x = dense(cx, &format!("{name}.second"), x, hidden).relu();
    let bound = 3e-3;
    linear_from(cx, &format!("{name}.third"), x, 1, [Init::Uniform { bound }; 2]).sigmoid()
}

/// What actions bring in states, `[N, 1]`.
fn critic(cx: Cx, name: &str, hidden: usize, state: Tensor, action: Tensor) -> Tensor {
    let of_state = dense(cx, &format!("{name}.state"), state, hidden);
    let x = (of_state + dense(cx, &format!("{name}.action"), action, hidden)).relu();
    let x = dense(cx, &format!("{name}.second"), x, hidden).relu();
    let bound = 3e-3;
    linear_from(cx, &format!("{name}.third"), x, 1, [Init::Uniform { bound }; 2])
}

/// Adds an update of all networks.
fn add_update(cx: Cx, size: usize, settings: &AgentSettings, params: &[ParamSpec]) -> Vec<(&'static str, Tensor)> {
    let (batch, hidden) = (settings.batch, settings.hidden);
    let [states, next] = [STATES, NEXT].map(|name| cx.input(name, DType::F32, &[batch, size]));
    let [actions, rewards, lasting] = [ACTIONS, REWARDS, LASTING].map(|name| cx.input(name, DType::F32, &[batch, 1]));
    let after = actor(cx, "target_actor", hidden, next);
    let worth = critic(cx, "target_critic", hidden, next, after);
    let wanted = (rewards + worth * lasting * settings.discount).stop_gradient();
    let difference = critic(cx, "critic", hidden, states, actions) - wanted;
    let loss = (difference * difference).mean();
    let policy = -critic(cx, "critic", hidden, states, actor(cx, "actor", hidden, states)).mean();
    let tensor = |param: &ParamSpec| cx.param(&param.name, &param.shape, param.init);
    let trace = cx.trace();
    for (network, loss, rate) in [
        ("critic.", loss, settings.rates[1]),
        ("actor.", policy, settings.rates[0]),
    ] {
        let own: Vec<&ParamSpec> = params.iter().filter(|param| param.name.starts_with(network)).collect();
        let tensors: Vec<Tensor> = own.iter().map(|param| tensor(param)).collect();
        let gradients = loss.grad(&tensors);
        trace.in_phase(Phase::Update, || {
            let rule = Adam {
                beta1: 0.9,
                beta2: 0.999,
                eps: 1e-8,
                weight_decay: 0.0,
            };
            let (rate, step) = (trace.full(DType::F32, &[], rate), cx.input(STEP, DType::F32, &[]));
            for ((param, value), gradient) in own.iter().zip(tensors).zip(gradients) {
                let moment =
                    |which: &str| trace.state(&format!("agent.{which}.{}", param.name), DType::F32, &param.shape);
                let [mean, square] = ["mean", "square"].map(moment);
                let new = trace.apply(rule, &[value, gradient, mean, square, rate, step]);
                for (state, new) in [value, mean, square].into_iter().zip(&new) {
                    trace.assign(state, *new);
                }
                let name = format!("target_{}", param.name);
                let target = cx.param(&name, &param.shape, param.init);
                trace.assign(target, target + (new[0] - target) * settings.tau);
            }
        });
    }
    debug_assert!(params.iter().any(|param| is_target(&param.name)));
    vec![(LOSS, loss)]
}
