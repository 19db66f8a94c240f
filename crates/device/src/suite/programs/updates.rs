//! Updates of states, in random programs.

use lessen_graph::ops::block_codes::blocks;
use lessen_graph::ops::{Adadelta, Adagrad, Adam, AdamW, AdamW8bit, Lion, RmsProp, Sgd};
use lessen_graph::{Array, DType, Phase, Tensor, Type};

use super::Writer;

const ADAMW: AdamW = AdamW {
    beta1: 0.9,
    beta2: 0.99,
    eps: 1e-6,
    weight_decay: 0.01,
};

impl Writer {
    /// Assigns a state its new value, by one rule or another.
    pub(super) fn update(&mut self, leaf: Tensor, gradient: Tensor) {
        let trace = self.trace;
        let rule = self.random.below(12);
        if rule < 3 {
            let new = trace.in_phase(Phase::Update, || leaf - gradient * 0.125);
            return trace.assign(leaf, new);
        }
        let rate = self.data(Array::scalar(0.125));
        let step = trace.in_phase(Phase::Update, || trace.full(DType::F32, &[], 3.0));
        if rule == 3 {
            return self.update_8_bit(leaf, gradient, &[rate, step]);
        }
        let moments = if [4, 6, 8].contains(&rule) { 1 } else { 2 };
        let states: Vec<Tensor> = (0..moments).map(|_| self.moment(&leaf.shape())).collect();
        let (random, weight_decay) = (&mut self.random, 0.01);
        let apply = |gradient: Tensor, nesterov: bool| {
            let inputs = [&[leaf, gradient], &states[..], &[rate]].concat();
            let counted = [&inputs[..], &[step]].concat();
            let (beta1, beta2, eps) = (0.9, 0.99, 1e-6);
            match rule {
                4 => {
                    let rule = Sgd {
                        momentum: 0.9,
                        nesterov,
                        weight_decay,
                    };
                    trace.apply(rule, &inputs)
                }
                5 => {
                    let rule = Adam {
                        beta1,
                        beta2,
                        eps,
                        weight_decay,
                    };
                    trace.apply(rule, &counted)
                }
                6 => {
                    let rule = Adagrad {
                        lr_decay: 0.5,
                        initial: 0.1,
                        eps,
                        weight_decay,
                    };
                    trace.apply(rule, &counted)
                }
                7 => {
                    let rule = Adadelta {
                        rho: 0.9,
                        eps,
                        weight_decay,
                    };
                    trace.apply(rule, &inputs)
                }
                8 => {
                    // Within the moment, so that no rounding decides the sign.
                    let inputs = [&[leaf, gradient.clamp(-1.0, 1.0)], &states[..], &[rate]].concat();
                    let rule = Lion {
                        beta1,
                        beta2,
                        weight_decay,
                    };
                    trace.apply(rule, &inputs)
                }
                9 => {
                    let rule = RmsProp {
                        alpha: 0.99,
                        eps,
                        momentum: 0.5,
                        weight_decay,
                    };
                    trace.apply(rule, &inputs)
                }
                _ => trace.apply(ADAMW, &counted),
            }
        };
        let nesterov = random.chance(50);
        let new = trace.in_phase(Phase::Update, || apply(gradient, nesterov));
        for (state, value) in [&[leaf], &states[..]].concat().into_iter().zip(new) {
            trace.assign(state, value);
        }
    }

    /// A state away from zero, where the root of a second moment would enlarge every error.
    fn moment(&mut self, shape: &[usize]) -> Tensor {
        let name = format!("moment{}", self.inputs.len());
        let mut values = self.random.array(shape, 0.5);
        values.data.iter_mut().for_each(|v| *v += 1.0);
        self.inputs.insert(name.clone(), values);
        self.trace.state(&name, DType::F32, shape)
    }

    /// Updates a state with 8-bit moments, whose scales are states.
    fn update_8_bit(&mut self, leaf: Tensor, gradient: Tensor, scalars: &[Tensor]) {
        let (trace, shape) = (self.trace, leaf.shape());
        let blocks = blocks(leaf.ty().numel());
        let mut moments = Vec::new();
        for _ in 0..2 {
            // Codes of large numbers, for the reason that `moment` gives.
            let codes = Array::from_fn(Type::new(DType::U8, &shape), |_| (180 + self.random.below(76)) as f64);
            moments.extend([self.data(codes), self.moment(&[blocks])]);
        }
        let inputs = [&[leaf, gradient], &moments[..], scalars].concat();
        let new = trace.in_phase(Phase::Update, || trace.apply(AdamW8bit { rule: ADAMW }, &inputs));
        for (state, value) in [(leaf, 0), (moments[1], 2), (moments[3], 4)] {
            trace.assign(state, new[value]);
        }
        for codes in [new[1], new[3]] {
            // Beside the reference a code may be the next one; among plans of the CPU all bits are the same.
            let name = format!("codes{}", codes.id().index());
            trace.output(&name, codes.cast(DType::F32) * 1e-7);
        }
    }
}
