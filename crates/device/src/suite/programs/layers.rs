//! Parts of networks in random programs: norms, dropout, embeddings, losses, attention, recurrent
//! networks, caches.

use lessen_graph::ops::attention::RopeScaling;
use lessen_graph::ops::temperature::{Clip, Temperature};
use lessen_graph::{Array, AttentionOptions, DType, InputKind, Tensor, Type, attention, numel};

use super::Writer;
use crate::suite::programs::sizes::LIMIT;

impl Writer {
    pub(super) fn rows(&mut self) {
        let (x, _) = self.ranked(1);
        let n = x.dim(-1);
        let y = match self.random.below(6) {
            0 => x.softmax(),
            1 => x.log_softmax() * 0.3,
            // Without the floor, two almost equal elements would magnify errors.
            2 => x.norm_logits(Temperature {
                clip: Clip::AtLeast(1.0),
                ..Temperature::default()
            }),
            3 => {
                let (gamma, beta) = (self.leaf(&[n]), self.leaf(&[n]));
                x.layer_norm(gamma, beta, 0.05)
            }
            4 => {
                let gamma = self.leaf(&[n]);
                x.crms_norm(gamma, 0.05)
            }
            _ => {
                let gamma = self.leaf(&[n]);
                x.rms_norm(gamma, 0.05)
            }
        };
        self.push(y, false);
    }

    pub(super) fn dropout(&mut self) {
        let (x, _) = self.ranked(1);
        let y = if self.random.chance(70) {
            x.dropout(self.random.pick(&[0.1, 0.5]), self.key)
        } else {
            let bits = self.key.random_bits(&x.shape());
            x * (bits.cast(DType::F32) * (1.0 / 4294967296.0))
        };
        self.push(y, false);
    }

    pub(super) fn indexed(&mut self) {
        let (x, exact) = self.ranked(1);
        let n = x.shape()[0];
        let gathers = self.random.chance(60);
        if gathers {
            let wide = self.random.chance(30);
            let shape = if wide {
                vec![self.random.pick(&[1, 140])]
            } else {
                vec![2, self.random.pick(&[1, 3])]
            };
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

    /// A table that nothing else reads, larger than what is read of it.
    pub(super) fn embedding(&mut self) {
        let (rows, width) = (self.random.pick(&[30, 150]), self.random.pick(&[1, 5, 70]));
        let name = format!("leaf{}", self.leaves.len());
        let array = self.random.array(&[rows, width], 1.0);
        self.inputs.insert(name.clone(), array);
        let table = self.trace.state(&name, DType::F32, &[rows, width]);
        self.leaves.push((table, InputKind::State));
        let ids = self.random.ids(&[2, 2], rows.min(5));
        let ids = self.data(ids);
        self.push(table.gather(ids), true);
    }

    pub(super) fn cross_entropy(&mut self) {
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

    pub(super) fn attention(&mut self) {
        let [b, tq, h, d] = [[1, 2, 3].as_slice(), &[1, 3, 20, 70], &[1, 2], &[1, 4, 6]].map(|of| self.random.pick(of));
        let causal = self.random.chance(50);
        let tk = if causal || self.random.chance(50) {
            tq
        } else {
            self.random.pick(&[1, 5, 66])
        };
        let dv = if self.random.chance(30) { d + 1 } else { d };
        let merged = self.leaf(&[b, tq, 3 * h * d]);
        let heads: Vec<Tensor> = merged
            .split(-1, &[h * d; 3])
            .iter()
            .map(|t| t.reshape(&[b, tq, h, d]))
            .collect();
        let q = if d % 2 == 0 && self.random.chance(50) {
            let positions = Array::i32(&[tq], &(0..tq as i32).collect::<Vec<_>>());
            heads[0].rope(self.data(positions), 100.0, RopeScaling::Linear { factor: 2.0 })
        } else {
            heads[0]
        };
        let k = if tk == tq && self.random.chance(60) {
            heads[1]
        } else {
            self.leaf(&[b, tk, h, d])
        };
        let v = if tk == tq && dv == d && self.random.chance(60) {
            heads[2]
        } else {
            self.leaf(&[b, tk, h, dv])
        };
        let mask = self.random.chance(50).then(|| {
            let mut visible = Array::from_fn(Type::new(DType::Bool, &[b, tk]), |_| f64::from(self.random.chance(70)));
            visible.data[0] = 1.0;
            self.data(visible)
        });
        let dropout = self.random.chance(40).then_some((0.2, self.key));
        let y = attention(
            q,
            k,
            v,
            AttentionOptions {
                causal,
                mask,
                dropout,
                ..AttentionOptions::default()
            },
        );
        self.push(y, false);
    }

    pub(super) fn recurrent(&mut self) {
        let [b, t, n] = [[1, 2, 9].as_slice(), &[1, 3, 12], &[1, 5, 70]].map(|of| self.random.pick(of));
        let reverse = self.random.chance(50);
        let is_lstm = self.random.chance(50);
        let width = if is_lstm { 4 * n } else { 3 * n };
        let sums = self.leaf(&[b, t, width]);
        // Small enough that differences of states do not grow from step to step.
        let weight = self.leaf(&[width, n]) * (0.5 / (n as f64).sqrt());
        let h0 = self.leaf(&[b, n]);
        if is_lstm {
            let c0 = self.leaf(&[b, n]);
            let (h, c) = sums.lstm(weight, (h0, c0), reverse);
            self.push(c, false);
            self.push(h, false);
        } else {
            let bias = self.leaf(&[n]);
            self.push(sums.gru(weight, bias, h0, reverse), false);
        }
    }

    pub(super) fn cache(&mut self) {
        let (x, _) = self.ranked(1);
        let axis = self.axis(x);
        let mut shape = x.shape();
        shape[axis] = 1 + self.random.below(shape[axis]);
        let update = self.leaf(&shape);
        // One position, or one for each row.
        let rows = if axis > 0 && self.random.below(2) > 0 {
            Some(shape[0])
        } else {
            None
        };
        let positions: Vec<i32> = (0..rows.unwrap_or(1))
            .map(|_| self.random.below(12) as i32 - 1)
            .collect();
        let position = Array::i32(rows.as_slice(), &positions);
        let position = self.data(position);
        self.push(x.update_slice(update, position, axis as isize), false);
    }
}
