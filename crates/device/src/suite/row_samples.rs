//! Samples of operations with kernels of rows: positions, orders and sums along an axis.

use lessen_graph::DType;
use lessen_graph::ops::{self, ReduceKind};

use super::sample::{Sample, sample};

/// The samples.
pub(super) fn row_samples() -> Vec<Sample> {
    let x: &[usize] = &[3, 7, 5];
    let mut all = vec![
        sample(ops::TakeAlong, &[x, &[3, 7, 9]]).with(1, DType::I32),
        sample(ops::TakeAlong, &[&[130, 3], &[130, 1]]).with(1, DType::I32),
        sample(ops::SumAlong { extent: 4 }, &[&[3, 70], &[3, 70]]).with(0, DType::I32),
    ];
    for largest in [false, true] {
        all.push(sample(ops::TopK { k: 3, largest }, &[x]));
        all.push(sample(ops::TopK { k: 70, largest }, &[&[5, 70]]));
    }
    for kind in [ReduceKind::Max, ReduceKind::Min] {
        all.push(sample(ops::ArgReduce { kind }, &[x]));
        all.push(sample(ops::ArgReduce { kind }, &[&[130, 70]]));
    }
    for kind in ops::CumulateKind::ALL {
        for (exclusive, reverse) in [(false, false), (false, true), (true, false), (true, true)] {
            let op = ops::Cumulate {
                kind,
                exclusive,
                reverse,
            };
            all.push(sample(op, &[x]));
        }
    }
    all
}
