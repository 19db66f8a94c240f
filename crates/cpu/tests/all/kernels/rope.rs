//! Rotary position embeddings against plain `f64`.

use super::support::*;
use lessen_cpu::kernels::elementwise::rope::{Rotation, rope};
use lessen_graph::ops::Rope;
use lessen_graph::ops::attention::RopeScaling;

#[test]
fn pairs_are_rotated_in_all_strides() {
    at_all_levels(|_| {
        let mut random = Random::new(4);
        let positions = [0, 1, -3, 77, 4096, 1_000_000, i32::MAX];
        for (heads, width) in [(1, 2), (3, 10), (2, 64), (1, 130), (2, 256)] {
            for inverse in [false, true] {
                let op = Rope {
                    base: 10000.0,
                    scaling: RopeScaling::None,
                    inverse,
                };
                let sign = if inverse { -1.0 } else { 1.0 };
                let frequencies: Vec<f64> = op.frequencies(width).iter().map(|f| sign * f).collect();
                for (first, n) in [(0, 7), (5, 3), (16, 9)] {
                    for lie in WRITABLE {
                        let mut x = random_block(&mut random, n, heads * width, lie, 3.0);
                        let mut y = x.clone();
                        let rotation = Rotation {
                            frequencies: &frequencies,
                            heads,
                            positions: &positions,
                            first,
                        };
                        let what = format!("{n} rows of {heads} heads of {width}, {lie:?}");
                        let (mut expected, mut plain) = (vec![], vec![]);
                        for (r, row) in x.values().chunks(heads * width).enumerate() {
                            let position = positions[(first + r) % positions.len()];
                            for head in row.chunks(width) {
                                let (a, b) = head.split_at(width / 2);
                                let pair = |i: usize, second: bool| {
                                    let (sin, cos) = (f64::from(position) * frequencies[i]).sin_cos();
                                    let (x, y) = if second { (b[i], a[i]) } else { (a[i], -b[i]) };
                                    let exact = f64::from(x) * cos + f64::from(y) * sin;
                                    (exact, x * cos as f32 + y * sin as f32)
                                };
                                for second in [false, true] {
                                    for i in 0..width / 2 {
                                        let (e, p) = pair(i, second);
                                        expected.push(e);
                                        plain.push(p);
                                    }
                                }
                            }
                        }
                        // SAFETY: the blocks have these sizes; the result lies where the input lies.
                        unsafe { rope(rotation, n, y.rows(), y.rows()) };
                        assert_close(&what, &y.values(), &plain, &expected, 3.0);
                        assert!(y.same_gaps(&x), "{what}");
                        let mut apart = x.clone();
                        // SAFETY: as above, but apart.
                        unsafe { rope(rotation, n, x.rows(), apart.rows()) };
                        assert_eq!(apart.values(), y.values(), "{what}");
                    }
                }
            }
        }
    });
}
