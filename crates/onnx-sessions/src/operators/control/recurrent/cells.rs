//! One step of a recurrent network.

use super::activation::Activation;
use super::factor::Factor;
use crate::operators::products::kernel::add_product;
use crate::operators::real::Real;

/// What a step computes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CellKind {
    /// One sum.
    Rnn,
    /// Update gate, reset gate and candidate.
    Gru,
    /// Input gate, output gate, forget gate and candidate.
    Lstm,
}

impl CellKind {
    /// Sums for each hidden unit.
    pub fn gates(self) -> usize {
        match self {
            CellKind::Rnn => 1,
            CellKind::Gru => 3,
            CellKind::Lstm => 4,
        }
    }

    /// The activations of a direction where the node names none.
    pub fn activations(self) -> &'static [&'static str] {
        match self {
            CellKind::Rnn => &["Tanh"],
            CellKind::Gru => &["Sigmoid", "Tanh"],
            CellKind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// The parameters of one direction.
pub(super) struct Cell<R> {
    pub kind: CellKind,
    pub batch: usize,
    pub hidden: usize,
    /// The recurrent weights, transposed: a row for each hidden unit, the gates one after the other.
    pub weights: Factor<R>,
    /// The same for the candidate of a GRU, which has a product of its own; the gates' are in `weights`.
    pub candidate_weights: Vec<R>,
    /// The recurrent bias of the candidate of a GRU.
    pub candidate_bias: Vec<R>,
    /// Weights from the state to the gates: input, output, forget.
    pub peepholes: Option<Vec<R>>,
    pub activations: Vec<Activation<R>>,
    pub clip: Option<R>,
    pub has_coupled_gates: bool,
    pub resets_product: bool,
}

impl<R: Real> Cell<R> {
    /// The next hidden state of each member of the batch, from the input's part of the sums, with all biases. An LSTM
    /// changes its state `c` as well.
    ///
    /// `sums` has a row of gates for each member; `h` and `c` have a row of hidden units.
    pub fn step(&self, sums: &mut [R], h: &[R], c: &mut [R]) -> Vec<R> {
        match self.kind {
            CellKind::Rnn => {
                self.weights.add_to(sums, h, [self.batch, self.hidden, self.hidden]);
                sums.iter().map(|x| self.function(0, *x)).collect()
            }
            CellKind::Gru => self.gru(sums, h),
            CellKind::Lstm => self.lstm(sums, h, c),
        }
    }

    /// An activation of a sum.
    fn function(&self, number: usize, x: R) -> R {
        let x = match self.clip {
            Some(clip) if x > clip => clip,
            Some(clip) if x < -clip => -clip,
            _ => x,
        };
        self.activations[number].of(x)
    }

    fn gru(&self, sums: &mut [R], h: &[R]) -> Vec<R> {
        let (n, batch) = (self.hidden, self.batch);
        let mut gates = vec![R::ZERO; batch * 2 * n];
        self.weights.add_to(&mut gates, h, [batch, n, 2 * n]);
        for (row, gates) in sums.chunks_exact(3 * n).zip(gates.chunks_exact_mut(2 * n)) {
            gates
                .iter_mut()
                .zip(row)
                .for_each(|(gate, sum)| *gate = self.function(0, *gate + *sum));
        }
        let mut products = vec![R::ZERO; batch * n];
        if self.resets_product {
            products
                .chunks_exact_mut(n)
                .for_each(|row| row.copy_from_slice(&self.candidate_bias));
            add_product(h, &self.candidate_weights, &mut products, [batch, n, n]);
            for (row, gates) in products.chunks_exact_mut(n).zip(gates.chunks_exact(2 * n)) {
                row.iter_mut().zip(&gates[n..]).for_each(|(x, reset)| *x = *x * *reset);
            }
        } else {
            let mut left = Vec::with_capacity(batch * n);
            for (h, gates) in h.chunks_exact(n).zip(gates.chunks_exact(2 * n)) {
                left.extend(h.iter().zip(&gates[n..]).map(|(h, reset)| *h * *reset));
            }
            products
                .chunks_exact_mut(n)
                .for_each(|row| row.copy_from_slice(&self.candidate_bias));
            add_product(&left, &self.candidate_weights, &mut products, [batch, n, n]);
        }
        let mut next = Vec::with_capacity(batch * n);
        for (b, row) in sums.chunks_exact(3 * n).enumerate() {
            for unit in 0..n {
                let at = b * n + unit;
                let candidate = self.function(1, row[2 * n + unit] + products[at]);
                let update = gates[b * 2 * n + unit];
                next.push((R::ONE - update) * candidate + update * h[at]);
            }
        }
        next
    }

    fn lstm(&self, sums: &mut [R], h: &[R], c: &mut [R]) -> Vec<R> {
        let n = self.hidden;
        self.weights.add_to(sums, h, [self.batch, n, 4 * n]);
        let peephole = |gate: usize, unit: usize, c: R| match &self.peepholes {
            Some(weights) => weights[gate * n + unit] * c,
            None => R::ZERO,
        };
        let mut next = Vec::with_capacity(self.batch * n);
        for (row, c) in sums.chunks_exact(4 * n).zip(c.chunks_exact_mut(n)) {
            for unit in 0..n {
                let before = c[unit];
                let input = self.function(0, row[unit] + peephole(0, unit, before));
                let forget = if self.has_coupled_gates {
                    R::ONE - input
                } else {
                    self.function(0, row[2 * n + unit] + peephole(2, unit, before))
                };
                let candidate = self.function(1, row[3 * n + unit]);
                c[unit] = forget * before + input * candidate;
                let output = self.function(0, row[n + unit] + peephole(1, unit, c[unit]));
                next.push(output * self.activations[2].of(c[unit]));
            }
        }
        next
    }
}
