//! CPU levels: one level is chosen, and the levels with a fused multiply-add give the same bits.

use super::support::*;
use lessen_cpu::kernels::elementwise::{activation, activation_from_output, operators, random};
use lessen_cpu::kernels::norms::{cross_entropy, norm, norm_from_output, scale_shift_from_output, softmax};
use lessen_cpu::kernels::sums::reduce;
use lessen_cpu::kernels::{Rows, optimizer};
use lessen_cpu::simd::{CpuSet, Feature};
use lessen_graph::ops::{ReduceKind, UnaryKind};

/// The bits of the results of many kernels on the same numbers.
fn results() -> Vec<u32> {
    let (n, c) = (3, 333);
    let mut random = Random::new(9);
    let mut x = random.vec(n * c, 6.0);
    let (gamma, beta) = (random.vec(c, 1.0), random.vec(c, 1.0));
    let (mut a, mut b, mut sums) = (vec![0.0; n], vec![0.0; n], vec![0.0; 2 * c]);
    let (labels, mut side) = ([5, 7, 9], 0u8);
    let mut all = vec![];
    let rows = Rows::dense(x.as_mut_ptr(), c);
    let mut y = vec![0.0f32; n * c];
    let yr = Rows::dense(y.as_mut_ptr(), c);
    let mut keep = |y: &[f32]| all.extend(y.iter().map(|y| y.to_bits()));
    let (ap, bp, sp) = (a.as_mut_ptr(), b.as_mut_ptr(), sums.as_mut_ptr());
    let (gp, tp) = (gamma.as_ptr(), beta.as_ptr());
    // SAFETY: all blocks have `n` rows of `c` elements, and results lie apart from the operands.
    unsafe {
        for kind in UnaryKind::ALL {
            operators::unary(kind, n, c, rows, yr);
            keep(&y);
        }
        for tanh in [false, true] {
            activation::gelu(tanh, n, c, rows, yr);
            keep(&y);
            activation::gelu_backward(tanh, n, c, rows, rows, yr);
            keep(&y);
        }
        activation::silu_backward(n, c, rows, rows, yr);
        keep(&y);
        let side = Rows::scalar(&mut side);
        activation_from_output::backward_from_output(activation_from_output::Gelu, n, c, rows, side, rows, yr);
        keep(&y);
        activation_from_output::backward_from_output(activation_from_output::Silu, n, c, rows, side, rows, yr);
        keep(&y);
        norm::layer_norm(n, c, rows, gp, tp, 1e-5, yr, ap, bp);
        keep(&y);
        norm::layer_norm_backward(n, c, rows, gp, ap, bp, rows, Some(yr), sp, sp.add(c));
        keep(&y);
        let (dgamma, dbeta) = (sp, sp.add(c));
        let columns = norm_from_output::Columns {
            gamma: gp,
            beta: tp,
            dgamma,
            dbeta,
        };
        norm_from_output::layer_norm_backward_from_output(n, c, rows, columns, bp, rows, yr);
        keep(&y);
        scale_shift_from_output::scale_shift_from_output(n, c, rows, gp, tp, tp, gp, yr);
        keep(&y);
        scale_shift_from_output::scale_shift_sums_from_output(n, c, rows, gp, tp, rows, dgamma, dbeta);
        softmax::softmax(n, c, rows, yr);
        keep(&y);
        cross_entropy::cross_entropy(n, c, rows, labels.as_ptr(), -1, 0.1, ap, bp);
        random::dropout(0.3, 1, [2, 3], 5, n, c, rows, yr);
        keep(&y);
        reduce::sum_cols(n, c, rows, sp);
        reduce::reduce_rows(ReduceKind::Sum, n, c, rows, yr.ptr);
        let k = optimizer::AdamWConstants {
            beta1: 0.9,
            beta2: 0.99,
            eps: 1e-8,
            weight_decay: 0.1,
        };
        let adam = lessen_graph::ops::Adam {
            beta1: k.beta1,
            beta2: k.beta2,
            eps: k.eps,
            weight_decay: k.weight_decay,
        };
        let x = optimizer::Operands {
            n: c,
            g: tp,
            p: gp,
            moments: [gp, x.as_ptr()],
            new_p: y.as_mut_ptr(),
            new_moments: [sp, sp.add(c)],
        };
        optimizer::adam(x, adam, 0.1, 2.0);
        keep(&y);
        let arrays = optimizer::AdamWArrays {
            old: [gp, gp, x.moments[1]],
            new: [y.as_mut_ptr(), sp, sp.add(c)],
        };
        optimizer::adamw(c, tp, arrays, 0.1, 2.0, k);
    }
    [&y, &a, &b, &sums].into_iter().for_each(|v| keep(v));
    all
}

#[test]
fn levels_with_fused_multiply_add_agree_to_the_bit() {
    let mut fused = vec![];
    at_all_levels(|set| {
        assert_eq!(CpuSet::current(), set);
        if set.has(Feature::Avx2) {
            fused.push(results());
        }
    });
    assert!(fused.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn a_set_holds_for_the_calls_of_one_thread() {
    let all = CpuSet::detect();
    assert_eq!(CpuSet::current(), all);
    CpuSet::BASELINE.on_this_thread(|| {
        assert_eq!(CpuSet::current(), CpuSet::BASELINE);
        let beside = std::thread::spawn(CpuSet::current).join().unwrap();
        assert_eq!(beside, all);
        assert!(CpuSet::ALL.on_this_thread(CpuSet::current).is_within(all));
        assert_eq!(CpuSet::current(), CpuSet::BASELINE);
    });
    assert_eq!(CpuSet::current(), all);
}
