//! A small GPT that trains with AdamW, written with tensors alone.

use std::collections::HashMap;

use lessen_compile::Plan;
use lessen_cpu::{Device, Executable, Store};
use lessen_graph::ops::AdamW;
use lessen_graph::{
    Array, AttentionOptions, DType, Graph, Phase, Tensor, Trace, TraceRef, Type, attention, clip_coefficient,
    global_norm,
};

use crate::plans::runner;
use crate::plans::runner::{Options, compile};
use crate::random::Random;

/// Extents and choices.
#[derive(Clone, Copy)]
pub struct Size {
    pub blocks: usize,
    pub batch: usize,
    pub length: usize,
    pub heads: usize,
    pub width: usize,
    pub vocabulary: usize,
    pub dropout: f64,
    pub clip: bool,
}

/// More activations than parameters; more rows than one tile has, and no multiple of it.
pub const WIDE_BATCH: Size = Size {
    blocks: 3,
    batch: 5,
    length: 41,
    heads: 2,
    width: 40,
    vocabulary: 67,
    dropout: 0.1,
    clip: true,
};

/// Many blocks, so that the values that backward reads take most of the memory.
pub const DEEP: Size = Size {
    blocks: 6,
    batch: 6,
    length: 45,
    heads: 2,
    width: 32,
    vocabulary: 30,
    dropout: 0.1,
    clip: false,
};

/// More parameters than activations.
pub const FEW_TOKENS: Size = Size {
    blocks: 3,
    batch: 2,
    length: 9,
    heads: 2,
    width: 72,
    vocabulary: 50,
    dropout: 0.0,
    clip: false,
};

/// The graph of a training step and the values of its inputs before the first one.
pub struct Training {
    pub graph: Graph,
    pub inputs: HashMap<String, Array>,
    size: Size,
}

struct Model {
    trace: TraceRef,
    random: Random,
    inputs: HashMap<String, Array>,
    parameters: Vec<(String, Tensor)>,
    key: Tensor,
    size: Size,
}

impl Model {
    fn parameter(&mut self, name: &str, shape: &[usize]) -> Tensor {
        let mut values = self.random.array(shape, 0.2);
        if name.ends_with("gamma") {
            values.data.fill(1.0);
        }
        self.inputs.insert(name.to_string(), values);
        let parameter = self.trace.state(name, DType::F32, shape);
        self.parameters.push((name.to_string(), parameter));
        parameter
    }

    fn linear(&mut self, x: Tensor, name: &str, to: usize) -> Tensor {
        let from = x.dim(-1);
        let weight = self.parameter(&format!("{name}.weight"), &[from, to]);
        let bias = self.parameter(&format!("{name}.bias"), &[to]);
        x.matmul(weight) + bias
    }

    fn norm(&mut self, x: Tensor, name: &str) -> Tensor {
        let n = x.dim(-1);
        let gamma = self.parameter(&format!("{name}.gamma"), &[n]);
        let beta = self.parameter(&format!("{name}.beta"), &[n]);
        x.layer_norm(gamma, beta, 1e-5)
    }

    fn block(&mut self, x: Tensor, name: &str) -> Tensor {
        let Size {
            batch,
            length,
            heads,
            width,
            dropout,
            ..
        } = self.size;
        let normed = self.norm(x, &format!("{name}.ln_1"));
        let qkv = self.linear(normed, &format!("{name}.qkv"), 3 * width);
        let [q, k, v] = [0, 1, 2].map(|i| {
            qkv.slice(-1, i * width, width)
                .reshape(&[batch, length, heads, width / heads])
        });
        let options = AttentionOptions {
            causal: true,
            dropout: Some((dropout, self.key)),
            ..AttentionOptions::default()
        };
        let attended = attention(q, k, v, options).reshape(&[batch, length, width]);
        let x = x + self
            .linear(attended, &format!("{name}.out"), width)
            .dropout(dropout, self.key);
        let normed = self.norm(x, &format!("{name}.ln_2"));
        let hidden = self.linear(normed, &format!("{name}.up"), 4 * width).gelu();
        x + self
            .linear(hidden, &format!("{name}.down"), width)
            .dropout(dropout, self.key)
    }

    fn loss(&mut self) -> Tensor {
        let Size {
            blocks,
            batch,
            length,
            width,
            vocabulary,
            dropout,
            ..
        } = self.size;
        let ids = self.trace.input("ids", DType::I32, &[batch, length]);
        let labels = self.trace.input("labels", DType::I32, &[batch, length]);
        let tokens = self.parameter("tokens", &[vocabulary, width]);
        let positions = self.parameter("positions", &[length, width]);
        let mut x = (tokens.gather(ids) + positions).dropout(dropout, self.key);
        for i in 0..blocks {
            x = self
                .trace
                .in_scope(&format!("h.{i}"), || self.block(x, &format!("h.{i}")));
        }
        self.norm(x, "ln_f").matmul_t(tokens).cross_entropy(labels)
    }

    fn update(&mut self, loss: Tensor) {
        let wrt: Vec<Tensor> = self.parameters.iter().map(|p| p.1).collect();
        let mut gradients = loss.grad(&wrt);
        let step = self.trace.state("step", DType::F32, &[]);
        self.inputs.insert("step".to_string(), Array::scalar(0.0));
        let rate = self.trace.input("rate", DType::F32, &[]);
        self.trace.in_phase(Phase::Update, || {
            let next = step + 1.0;
            self.trace.assign(step, next);
            if self.size.clip {
                let norm = global_norm(&gradients);
                self.trace.output("norm", norm);
                let by = clip_coefficient(norm, 1.0);
                gradients = gradients.iter().map(|&g| g * by).collect();
            }
            let rule = AdamW {
                beta1: 0.9,
                beta2: 0.95,
                eps: 1e-8,
                weight_decay: 0.1,
            };
            for ((name, parameter), gradient) in self.parameters.iter().zip(gradients) {
                let shape = parameter.shape();
                let [m, v] = ["m", "v"].map(|kind| {
                    let name = format!("{kind}.{name}");
                    self.inputs.insert(name.clone(), Array::full(Type::f32(&shape), 0.0));
                    self.trace.state(&name, DType::F32, &shape)
                });
                let new = self.trace.apply(rule, &[*parameter, gradient, m, v, rate, next]);
                for (state, value) in [*parameter, m, v].into_iter().zip(new) {
                    self.trace.assign(state, value);
                }
            }
        });
    }
}

/// Traces a training step.
pub fn training(size: Size) -> Training {
    let trace = Trace::new();
    let inputs = {
        let key = trace.input("key", DType::U32, &[2]);
        let mut model = Model {
            trace: *trace,
            random: Random::new(11),
            inputs: HashMap::new(),
            parameters: Vec::new(),
            key,
            size,
        };
        let loss = model.loss();
        trace.output("loss", loss);
        model.update(loss);
        model.inputs
    };
    Training {
        graph: trace.finish(),
        inputs,
        size,
    }
}

/// Results of a few steps of training.
pub struct Trained {
    pub plan: Plan,
    /// Losses and, after the last step, all states, as bits.
    pub bits: Vec<(String, Vec<u32>)>,
    pub losses: Vec<f32>,
    pub measured_peak_bytes: usize,
}

impl Training {
    /// The batch of a step.
    pub fn batch(&self, step: usize) -> HashMap<String, Array> {
        let Size {
            batch,
            length,
            vocabulary,
            ..
        } = self.size;
        let mut random = Random::new(100 + step as u64);
        let mut inputs = HashMap::new();
        let ids = random.ids(&[batch, length], vocabulary);
        // A task that can be learnt: the label of a token is the next number.
        let mut labels = ids.clone();
        labels.data.iter_mut().for_each(|l| *l = (*l + 1.0) % vocabulary as f64);
        labels.data[0] = -100.0;
        inputs.insert("ids".to_string(), ids);
        inputs.insert("labels".to_string(), labels);
        let key = Array::new(Type::new(DType::U32, &[2]), vec![step as f64, 9.0]);
        inputs.insert("key".to_string(), key);
        inputs.insert("rate".to_string(), Array::scalar(0.015625));
        inputs
    }

    /// The states before the first step.
    pub fn store(&self) -> Store {
        runner::store(&self.graph, &self.inputs)
    }

    /// Trains for some steps under these options.
    pub fn train(&self, options: &Options, steps: usize) -> lessen_base::Result<Trained> {
        let mut executable = Executable::load(compile(&self.graph, options)?);
        let mut device = Device::new(options.threads)?;
        let mut store = self.store();
        let mut losses = Vec::new();
        for step in 0..steps {
            runner::run(&mut executable, &mut device, &mut store, &self.batch(step))?;
            losses.push(executable.output_f32("loss").expect("a loss")[0]);
        }
        let mut results = runner::results(&executable, &store);
        results.insert("losses".to_string(), losses.clone());
        let measured_peak_bytes = executable.measured_peak_bytes(&store);
        let bits = runner::bits(&results);
        Ok(Trained {
            plan: executable.plan().clone(),
            bits,
            losses,
            measured_peak_bytes,
        })
    }
}
