//! Random programs over many operations, forward and backward.
//!
//! Where a function has a kink (a comparison, the largest, a rounding), it is only applied to exact values: numbers
//! that `f32` and the reference's `f64` agree on, so that both take the same side.

use std::collections::HashMap;

use lessen_graph::{
    Array, AttentionOptions, DType, Graph, InputKind, Phase, Tensor, Trace, Type, attention, concat, numel,
};

use crate::random::Random;
use crate::sizes::{LIMIT, narrower, order, reshaped, shape};

/// A program and values for its inputs.
pub struct Program {
    pub graph: Graph,
    pub inputs: HashMap<String, Array>,
    /// Whether values of 8 bits of mantissa influence the results.
    pub coarse: bool,
}

struct Writer<'g> {
    trace: &'g Trace,
    random: Random,
    inputs: HashMap<String, Array>,
    /// Float values so far, and whether each is exact.
    pool: Vec<(Tensor<'g>, bool)>,
    /// `f32` inputs: data and states.
    leaves: Vec<(Tensor<'g>, InputKind)>,
    key: Tensor<'g>,
    coarse: bool,
}

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    let trace = Trace::new();
    let (inputs, coarse) = {
        let mut inputs = HashMap::new();
        inputs.insert("key".to_string(), Array::new(Type::new(DType::U32, &[2]), vec![seed as f64, 77.0]));
        let key = trace.input("key", DType::U32, &[2]);
        let random = Random::new(seed);
        let mut writer =
            Writer { trace: &trace, random, inputs, pool: vec![], leaves: vec![], key, coarse: false };
        for _ in 0..2 {
            let shape = shape(&mut writer.random);
            writer.leaf(&shape);
        }
        for _ in 0..4 + writer.random.below(9) {
            writer.step();
        }
        writer.finish();
        (writer.inputs, writer.coarse)
    };
    Program { graph: trace.finish(), inputs, coarse }
}

impl<'g> Writer<'g> {
    fn leaf(&mut self, shape: &[usize]) -> Tensor<'g> {
        let name = format!("leaf{}", self.leaves.len());
        let array = self.random.array(shape, 1.0);
        self.inputs.insert(name.clone(), array);
        let (leaf, kind) = if self.random.chance(50) {
            (self.trace.state(&name, DType::F32, shape), InputKind::State)
        } else {
            (self.trace.input(&name, DType::F32, shape), InputKind::Data)
        };
        self.leaves.push((leaf, kind));
        self.pool.push((leaf, true));
        leaf
    }

    fn data(&mut self, array: Array) -> Tensor<'g> {
        if self.random.chance(20) {
            return self.trace.constant(array);
        }
        let name = format!("data{}", self.inputs.len());
        let input = self.trace.input(&name, array.ty.dtype, &array.ty.shape);
        self.inputs.insert(name, array);
        input
    }

    fn push(&mut self, value: Tensor<'g>, exact: bool) {
        if value.ty().numel() <= LIMIT {
            self.pool.push((value, exact));
        }
    }

    /// A value of the pool, more often a late one.
    fn value(&mut self) -> (Tensor<'g>, bool) {
        let n = self.pool.len();
        let at = self.random.below(n).max(self.random.below(n));
        self.pool[at]
    }

    /// An exact value: one of the pool that is, else a new leaf.
    fn exact(&mut self) -> Tensor<'g> {
        let (value, exact) = self.value();
        if exact {
            return value;
        }
        let shape = value.shape();
        self.leaf(&shape)
    }

    /// A value of at least this rank.
    fn ranked(&mut self, rank: usize) -> (Tensor<'g>, bool) {
        for _ in 0..6 {
            let found = self.value();
            if found.0.rank() >= rank {
                return found;
            }
        }
        let mut shape = shape(&mut self.random);
        while shape.len() < rank {
            shape.push(self.random.pick(&[1, 3, 6]));
        }
        (self.leaf(&shape), true)
    }

    fn axis(&mut self, x: Tensor<'g>) -> usize {
        self.random.below(x.rank())
    }

    /// A partner that broadcasts with `x`.
    fn partner(&mut self, x: Tensor<'g>) -> (Tensor<'g>, bool) {
        let shape = x.shape();
        let same: Vec<_> = self.pool.iter().copied().filter(|(t, _)| t.shape() == shape).collect();
        match self.random.below(4) {
            0 => (x.scalar_like(0.75), true),
            1 => {
                let narrow = narrower(&mut self.random, &shape);
                (self.leaf(&narrow), true)
            }
            _ => self.random.pick(&same),
        }
    }

    fn step(&mut self) {
        let choice = self.random.below(24);
        match choice {
            0 | 1 => self.smooth(),
            2 | 3 => self.binary(),
            4 => self.kinks(),
            5 | 6 => self.reduce(),
            7..10 => self.product(),
            10..14 => self.view(),
            14 => self.join(),
            15 | 16 => self.rows(),
            17 => self.dropout(),
            18 => self.indexed(),
            19 => self.cross_entropy(),
            20 => self.attention(),
            21 => self.casts(),
            22 => self.integers(),
            _ => self.cache(),
        }
    }

    fn smooth(&mut self) {
        let (x, _) = self.value();
        let above = x * x + 0.5;
        let y = match self.random.below(16) {
            0 => -x,
            1 => x.tanh().exp(),
            2 => above.log(),
            3 => above.sqrt(),
            4 => above.rsqrt(),
            5 => above.recip(),
            6 => x.tanh(),
            7 => x.erf(),
            8 => x.sigmoid(),
            9 => x.sin(),
            10 => x.cos(),
            11 => x.gelu(),
            12 => x.gelu_tanh(),
            13 => x.silu(),
            14 => x.elu(1.0),
            _ => above.pow(x.scalar_like(1.5)),
        };
        self.push(y, false);
    }

    fn binary(&mut self) {
        let (a, _) = self.value();
        let (b, _) = self.partner(a);
        let (a, b) = if self.random.chance(50) { (a, b) } else { (b, a) };
        let y = match self.random.below(4) {
            0 => a + b,
            1 => a - b,
            2 => a * b,
            _ => a / (b * b + 0.5),
        };
        self.push(y, false);
    }

    fn kinks(&mut self) {
        let x = self.exact();
        let (other, exact) = self.partner(x);
        let other = if exact { other } else { x.scalar_like(0.25) };
        let (y, exact) = match self.random.below(9) {
            0 => (x.relu(), true),
            1 => (x.abs(), true),
            2 => (x.sign() * x, false),
            3 => (x.elu(0.7), false),
            4 => (x.maximum(other), true),
            5 => (x.minimum(other), true),
            6 => (x.gt(other).select(x.sin(), other), false),
            7 => (x.le(other).cast(DType::F32), true),
            _ => {
                let both = x.lt(x.scalar_like(0.5)).and(x.ge(x.scalar_like(-0.5)));
                (both.select(x, x.scalar_like(2.0)), true)
            }
        };
        self.push(y, exact);
    }

    fn reduce(&mut self) {
        let (x, exact) = self.ranked(1);
        let rank = x.rank();
        let axes: Vec<usize> = match self.random.below(4) {
            0 => (0..1 + self.random.below(rank)).collect(),
            1 => (self.random.below(rank)..rank).collect(),
            2 => vec![self.axis(x)],
            _ => (0..rank).filter(|_| self.random.chance(50)).collect(),
        };
        let count: usize = axes.iter().map(|&a| x.shape()[a]).product();
        let y = match self.random.below(4) {
            0 if exact => (x.max_axes(&axes), true),
            1 if exact => (x.min_axes(&axes), true),
            2 => (x.mean_axes(&axes), false),
            _ => (x.sum_axes(&axes) / (count as f64).sqrt(), false),
        };
        self.push(y.0, y.1);
    }

    fn product(&mut self) {
        let (a, _) = self.ranked(2);
        let (transpose_a, transpose_b) = (self.random.chance(25), self.random.chance(40));
        let shape = a.shape();
        let (m, k) = (a.dim(-2), a.dim(-1));
        let k = if transpose_a { m } else { k };
        let n = self.random.pick(&[1, 2, 7, 16, 35]);
        let mut right = if transpose_b { vec![n, k] } else { vec![k, n] };
        if transpose_a || self.random.chance(40) {
            right.splice(0..0, shape[..shape.len() - 2].iter().copied());
        }
        if numel(&right) > LIMIT {
            return;
        }
        // A view as the right factor every now and then.
        let b = if self.random.chance(30) {
            let rank = right.len();
            let mut stored = right.clone();
            stored.swap(rank - 1, rank - 2);
            self.leaf(&stored).transpose(-1, -2)
        } else {
            self.leaf(&right)
        };
        let y = self.trace.apply1(lessen_graph::ops::MatMul { transpose_a, transpose_b }, &[a, b]);
        self.push(y / (k as f64).sqrt(), false);
    }

    fn view(&mut self) {
        let (x, exact) = self.ranked(1);
        let rank = x.rank();
        match self.random.below(6) {
            0 | 1 => {
                let shape = reshaped(&mut self.random, &x.shape());
                self.push(x.reshape(&shape), exact);
            }
            2 | 3 => {
                let axes = order(&mut self.random, rank);
                self.push(x.permute(&axes), exact);
            }
            4 => {
                let axis = self.axis(x);
                let n = x.shape()[axis];
                let start = self.random.below(n);
                let len = 1 + self.random.below(n - start);
                self.push(x.slice(axis as isize, start, len), exact);
            }
            _ => {
                let axis = self.axis(x);
                let n = x.shape()[axis];
                let first = self.random.below(n + 1);
                let parts = x.split(axis as isize, &[first, n - first]);
                for part in parts.into_iter().filter(|p| p.ty().numel() > 0) {
                    self.push(part, exact);
                }
            }
        }
    }

    fn join(&mut self) {
        let (x, exact) = self.ranked(1);
        let axis = self.axis(x) as isize;
        if self.random.chance(50) {
            let (before, after) = (self.random.below(3), self.random.below(3));
            let value = self.random.pick(&[0.0, 0.0, -1.5]);
            return self.push(x.pad(axis, before, after, value), exact);
        }
        let (other, other_exact) = self.partner(x);
        let other = other.broadcast_to(&x.shape());
        let mut parts = vec![x, other];
        if self.random.chance(20) {
            // More parts than a kernel has operands.
            parts.resize(14, x.slice(axis, 0, 1));
        }
        self.push(concat(&parts, axis), exact && other_exact);
    }

    fn rows(&mut self) {
        let (x, _) = self.ranked(1);
        let n = x.dim(-1);
        let y = match self.random.below(4) {
            0 => x.softmax(),
            1 => x.log_softmax() * 0.3,
            2 => {
                let (gamma, beta) = (self.leaf(&[n]), self.leaf(&[n]));
                x.layer_norm(gamma, beta, 0.05)
            }
            _ => {
                let gamma = self.leaf(&[n]);
                x.rms_norm(gamma, 0.05)
            }
        };
        self.push(y, false);
    }

    fn dropout(&mut self) {
        let (x, _) = self.ranked(1);
        let y = if self.random.chance(70) {
            x.dropout(self.random.pick(&[0.1, 0.5]), self.key)
        } else {
            let bits = self.key.random_bits(&x.shape());
            x * (bits.cast(DType::F32) * (1.0 / 4294967296.0))
        };
        self.push(y, false);
    }

    fn indexed(&mut self) {
        let (x, exact) = self.ranked(1);
        let n = x.shape()[0];
        let gathers = self.random.chance(60);
        if gathers {
            let wide = self.random.chance(30);
            let shape = if wide { vec![self.random.pick(&[1, 140])] } else { vec![2, self.random.pick(&[1, 3])] };
            let ids = self.random.ids(&shape, n);
            if numel(&shape) * x.ty().numel() / n > LIMIT {
                return;
            }
            let ids = self.data(ids);
            self.push(x.gather(ids), exact);
        } else {
            let lead = 1 + self.random.below(x.rank());
            let rows = self.random.pick(&[1, 4, 11]);
            let ids = self.random.ids(&x.shape()[..lead], rows);
            let ids = self.data(ids);
            let share = (ids.ty().numel() as f64 / rows as f64).max(1.0);
            self.push(x.scatter_add(ids, rows) / share.sqrt(), false);
        }
    }

    fn cross_entropy(&mut self) {
        let (x, _) = self.ranked(2);
        let shape = x.shape();
        let lead = &shape[..shape.len() - 1];
        let mut labels = self.random.ids(lead, x.dim(-1));
        for label in &mut labels.data {
            if self.random.chance(20) {
                *label = -100.0;
            }
        }
        let labels = self.data(labels);
        let smoothing = self.random.pick(&[0.0, 0.1]);
        let y = if self.random.chance(50) {
            x.cross_entropy_rows(labels, -100, smoothing)
        } else {
            x.cross_entropy_with(labels, -100, smoothing)
        };
        self.push(y, false);
    }

    fn attention(&mut self) {
        let [b, tq, h, d] =
            [[1, 2, 3].as_slice(), &[1, 3, 20, 70], &[1, 2], &[1, 4, 6]].map(|of| self.random.pick(of));
        let causal = self.random.chance(50);
        let tk = if causal || self.random.chance(50) { tq } else { self.random.pick(&[1, 5, 66]) };
        let dv = if self.random.chance(30) { d + 1 } else { d };
        let merged = self.leaf(&[b, tq, 3 * h * d]);
        let heads: Vec<Tensor<'g>> =
            merged.split(-1, &[h * d; 3]).iter().map(|t| t.reshape(&[b, tq, h, d])).collect();
        let q = heads[0];
        let k = if tk == tq && self.random.chance(60) { heads[1] } else { self.leaf(&[b, tk, h, d]) };
        let v = if tk == tq && dv == d && self.random.chance(60) { heads[2] } else { self.leaf(&[b, tk, h, dv]) };
        let mask = self.random.chance(50).then(|| {
            let mut visible =
                Array::from_fn(Type::new(DType::Bool, &[b, tk]), |_| f64::from(self.random.chance(70)));
            visible.data[0] = 1.0;
            self.data(visible)
        });
        let dropout = self.random.chance(40).then_some((0.2, self.key));
        let y = attention(q, k, v, AttentionOptions { causal, scale: None, mask, dropout });
        self.push(y, false);
    }

    fn casts(&mut self) {
        if self.random.chance(60) {
            let (x, exact) = self.value();
            let wide = x.cast(DType::F64);
            let y = match self.random.below(5) {
                0 => wide.tanh() * wide,
                1 if x.rank() > 0 => wide.softmax(),
                2 if x.rank() > 0 => wide.sum_axes(&[0]) / x.shape()[0] as f64,
                3 if x.rank() > 1 => wide.transpose(0, -1) * 2.0,
                _ => return self.push(wide.cast(DType::F32), exact),
            };
            return self.push(y.cast(DType::F32), false);
        }
        self.coarse = true;
        let x = self.exact();
        let narrow = x.cast(DType::BF16);
        let y = match self.random.below(5) {
            0 => narrow.tanh() + narrow,
            1 if x.rank() > 0 => narrow.softmax(),
            2 if x.rank() > 1 => narrow.transpose(0, 1) * narrow.transpose(0, 1),
            3 if x.rank() > 1 => {
                let w = self.leaf(&[x.dim(-1), 3]).cast(DType::BF16);
                narrow.matmul(w)
            }
            _ => narrow.identity(),
        };
        self.push(y.cast(DType::F32), false);
    }

    fn integers(&mut self) {
        let shape = shape(&mut self.random);
        let ids = self.random.ids(&shape, 10);
        let a = self.data(ids);
        let b = if shape.is_empty() {
            a.scalar_like(3.0)
        } else {
            let axis = self.random.below(shape.len());
            self.trace.iota(DType::I32, &shape, axis)
        };
        let mixed = match self.random.below(4) {
            0 => a + b,
            1 => a * b - a,
            2 => a.maximum(b),
            _ => a.eq(b).select(a, b),
        };
        let signs = mixed.gt(a).cast(DType::F32);
        self.push(signs, true);
        self.push(mixed.cast(DType::F32) * (1.0 / 128.0), true);
    }

    fn cache(&mut self) {
        let (x, _) = self.ranked(1);
        let axis = self.axis(x);
        let mut shape = x.shape();
        shape[axis] = 1 + self.random.below(shape[axis]);
        let update = self.leaf(&shape);
        let position = Array::i32(&[], &[self.random.below(12) as i32 - 1]);
        let position = self.data(position);
        self.push(x.update_slice(update, position, axis as isize), false);
    }

    /// Outputs, a loss of several values, gradients, and new values for states.
    fn finish(&mut self) {
        let mut loss = self.trace.full(DType::F32, &[], 0.0);
        for i in 0..3 {
            let (x, _) = self.value();
            let n = x.ty().numel() as f64;
            loss = loss + (x * x * 0.5 + x).sum() / n.sqrt();
            self.trace.output(&format!("value{i}"), x);
        }
        self.trace.output("loss", loss);
        let wrt: Vec<Tensor<'g>> = self.leaves.iter().map(|l| l.0).collect();
        let gradients = loss.grad(&wrt);
        for (i, (&(leaf, kind), gradient)) in self.leaves.iter().zip(gradients).enumerate() {
            if kind == InputKind::State && i % 4 != 3 {
                let new = self.trace.in_phase(Phase::Update, || leaf - gradient * 0.125);
                self.trace.assign(leaf, new);
            } else {
                self.trace.output(&format!("gradient{i}"), gradient);
            }
        }
    }
}
