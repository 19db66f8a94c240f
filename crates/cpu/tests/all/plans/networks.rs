//! Random small networks that train: few layers, whose values are large enough to be recomputed.

use std::collections::HashMap;

use lessen_graph::{Array, Conv2dOptions, DType, Graph, Phase, Pool2d, Tensor, Trace, TraceRef, Type};

use crate::random::Random;

/// A training step and the values of its inputs.
pub struct Network {
    pub graph: Graph,
    pub inputs: HashMap<String, Array>,
}

struct Writer {
    trace: TraceRef,
    random: Random,
    inputs: HashMap<String, Array>,
    parameters: Vec<Tensor>,
    key: Tensor,
    /// Results of the layers so far.
    results: Vec<Tensor>,
}

/// The network of a seed, with `layers` linear layers or convolutions.
pub fn network(seed: u64, layers: usize) -> Network {
    let trace = Trace::new();
    let inputs = {
        let key = trace.input("key", DType::U32, &[2]);
        let key_bits = Array::new(Type::new(DType::U32, &[2]), vec![seed as f64, 3.0]);
        let mut writer = Writer {
            trace: *trace,
            random: Random::new(seed ^ 0x5EED),
            inputs: HashMap::from([("key".to_string(), key_bits)]),
            parameters: Vec::new(),
            key,
            results: Vec::new(),
        };
        writer.begin();
        for layer in 0..layers {
            trace.in_scope(&format!("h.{layer}"), || writer.layer());
        }
        writer.finish();
        writer.inputs
    };
    Network {
        graph: trace.finish(),
        inputs,
    }
}

impl Writer {
    fn begin(&mut self) {
        let shape = if self.random.chance(30) {
            let side = self.random.pick(&[8, 11, 16]);
            vec![self.random.pick(&[4, 9]), side, side, 3]
        } else {
            vec![self.random.pick(&[130, 200, 600]), self.random.pick(&[8, 33, 48])]
        };
        let values = self.random.array(&shape, 1.0);
        self.inputs.insert("x".to_string(), values);
        self.results.push(self.trace.input("x", DType::F32, &shape));
        self.product();
    }

    fn last(&self) -> Tensor {
        *self.results.last().expect("there is the input")
    }

    fn parameter(&mut self, shape: &[usize], scale: f64) -> Tensor {
        let name = format!("p{}", self.parameters.len());
        let values = self.random.array(shape, scale);
        self.inputs.insert(name.clone(), values);
        let parameter = self.trace.state(&name, DType::F32, shape);
        self.parameters.push(parameter);
        parameter
    }

    /// A product with a matrix, or a convolution.
    fn product(&mut self) {
        let x = self.last();
        let from = x.dim(-1);
        let y = if x.rank() == 4 {
            let to = self.random.pick(&[4, 8, 16]);
            let weight = self.parameter(&[to, from, 3, 3], 0.5);
            let options = Conv2dOptions {
                padding: [1; 4],
                ..Conv2dOptions::default()
            };
            x.conv2d(weight, options)
        } else {
            let to = self.random.pick(&[32, 48, 64, 96]);
            x.matmul(self.parameter(&[from, to], 0.5))
        };
        self.results.push(y / (from as f64).sqrt());
    }

    fn layer(&mut self) {
        let x = self.last();
        let y = match self.random.below(11) {
            0..4 => return self.product(),
            4 => x.gelu(),
            5 => x.tanh(),
            6 => x.sigmoid() * x,
            7 => self.norm(x),
            8 => x.dropout(0.25, self.key),
            9 if x.rank() == 4 && x.shape()[1] >= 8 => x.max_pool2d(Pool2d::square(2)),
            9 => x.softmax(),
            _ => {
                let same = |y: &&Tensor| y.shape() == x.shape();
                let earlier: Vec<Tensor> = self.results.iter().filter(same).copied().collect();
                x + self.random.pick(&earlier)
            }
        };
        self.results.push(y);
    }

    fn norm(&mut self, x: Tensor) -> Tensor {
        let n = x.dim(-1);
        let [scale, shift] = [(); 2].map(|()| self.parameter(&[n], 1.0));
        if x.rank() == 4 {
            let pixels = x.reshape(&[x.ty().numel() / n, n]);
            let [mean, variance] = pixels.moments();
            let normed = pixels.scale_shift(mean, scale / (variance + 0.1).sqrt(), shift);
            normed.reshape(&x.shape())
        } else {
            x.layer_norm(scale, shift, 0.05)
        }
    }

    fn finish(&mut self) {
        let last = self.last();
        let loss = (last * last).mean() + last.mean();
        self.trace.output("loss", loss);
        let gradients = loss.grad(&self.parameters);
        self.trace.in_phase(Phase::Update, || {
            for (&parameter, gradient) in self.parameters.iter().zip(gradients) {
                self.trace.assign(parameter, parameter - gradient * 0.125);
            }
        });
    }
}
