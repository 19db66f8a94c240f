//! Products of codes of 8 and of 4 bits: near the reference evaluation, with the same bits at all levels.

use std::cell::OnceCell;

use super::support::*;
use lessen_cpu::kernels::Rows;
use lessen_cpu::kernels::codes::grouped_matmul::{Nibbles, grouped_matmul, scratch_bytes};
use lessen_graph::ops::GroupedMatMul;
use lessen_graph::{Array, DType, Type, evaluate_op};

/// Rows, `k`, columns and the group: extents that fill no lane, block or group, and groups of several blocks.
const SIZES: [(usize, usize, usize, usize); 7] = [
    (1, 1, 1, 32),
    (3, 7, 5, 32),
    (1, 64, 16, 32),
    (5, 130, 33, 64),
    (19, 768, 20, 128),
    (2, 1000, 3, 32),
    (5, 400, 9, 96),
];

#[test]
fn products_of_codes_of_4_bits_have_the_same_bits_at_all_levels() {
    for (n, k, c, group) in SIZES {
        let mut r = Random::new((n * 31 + k * 7 + c) as u64);
        let mut codes = |count: usize| -> Vec<u8> { (0..count).map(|_| r.below(256) as u8).collect() };
        let (rows, weight) = (codes(n * k), codes(c * k.div_ceil(64) * 32));
        let mut scales =
            |count: usize| -> Vec<f32> { (0..count).map(|_| 0.001 + r.below(1000) as f32 / 7e4).collect() };
        let (scale, of_groups) = (scales(n), scales(c * k.div_ceil(group)));
        let array = |ty: Type, all: Vec<f64>| Array::new(ty, all);
        let bytes = |all: &[u8]| all.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>();
        let floats = |all: &[f32]| all.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>();
        let inputs = [
            array(Type::new(DType::U8, &[n, k]), bytes(&rows)),
            array(Type::f32(&[n]), floats(&scale)),
            array(Type::new(DType::U8, &[c, k.div_ceil(64) * 32]), bytes(&weight)),
            array(Type::f32(&[c, k.div_ceil(group)]), floats(&of_groups)),
        ];
        let exact = evaluate_op(&GroupedMatMul { group }, &inputs.each_ref())
            .unwrap()
            .remove(0);
        let first: OnceCell<Vec<u32>> = OnceCell::new();
        at_all_levels(|level| {
            let mut y = vec![9f32; n * c];
            let mut scratch = vec![0u64; scratch_bytes(k).div_ceil(8)];
            let factors = Nibbles {
                k,
                group,
                codes: Rows::dense(rows.as_ptr().cast_mut(), k),
                scale: Rows::column(scale.as_ptr().cast_mut()),
                weight: weight.as_ptr(),
                weight_scale: of_groups.as_ptr(),
            };
            // SAFETY: the factors, the product and the scratch have these sizes.
            unsafe {
                let to = Rows::dense(y.as_mut_ptr(), c);
                grouped_matmul(n, 0..c, factors, to, scratch.as_mut_ptr().cast());
            }
            let most = exact.data.iter().fold(0f64, |most, x| most.max(x.abs()));
            for (found, exact) in y.iter().zip(&exact.data) {
                let error = (f64::from(*found) - exact).abs();
                assert!(
                    error <= 1e-5 * most.max(1e-3),
                    "{n} x {k} x {c} at {level:?}: {found}, {exact}"
                );
            }
            let bits: Vec<u32> = y.iter().map(|x| x.to_bits()).collect();
            let first = first.get_or_init(|| bits.clone());
            assert_eq!(*first, bits, "{n} x {k} x {c} at {level:?}");
        });
    }
}
