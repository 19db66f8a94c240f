//! Every operation applied to small random inputs of odd shapes.

use std::sync::Arc;

use lessen_graph::ops::attention::RopeScaling;
use lessen_graph::ops::temperature::{Clip, Temperature};
use lessen_graph::ops::*;
use lessen_graph::{Array, DType, Op, Ranks, Type};

use crate::along_rows;
use crate::attentions;
use crate::from_output;
use crate::images;
use crate::optimizers;
use crate::prng::Prng;
use crate::scans;

/// How often an operation can be differentiated, compared with central differences.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Smooth {
    /// Never: no float inputs, or no float outputs.
    No,
    /// Once.
    Once,
    /// Twice.
    Twice,
}

/// An operation with inputs.
pub struct Case {
    pub op: Arc<dyn Op>,
    pub inputs: Vec<Array>,
    pub smooth: Smooth,
    /// Sets of outputs that derivatives are taken of.
    pub outputs: Vec<Vec<usize>>,
}

pub(crate) fn case(op: impl Op, inputs: &[&Array], smooth: Smooth) -> Case {
    let types: Vec<Type> = inputs.iter().map(|a| a.ty.clone()).collect();
    let outputs = op.infer(&types).unwrap_or_else(|e| panic!("{}: {e}", op.name()));
    let all: Vec<usize> = (0..outputs.len()).filter(|&i| outputs[i].dtype.is_float()).collect();
    let sets = if all.len() > 1 { vec![vec![0], all] } else { vec![all] };
    Case {
        op: Arc::new(op),
        inputs: inputs.iter().map(|a| (*a).clone()).collect(),
        smooth,
        outputs: sets,
    }
}

/// All operations of the crate, several times where their attributes or shapes matter.
pub fn cases(seed: u64) -> Vec<Case> {
    let r = &mut Prng::new(seed);
    let mut all = elementwise(r);
    all.extend(structure(r));
    all.extend(along_rows::cases(r));
    all.extend(networks(r));
    all.extend(attentions::cases(r));
    all.extend(images::cases(r));
    let llama3 = RopeScaling::Llama3 {
        factor: 8.0,
        low: 1.0,
        high: 4.0,
        length: 40.0,
    };
    for (shape, scaling, inverse) in [
        ([2, 3, 2, 4], RopeScaling::None, false),
        ([1, 2, 1, 6], RopeScaling::Linear { factor: 2.5 }, true),
        ([1, 2, 1, 8], llama3, false),
    ] {
        let positions = Array::i32(&[shape[1]], &[-2, 700, 3][..shape[1]]);
        let op = Rope {
            base: 100.0,
            scaling,
            inverse,
        };
        all.push(case(op, &[&r.normal(&shape), &positions], Smooth::Twice));
    }
    all.extend(recurrent(r));
    all.extend(optimizers::cases(r));
    all.extend(from_output::cases(r));
    all.extend(scans::cases(r));
    all
}

fn elementwise(r: &mut Prng) -> Vec<Case> {
    use Smooth::*;
    let mut all = Vec::new();
    for kind in UnaryKind::ALL {
        let x = match kind {
            UnaryKind::Log | UnaryKind::Sqrt | UnaryKind::Rsqrt => r.floats(&[2, 3], 0.3, 2.0),
            _ => r.signed(&[2, 3]),
        };
        let smooth = match kind {
            UnaryKind::Floor | UnaryKind::Ceil | UnaryKind::Round | UnaryKind::Half => No,
            _ => Twice,
        };
        all.push(case(Unary { kind }, &[&x], smooth));
    }
    for kind in BinaryKind::ALL {
        let (a, b) = if kind == BinaryKind::Pow {
            (r.floats(&[3, 2], 0.4, 2.0), r.normal(&[3, 2]))
        } else {
            (r.signed(&[3, 2]), r.signed(&[3, 2]))
        };
        all.push(case(Binary { kind }, &[&a, &b], Twice));
    }
    for kind in CompareKind::ALL {
        all.push(case(Compare { kind }, &[&r.ids(&[7], 2), &r.ids(&[7], 2)], No));
    }
    let (x, y) = (r.signed(&[3, 5]), r.normal(&[3, 5]));
    all.push(case(Identity, &[&x], Twice));
    all.push(case(StopGradient, &[&x], No));
    // The cotangent is rounded to f32 on its way back, so that no difference of it can be taken.
    all.push(case(Cast { dtype: DType::F64 }, &[&x], Once));
    all.push(case(Cast { dtype: DType::BF16 }, &[&x], No));
    all.push(case(Cast { dtype: DType::I32 }, &[&x], No));
    all.push(case(Select, &[&r.bools(&[3, 5]), &x, &y], Twice));
    all.push(case(Helu { alpha: 0.5 }, &[&x], No));
    all.push(case(Relu, &[&x], Once));
    all.push(case(Clamp { low: -0.5, high: 0.8 }, &[&x], Once));
    all.push(case(Between { low: -0.5, high: 0.8 }, &[&x], No));
    all.push(case(Elu { alpha: 1.3 }, &[&x], Twice));
    all.push(case(Elu { alpha: -0.4 }, &[&x], Twice));
    all.push(case(LeakyRelu { slope: 0.3 }, &[&x], Twice));
    all.push(case(LeakyRelu { slope: -0.4 }, &[&x], Twice));
    all.push(case(Silu, &[&x], Twice));
    all.push(case(SiluBackward, &[&x, &y], Twice));
    for tanh in [false, true] {
        all.push(case(Gelu { tanh }, &[&x], Twice));
        all.push(case(GeluBackward { tanh }, &[&x, &y], Twice));
    }
    let (v, lr, t) = (r.floats(&[3, 5], 0.1, 0.5), Array::scalar(0.05), Array::scalar(3.0));
    let adamw = AdamW {
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-3,
        weight_decay: 0.1,
    };
    all.push(case(adamw, &[&x, &y, &r.normal(&[3, 5]), &v, &lr, &t], Twice));
    let (ids, g) = (Array::i32(&[2], &[2, 0]), r.normal(&[2, 5]));
    let rows = AdamWRows { rule: adamw };
    all.push(case(rows, &[&x, &ids, &g, &r.normal(&[3, 5]), &v, &lr, &t], Twice));
    for nesterov in [false, true] {
        let sgd = Sgd {
            momentum: 0.9,
            nesterov,
            weight_decay: 0.01,
        };
        all.push(case(sgd, &[&x, &y, &r.normal(&[3, 5]), &lr], Twice));
    }
    all.push(case(
        Dropout {
            p: 0.3,
            stream: 5,
            first: 11,
        },
        &[&x, &r.key()],
        Twice,
    ));
    all.push(case(
        RandomBits {
            stream: 2,
            shape: vec![3, 3],
        },
        &[&r.key()],
        No,
    ));
    all
}

fn structure(r: &mut Prng) -> Vec<Case> {
    let alone = Ranks {
        rank: 0,
        count: 1,
        leaves: 3,
    };
    use Smooth::*;
    let ty = Type::new(DType::I32, &[2, 3]);
    let x = r.normal(&[2, 3, 4]);
    let constant = Constant {
        array: Arc::new(r.normal(&[2, 2])),
    };
    let mut all = vec![
        case(
            Full {
                ty: ty.clone(),
                value: -0.0,
            },
            &[],
            No,
        ),
        case(constant, &[], No),
        case(Iota { ty, axis: 1 }, &[], No),
        case(
            Broadcast {
                shape: vec![2, 3, 2, 4],
            },
            &[&r.normal(&[3, 1, 4])],
            Twice,
        ),
        case(Reshape { shape: vec![6, 4] }, &[&x], Twice),
        case(Permute { axes: vec![2, 0, 1] }, &[&x], Twice),
        case(
            Slice {
                axis: 1,
                start: 1,
                len: 2,
            },
            &[&x],
            Twice,
        ),
        case(
            Slice {
                axis: 2,
                start: 0,
                len: 3,
            },
            &[&x],
            Twice,
        ),
        case(
            Pad {
                axis: 1,
                before: 1,
                after: 2,
                value: 0.5,
            },
            &[&x],
            Twice,
        ),
        case(
            Pad {
                axis: 1,
                before: 2,
                after: 0,
                value: 0.0,
            },
            &[&x],
            Twice,
        ),
        case(
            Pad {
                axis: 2,
                before: 0,
                after: 1,
                value: f64::INFINITY,
            },
            &[&x],
            No,
        ),
        case(AllReduce::new(alone), &[&x], Twice),
        case(
            ReduceScatter {
                rank: 0,
                ranks: 1,
                leaves: 3,
                block: 2,
            },
            &[&x],
            Twice,
        ),
        case(
            AllGather {
                rank: 0,
                ranks: 1,
                leaves: 3,
                block: 2,
                shape: vec![2, 3, 4],
                turn: 0,
            },
            &[&Array::f32(&[24], x.data.clone())],
            Twice,
        ),
        case(
            BroadcastFrom {
                rank: 0,
                ranks: 1,
                root: 0,
            },
            &[&x],
            Twice,
        ),
        case(Concat { axis: 1 }, &[&x, &r.normal(&[2, 1, 4]), &x], Twice),
        case(Concat { axis: 2 }, &[&x, &r.normal(&[2, 3, 1])], Twice),
        case(
            Split {
                axis: 2,
                sizes: vec![1, 3],
            },
            &[&x],
            Twice,
        ),
        case(
            Split {
                axis: 0,
                sizes: vec![1, 0, 1],
            },
            &[&x],
            Twice,
        ),
        case(Gather, &[&r.normal(&[5, 2]), &r.ids(&[2, 3], 5)], Twice),
        case(Gather, &[&r.normal(&[3, 2, 2]), &r.ids(&[], 3)], Twice),
        case(
            ScatterAdd { rows: 4 },
            &[&r.ids(&[2, 3], 4), &r.normal(&[2, 3, 2])],
            Twice,
        ),
        case(
            CombineRows { rows: 4 },
            &[&r.ids(&[2, 3], 4), &r.normal(&[2, 3, 2])],
            Twice,
        ),
        case(
            UpdateSlice { axis: 1 },
            &[&x, &r.normal(&[2, 2, 4]), &Array::i32(&[], &[1])],
            Twice,
        ),
        case(
            UpdateSlice { axis: 1 },
            &[&x, &r.normal(&[2, 2, 4]), &Array::i32(&[2], &[1, 0])],
            Twice,
        ),
        case(
            UpdateSlice { axis: 0 },
            &[&x, &r.normal(&[1, 3, 4]), &Array::i32(&[], &[9])],
            Twice,
        ),
    ];
    for kind in ReduceKind::ALL {
        for axes in [
            vec![],
            vec![0],
            vec![0, 1],
            vec![2],
            vec![1, 2],
            vec![0, 2],
            vec![0, 1, 2],
        ] {
            all.push(case(Reduce { kind, axes }, &[&x], Twice));
        }
    }
    let bins = Histogram {
        least: -2,
        most: 1,
        parts: 2,
    };
    all.push(case(bins, &[&x], No));
    let bools = Array::from_fn(Type::new(DType::Bool, &[2, 3, 40]), |i| {
        f64::from(i[2] % (2 + i[1]) == i[0])
    });
    all.push(case(PackBits, &[&bools], No));
    let words = Array::from_fn(Type::new(DType::U32, &[3, 2]), |i| {
        (0xA5C3_0F69u32 >> (i[0] + 3 * i[1])).into()
    });
    all.push(case(UnpackBits { width: 40 }, &[&words], No));
    all.push(case(QuantizeRows, &[&x], No));
    all.push(case(QuantizeByRange, &[&x], No));
    all.push(case(
        QuantizeLinear {
            scale: 0.0625,
            zero: 100,
        },
        &[&x],
        No,
    ));
    for (axis, extent) in [(0, 2), (1, 3), (2, 4)] {
        let scale = Array::from_fn(Type::f32(&[extent]), |i| 0.3 + 0.1 * i[0] as f64);
        let zero = Array::from_fn(Type::f32(&[extent]), |i| 3.0 + i[0] as f64);
        all.push(case(FakeQuantize::symmetric(4, axis), &[&x, &scale], No));
        all.push(case(FakeQuantize::unsigned(3, axis), &[&x, &scale, &zero], No));
    }
    let one = |number| Array::full(Type::f32(&[]), number);
    all.push(case(FakeQuantize::symmetric(8, 0), &[&x, &one(0.01)], No));
    all.push(case(FakeQuantize::unsigned(2, 0), &[&x, &one(0.7), &one(1.0)], No));
    let codes = Array::from_fn(Type::new(DType::U8, &[2, 3, 4]), |i| {
        ((101 * i[0] + 59 * i[1] + 83 * i[2]) % 256) as f64
    });
    let scale = Array::from_fn(Type::f32(&[2, 3]), |i| 0.01 * (1 + i[0] + 2 * i[1]) as f64);
    all.push(case(DequantizeRows, &[&codes, &scale], Twice));
    all.push(case(
        DequantizeLinear {
            scale: 0.0625,
            zero: 100,
        },
        &[&codes],
        No,
    ));
    let sum = AddCodes {
        left_scale: 0.0625,
        left_zero: 100,
        right_scale: 0.125,
        right_zero: 60,
        scale: 0.25,
        zero: 120,
    };
    let others = Array::from_fn(Type::new(DType::U8, &[2, 3, 4]), |i| {
        ((41 * i[0] + 97 * i[1] + 29 * i[2]) % 256) as f64
    });
    all.push(case(sum, &[&codes, &others], No));
    let weight = Array::from_fn(Type::new(DType::U8, &[5, 4]), |i| {
        ((71 * i[0] + 37 * i[1]) % 256) as f64
    });
    let weight_scale = Array::from_fn(Type::f32(&[5]), |i| 0.02 * (1 + i[0]) as f64);
    let factors = [&codes, &scale, &weight, &weight_scale];
    all.push(case(QuantizedMatMul::default(), &factors, Twice));
    let nibbles = Array::from_fn(Type::new(DType::U8, &[5, 32]), |i| {
        ((77 * i[0] + 41 * i[1]) % 256) as f64
    });
    let of_groups = Array::from_fn(Type::f32(&[5, 1]), |i| 0.03 * (1 + i[0]) as f64);
    let restores = DequantizeGroups { group: 32, columns: 4 };
    all.push(case(restores, &[&nibbles, &of_groups], No));
    all.push(case(
        GroupedMatMul { group: 32 },
        &[&codes, &scale, &nibbles, &of_groups],
        No,
    ));
    let bias = Array::i32(&[5], &[-70_000, 3, 0, 2_000_000, -1]);
    all.push(case(QuantizedMatMul::new(9), &[&factors[..], &[&bias]].concat(), Twice));
    all.push(case(IntegerMatMul { zero: 128 }, &[&codes, &weight], No));
    all.push(case(IntegerMatMul { zero: 0 }, &[&codes, &weight, &bias], No));
    let sum = [r.normal(&[4, 3]), r.normal(&[4, 2]), r.normal(&[3, 2])];
    all.push(case(AddMatMul::default(), &sum.each_ref(), Twice));
    for (transpose_a, transpose_b) in [(false, false), (false, true), (true, false), (true, true)] {
        let op = MatMul {
            transpose_a,
            transpose_b,
            ..Default::default()
        };
        let turned = |r: &mut Prng, lead: &[usize], rows: usize, columns: usize, transpose: bool| {
            let last = if transpose { [columns, rows] } else { [rows, columns] };
            r.normal(&[lead, &last].concat())
        };
        let (a, b) = (turned(r, &[2], 3, 4, transpose_a), turned(r, &[2], 4, 2, transpose_b));
        all.push(case(op, &[&a, &b], Twice));
        let (a, b) = (turned(r, &[], 3, 4, transpose_a), turned(r, &[], 4, 2, transpose_b));
        all.push(case(op, &[&a, &b], Twice));
        if !transpose_a {
            let (a, b) = (r.normal(&[2, 1, 3, 4]), turned(r, &[], 4, 2, transpose_b));
            all.push(case(op, &[&a, &b], Twice));
        }
    }
    all
}

fn networks(r: &mut Prng) -> Vec<Case> {
    use Smooth::*;
    let (x, y) = (r.normal(&[2, 2, 5]), r.normal(&[2, 2, 5]));
    let (gamma, beta, eps) = (r.normal(&[5]), r.normal(&[5]), 1e-2);
    let (mean, rstd) = (r.normal(&[2, 2]), r.floats(&[2, 2], 0.5, 2.0));
    let mut labels = r.ids(&[2, 2], 5);
    labels.data[2] = -7.0;
    let mut all = vec![
        case(Softmax, &[&x], Twice),
        case(SoftmaxBackward, &[&x, &y], Twice),
        case(LogSoftmax, &[&x], Twice),
        case(LayerNorm { eps }, &[&x, &gamma, &beta], Twice),
        case(LayerNormBackward { eps }, &[&x, &gamma, &mean, &rstd, &y], Twice),
        case(CrmsNorm { eps }, &[&x, &gamma], Twice),
        case(CrmsNormBackward, &[&x, &gamma, &rstd, &y], Twice),
        case(RmsNorm { eps }, &[&x, &gamma], Twice),
        case(RmsNormBackward { eps }, &[&x, &gamma, &rstd, &y], Twice),
    ];
    // Rows whose bounds hold and rows whose bounds do not; random rows deviate by about 1.
    for (centered, clip, tau) in [
        (true, Clip::AtMost(0.2), 1.0),
        (true, Clip::AtMost(30.0), 0.7),
        (true, Clip::AtLeast(0.1), 1.0),
        (true, Clip::AtLeast(9.0), 1.3),
        (false, Clip::AtMost(f64::INFINITY), 0.5),
    ] {
        let temperature = Temperature {
            centered,
            clip,
            tau,
            learned: false,
        };
        all.push(case(NormLogits { temperature }, &[&x], Twice));
        let slopes = r.floats(&[2, 2], 0.1, 0.3);
        all.push(case(NormLogitsBackward { centered }, &[&x, &rstd, &slopes, &y], Twice));
    }
    for smoothing in [0.0, 0.2] {
        all.push(case(CrossEntropy { ignore: -7, smoothing }, &[&x, &labels], Twice));
        let backward = CrossEntropyBackward { ignore: -7, smoothing };
        all.push(case(backward, &[&x, &r.normal(&[2, 2]), &labels, &mean], Twice));
    }
    all
}

fn recurrent(r: &mut Prng) -> Vec<Case> {
    use Smooth::*;
    let mut all = Vec::new();
    let torch = [0, 1, 2, 3];
    for (reverse, order, [batch, steps, n]) in [(false, torch, [1, 3, 2]), (true, [1, 0, 3, 2], [2, 2, 1])] {
        let state = || [batch, n];
        let (sums, weight) = (r.normal(&[batch, steps, 4 * n]), r.normal(&[4 * n, n]));
        let (h0, c0) = (r.normal(&state()), r.normal(&state()));
        all.push(case(Lstm { reverse, order }, &[&sums, &weight, &h0, &c0], Twice));
        let gates = r.floats(&[batch, steps, 4 * n], 0.1, 0.9);
        let states = [0; 3].map(|_| r.normal(&[batch, steps, n]));
        let [c, dh, dc] = states.each_ref();
        all.push(case(
            LstmBackward { reverse, order },
            &[&weight, &c0, c, &gates, dh, dc],
            Twice,
        ));
        let order = [order[0], order[1], 2];
        let (sums, weight) = (r.normal(&[batch, steps, 3 * n]), r.normal(&[3 * n, n]));
        all.push(case(
            Gru { reverse, order },
            &[&sums, &weight, &r.normal(&[n]), &h0],
            Twice,
        ));
        let gates = r.floats(&[batch, steps, 3 * n], 0.1, 0.9);
        let [h, m, dh] = states.each_ref();
        all.push(case(
            GruBackward { reverse, order },
            &[&weight, &h0, h, &gates, m, dh],
            Twice,
        ));
    }
    all
}
