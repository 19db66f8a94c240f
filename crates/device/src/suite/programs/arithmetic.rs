//! Arithmetic, reductions, products, views and casts of random programs.

use lessen_graph::ops::{
    AddMatMul, Between, DequantizeGroups, FakeQuantize, GroupedMatMul, IntegerMatMul, MatMul, QuantizedMatMul,
};
use lessen_graph::{DType, concat, numel};

use super::Writer;
use crate::suite::programs::sizes::{LIMIT, order, reshaped, shape};

impl Writer {
    pub(super) fn smooth(&mut self) {
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

    pub(super) fn binary(&mut self) {
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

    pub(super) fn kinks(&mut self) {
        let x = self.exact();
        let (other, exact) = self.partner(x);
        let other = if exact { other } else { x.scalar_like(0.25) };
        let (y, exact) = match self.random.below(9) {
            0 if self.random.chance(40) => (x.helu(0.25), true),
            0 if self.random.chance(40) && x.rank() != 1 => (x.clamp(-0.25, 0.75), true),
            0 if x.rank() == 1 => {
                let scale = x.scalar_like(0.25);
                let codes = FakeQuantize::symmetric(4, 0);
                (x.stop_gradient().fake_quantize(codes, scale, None), true)
            }
            0 => (x.relu(), true),
            1 if self.random.chance(40) => (x.histogram(), true),
            1 if self.random.chance(40) => (x.leaky_relu(0.25), true),
            1 => (x.abs(), true),
            2 => (x.sign() * x, false),
            3 => (x.elu(0.7), false),
            4 => (x.maximum(other), true),
            5 => (x.minimum(other), true),
            6 => (x.gt(other).select(x.sin(), other), false),
            7 => {
                let below = x.le(other);
                let packed = below.rank() > 0 && self.random.chance(50);
                let below = if packed {
                    below.pack_bits().unpack_bits(below.dim(-1))
                } else {
                    below
                };
                let y = below.cast(DType::F32);
                if y.rank() > 0 && self.random.chance(30) {
                    // Rows of 0 and 1: no code is near to a tie.
                    if y.rank() > 1 && self.random.chance(50) {
                        let [codes, scale] = y.flatten_rows().quantize_rows();
                        let sums = codes.integer_matmul_t(codes, None, IntegerMatMul { zero: 128 });
                        let y = codes.quantized_matmul_t(scale, (codes, scale), None, QuantizedMatMul::default());
                        let op = GroupedMatMul { group: 32 };
                        let (rows, columns) = (y.dim(0), codes.dim(-1).div_ceil(64) * 32);
                        let nibbles = x.trace().full(DType::U8, &[rows, columns], 0x97.into());
                        let of_groups = x.trace().full(DType::F32, &[rows, codes.dim(-1).div_ceil(32)], 0.25);
                        let restores = DequantizeGroups {
                            group: 32,
                            columns: codes.dim(-1),
                        };
                        let restored = nibbles.dequantize_groups(of_groups, restores).sum_axes(&[1]);
                        let y = y + codes.grouped_matmul_t(scale, (nibbles, of_groups), op) + restored;
                        (y + sums.cast(DType::F32) / 16_129.0, false)
                    } else {
                        let [codes, scale] = y.quantize_rows();
                        let mut y = codes.dequantize_rows(scale);
                        if y.ty().numel() > 0 {
                            let [codes, scale, zero] = y.quantize_by_range();
                            y = (codes.cast(DType::F32) - zero.cast(DType::F32)) * scale;
                        }
                        let codes = y.quantize_linear(0.25, 7);
                        let half = codes.dequantize_linear(0.125, 7);
                        let sum = half + codes.dequantize_linear(0.125, 7);
                        (sum.quantize_linear(0.25, 7).dequantize_linear(0.25, 7), false)
                    }
                } else {
                    (y, true)
                }
            }
            _ => {
                let (low, high) = (-0.5, 0.5);
                let both = if self.random.chance(50) {
                    x.trace().apply1(Between { low, high }, &[x])
                } else {
                    x.lt(x.scalar_like(high)).and(x.ge(x.scalar_like(low)))
                };
                (both.select(x, x.scalar_like(2.0)), true)
            }
        };
        self.push(y, exact);
    }

    pub(super) fn reduce(&mut self) {
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

    pub(super) fn product(&mut self) {
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
        let y = self.trace.apply1(
            MatMul {
                transpose_a,
                transpose_b,
                ..Default::default()
            },
            &[a, b],
        );
        let y = y / (k as f64).sqrt();
        if transpose_a && !transpose_b && shape.len() == 2 {
            let further = self.trace.apply1(AddMatMul::default(), &[a, b, y]);
            self.push(further / (k as f64).sqrt(), false);
        }
        self.push(y, false);
    }

    pub(super) fn view(&mut self) {
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

    pub(super) fn join(&mut self) {
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

    pub(super) fn integers(&mut self) {
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

    pub(super) fn casts(&mut self) {
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
}
