//! How scores in lanes become weights.

use lessen_graph::ops::{Divisor, Weighting};

use super::head::Head;
use super::query_block::QueryBlock;
use crate::math::{exp_below_zero, sigmoid};
use crate::simd::Level;

/// The weights of scores: `e^(s - shift)` of a softmax, `max(s, 0)`, or `1 / (1 + e^(shift - s))`.
#[inline(always)]
pub(super) fn weights_of<L: Level, const W: usize>(
    weighting: &Weighting,
    mut s: [f32; W],
    shift: &[f32; W],
) -> [f32; W] {
    match weighting {
        Weighting::Softmax | Weighting::Norm(_) => {
            for i in 0..W {
                s[i] = exp_below_zero::<L>(s[i] - shift[i]);
            }
        }
        Weighting::Relu(_) => {
            for i in 0..W {
                s[i] = if s[i] <= 0.0 { 0.0 } else { s[i] };
            }
        }
        Weighting::Sigmoid(_) => {
            for i in 0..W {
                s[i] = sigmoid::<L>(s[i] - shift[i]);
            }
        }
    }
    s
}

/// Calls `with` with each query of a block and the divisor of its weights.
#[inline(always)]
pub(super) fn counts<const W: usize>(head: &Head, block: QueryBlock, by: Divisor, mut with: impl FnMut(usize, f32)) {
    let (mut seen, mut from) = (0, 0);
    for i in 0..block.n {
        let by = match by {
            Divisor::One => 1.0,
            Divisor::Constant(by) => by as f32,
            Divisor::Keys => {
                let end = head.visible(block.first + i);
                seen += head.shown(from..end);
                from = end;
                seen.max(1) as f32
            }
        };
        with(i, by);
    }
}
