//! Quantization of the layers of a model: their inputs and weights as they multiply them.

use std::collections::HashMap;
use std::rc::Rc;

use lessen_graph::ops::{Clamp, FakeQuantize, Helu, MaxPool2d, Permute, Relu, Reshape};
use lessen_graph::{Phase, Tensor};

use super::Cx;
use crate::init::Init;
use crate::quantization::{
    BATCHES, Bits, INPUT_FACTOR, INPUT_RANGE, INPUT_SCALE, Quantization, Ranges, quantize_by_rows, quantize_in_range,
    quantize_weight,
};

/// Share of the difference between a batch's range and the running one by which a batch moves the latter.
const MOMENTUM: f64 = 0.01;

/// What quantization has declared in a trace.
#[derive(Default)]
pub(crate) struct Ranged {
    /// Whether numbers are rounded by now, `bool[]`, where that depends on the batches so far.
    started: Option<Tensor>,
    /// Ranges of layers, `[]`, and whether there is one, `bool[]`, by the layers' names.
    ranges: HashMap<String, [Tensor; 2]>,
}

impl Cx {
    /// Quantizes layers; with none, they are as they were in this context.
    pub fn with_quantization(self, quantization: Option<&Quantization>) -> Cx {
        let own = quantization.cloned().map(Rc::new);
        self.but(|inner| inner.quantization = own.or(inner.quantization.take()))
    }

    /// Keeps the inputs of the layers that multiply them with a matrix or a kernel; see [`Cx::layer_inputs`].
    pub fn keeping_layer_inputs(self) -> Cx {
        self.declared(|declared| {
            declared.layer_inputs.get_or_insert_default();
        });
        self
    }

    /// The inputs of layers in order of first use, before they are rounded, by the layers' names, such as
    /// `transformer.h.0.mlp.c_fc`; none unless they are kept.
    pub fn layer_inputs(self) -> Vec<(String, Tensor)> {
        self.declared(|declared| declared.layer_inputs.clone().unwrap_or_default())
    }

    /// Keeps the input of the layer of this context, where inputs are asked for.
    fn keep_input(self, x: Tensor) {
        let layer = self.prefix();
        self.declared(|declared| {
            if let Some(kept) = &mut declared.layer_inputs {
                kept.push((layer, x));
            }
        });
    }

    /// What quantization has declared in the trace.
    fn ranged<R>(self, with: impl FnOnce(&mut Ranged) -> R) -> R {
        self.declared(|declared| with(&mut declared.ranged))
    }

    /// The context without a prefix.
    fn root(self) -> Cx {
        self.but(|inner| inner.prefix.clear())
    }

    /// The input and the weight of the layer of this context as it multiplies them. `axis` is the one of the layer's
    /// outputs in the weight.
    #[track_caller]
    pub(crate) fn quantized(self, x: Tensor, weight: Tensor, axis: usize) -> [Tensor; 2] {
        self.keep_input(x);
        let Some(how) = self.inner().quantization.clone() else {
            return [x, weight];
        };
        let how = how.as_ref();
        let Bits { weights, inputs } = how.of(&self.prefix());
        if how.ranges == Ranges::Fixed {
            return [inputs.map_or(x, |_| self.in_fixed_range(x)), weight];
        }
        let x = inputs.map_or(x, |bits| self.rounded_input(x, bits, how));
        let weight = weights.map_or(weight, |bits| {
            let rounded = quantize_weight(weight, bits, axis);
            self.rounds_now(how)
                .map_or(rounded, |started| choose(started, rounded, weight))
        });
        [x, weight]
    }

    /// The input with the fixed scale of the layer.
    #[track_caller]
    fn in_fixed_range(self, x: Tensor) -> Tensor {
        let scale = self.buffer(INPUT_SCALE, &[1], Init::Ones).reshape(&[]);
        x.fake_quantize(FakeQuantize::symmetric(8, 0), scale, None)
    }

    #[track_caller]
    fn rounded_input(self, x: Tensor, bits: u32, how: &Quantization) -> Tensor {
        if how.ranges == Ranges::Dynamic {
            let shape = x.shape();
            // An image has one range: its kernels read all its channels at several places.
            let rows = match shape[..] {
                [images, height, width, channels] => x.reshape(&[images, height * width * channels]),
                _ => x.flatten_rows(),
            };
            let rounded = quantize_by_rows(rows, bits).reshape(&shape);
            return self
                .rounds_now(how)
                .map_or(rounded, |started| choose(started, rounded, x));
        }
        // Integers of 8 bits are symmetric on devices; with fewer, the sign of what has none would be half the levels.
        let half_wave = bits < 8 && is_not_negative(x);
        let started = self.rounds_now(how);
        let [range, has_range] = self.input_range(x, how, started);
        let clip = match how.ranges {
            Ranges::Learned => {
                let levels = if half_wave { 1 << bits } else { 1 << (bits - 1) };
                let factor = self.param(INPUT_FACTOR, &[1], Init::Ones).reshape(&[]);
                // The gradient is scaled as in Esser et al. (2020, section 2.2).
                let numbers = x.ty().numel() / x.shape()[0].max(1);
                let share = 1.0 / ((numbers.max(1) * levels) as f64).sqrt();
                let fixed = factor.stop_gradient();
                range * (fixed + (factor - fixed) * share)
            }
            _ => range,
        };
        let rounded = quantize_in_range(x, bits, half_wave, clip);
        let rounds = started.map_or(has_range, |started| started.and(has_range));
        choose(rounds, rounded, x)
    }

    /// The range of the layer's input, `[]`, and whether there is one. A training step moves it.
    #[track_caller]
    fn input_range(self, x: Tensor, how: &Quantization, started: Option<Tensor>) -> [Tensor; 2] {
        let known = self.ranged(|ranged| ranged.ranges.get(&self.prefix()).copied());
        if let Some(known) = known {
            return known;
        }
        let state = self.buffer(INPUT_RANGE, &[1], Init::Zeros);
        let before = state.reshape(&[]);
        let zero = before.scalar_like(0.0);
        let range = if self.moves_ranges() {
            let all: Vec<usize> = (0..x.rank()).collect();
            let most = x.stop_gradient().abs().max_axes(&all);
            let has_range = before.gt(zero);
            let moved = has_range.select(before + (most - before) * MOMENTUM, most);
            let range = match (how.ranges, started) {
                (Ranges::Learned, Some(started)) => started.and(has_range).select(before, moved),
                (Ranges::Learned, None) => has_range.select(before, most),
                _ => moved,
            };
            let trace = self.trace();
            trace.in_phase(Phase::Update, || trace.assign(state, range.reshape(&[1])));
            range
        } else {
            before
        };
        let found = [range, range.gt(zero)];
        self.ranged(|ranged| ranged.ranges.insert(self.prefix(), found));
        found
    }

    /// Whether a step moves ranges: in training, but for that of adapters, beside which a model stays as it is.
    fn moves_ranges(self) -> bool {
        self.training() && self.lora().is_none()
    }

    /// Whether numbers are rounded by now; none if they are from the first batch on. A training step counts it.
    #[track_caller]
    fn rounds_now(self, how: &Quantization) -> Option<Tensor> {
        if how.start == 0 {
            return None;
        }
        let known = self.ranged(|ranged| ranged.started);
        if known.is_some() {
            return known;
        }
        let start = how.start as f64;
        let state = self.root().buffer(BATCHES, &[1], Init::Zeros);
        if self.moves_ranges() {
            let trace = self.trace();
            let counted = || (state + 1.0).minimum(state.scalar_like(start));
            trace.in_phase(Phase::Update, || trace.assign(state, counted()));
        }
        let batches = state.reshape(&[]);
        let started = batches.ge(batches.scalar_like(start));
        self.ranged(|ranged| ranged.started = Some(started));
        Some(started)
    }
}

/// One of two tensors, by one truth value.
fn choose(first: Tensor, a: Tensor, b: Tensor) -> Tensor {
    first.broadcast_to(&a.shape()).select(a, b)
}

/// Whether an activation or a pooling shows that no number is negative.
fn is_not_negative(x: Tensor) -> bool {
    x.trace().with_graph(|graph| {
        let mut value = x.id();
        loop {
            let Some(node) = graph.producer(value).map(|node| &graph.nodes[node.index()]) else {
                return false;
            };
            let op = node.op.as_ref();
            let clamp = op.downcast_ref::<Clamp>();
            if op.is::<Relu>() || op.is::<Helu>() || clamp.is_some_and(|clamp| clamp.low >= 0.0) {
                return true;
            }
            if !(op.is::<Reshape>() || op.is::<Permute>() || op.is::<MaxPool2d>()) {
                return false;
            }
            value = node.inputs[0];
        }
    })
}
