//! Random programs over many operations, forward and backward.
//!
//! Where a function has a kink (a comparison, the largest, a rounding), it is only applied to exact values: numbers
//! that `f32` and the reference's `f64` agree on, so that both take the same side.

mod arithmetic;
mod images;
mod inversion;
mod layers;
pub(crate) mod sizes;
mod updates;

use std::collections::HashMap;

use lessen_graph::{Array, DType, Graph, InputKind, Tensor, Trace, TraceRef, Type};

use crate::suite::programs::sizes::{LIMIT, narrower, shape};
use crate::suite::random::Random;

/// A program and values for its inputs.
pub struct Program {
    /// The program.
    pub graph: Graph,
    /// Values of all inputs and states.
    pub inputs: HashMap<String, Array>,
    /// Whether values of 8 bits of mantissa influence the results.
    pub coarse: bool,
}

struct Writer {
    trace: TraceRef,
    random: Random,
    inputs: HashMap<String, Array>,
    /// Float values so far, and whether each is exact.
    pool: Vec<(Tensor, bool)>,
    /// `f32` inputs: data and states.
    leaves: Vec<(Tensor, InputKind)>,
    key: Tensor,
    coarse: bool,
}

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    let trace = Trace::new();
    let (inputs, coarse) = {
        let mut inputs = HashMap::new();
        inputs.insert(
            "key".to_string(),
            Array::new(Type::new(DType::U32, &[2]), vec![seed as f64, 77.0]),
        );
        let key = trace.input("key", DType::U32, &[2]);
        let random = Random::new(seed);
        let mut writer = Writer {
            trace: *trace,
            random,
            inputs,
            pool: vec![],
            leaves: vec![],
            key,
            coarse: false,
        };
        for _ in 0..2 {
            let shape = shape(&mut writer.random);
            writer.leaf(&shape);
        }
        for _ in 0..4 + writer.random.below(9) {
            writer.step();
        }
        writer.finish();
        if seed.is_multiple_of(16) {
            writer.along_rows();
            writer.turns();
        }
        (writer.inputs, writer.coarse)
    };
    Program {
        graph: trace.finish(),
        inputs,
        coarse,
    }
}

impl Writer {
    fn leaf(&mut self, shape: &[usize]) -> Tensor {
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

    fn data(&mut self, array: Array) -> Tensor {
        if self.random.chance(20) {
            return self.trace.constant(array);
        }
        let name = format!("data{}", self.inputs.len());
        let input = self.trace.input(&name, array.ty.dtype, &array.ty.shape);
        self.inputs.insert(name, array);
        input
    }

    fn push(&mut self, value: Tensor, exact: bool) {
        if value.ty().numel() <= LIMIT {
            self.pool.push((value, exact));
        }
    }

    /// A value of the pool, more often a late one.
    fn value(&mut self) -> (Tensor, bool) {
        let n = self.pool.len();
        let at = self.random.below(n).max(self.random.below(n));
        self.pool[at]
    }

    /// An exact value: one of the pool that is, else a new leaf.
    fn exact(&mut self) -> Tensor {
        let (value, exact) = self.value();
        if exact {
            return value;
        }
        let shape = value.shape();
        self.leaf(&shape)
    }

    /// A value of at least this rank.
    fn ranked(&mut self, rank: usize) -> (Tensor, bool) {
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

    fn axis(&mut self, x: Tensor) -> usize {
        self.random.below(x.rank())
    }

    /// A partner that broadcasts with `x`.
    fn partner(&mut self, x: Tensor) -> (Tensor, bool) {
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
        let choice = self.random.below(30);
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
            23 | 24 => self.embedding(),
            25 => self.images(),
            26 => self.moments(),
            27 => self.by_outputs(),
            28 => self.recurrent(),
            _ => self.cache(),
        }
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
        let leaves = self.leaves.clone();
        let wrt: Vec<Tensor> = leaves.iter().map(|l| l.0).collect();
        let gradients = loss.grad(&wrt);
        for (i, ((leaf, kind), gradient)) in leaves.into_iter().zip(gradients).enumerate() {
            if kind == InputKind::State && i % 4 != 3 {
                self.update(leaf, gradient);
            } else {
                self.trace.output(&format!("gradient{i}"), gradient);
            }
        }
    }

    /// Positions, orders and sums along the last axis of the first leaf. Draws nothing, so that the programs of all
    /// seeds stay what they are without it.
    fn along_rows(&mut self) {
        let (x, _) = self.leaves[0];
        if x.rank() == 0 || x.ty().numel() == 0 {
            return;
        }
        let (most, ids) = x.topk(x.dim(-1).min(2), -1, true);
        self.trace.output("most", most);
        self.trace.output("place", x.argmax(-1).cast(DType::F32));
        self.trace.output("running", x.cumsum(-1));
        self.trace.output("taken", x.take_along(-1, ids));
        self.trace.output("added", x.scatter_add_along(-1, ids, most));
    }

    /// Running means of the slices of the first leaf, by a scan. Draws nothing, either.
    fn turns(&mut self) {
        let (x, _) = self.leaves[0];
        let shape = x.shape();
        let Some((&turns, slice)) = shape.split_first().filter(|_| x.ty().numel() > 0) else {
            return;
        };
        let start = x.slice(0, 0, 1).reshape(slice);
        let (last, all) = self.trace.scan(turns, &[start], &[x], |mean, x| {
            let mean = (mean[0] + x[0]) * 0.5;
            (vec![mean], vec![mean])
        });
        self.trace.output("last_turn", last[0]);
        self.trace.output("turns", all[0]);
    }
}
