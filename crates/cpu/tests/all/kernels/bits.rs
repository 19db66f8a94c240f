//! Packed truth values against plain loops.

use super::support::*;
use lessen_cpu::kernels::codes::bits::{pack_bits, unpack_bits};

#[test]
fn bits_are_packed_in_order_and_taken_apart_again() {
    at_all_levels(|_| {
        let mut random = Random::new(6);
        for (n, c) in SIZES.into_iter().chain([(2, 31), (3, 32), (2, 33), (4, 96), (2, 300)]) {
            for lie in READABLE {
                // Whatever is not 0 is true.
                let mut x = Block::new(n, c, lie, || [0u8, 1, 1, 255][random.below(4)]);
                let words = c.div_ceil(32);
                for y_lie in WRITABLE {
                    let what = format!("{n}x{c} {lie:?} {y_lie:?}");
                    let mut packed = Block::new(n, words, y_lie, || 7u32);
                    let mut back = Block::new(n, c, y_lie, || 9u8);
                    let (before, back_before) = (packed.clone(), back.clone());
                    // SAFETY: the blocks have these sizes.
                    unsafe {
                        pack_bits(n, c, x.rows(), packed.rows());
                        unpack_bits(n, c, packed.rows(), back.rows());
                    }
                    for r in 0..n {
                        for w in 0..words {
                            let bits = (32 * w..c.min(32 * w + 32)).map(|i| u32::from(x.get(r, i) != 0) << (i % 32));
                            assert_eq!(packed.get(r, w), bits.sum::<u32>(), "{what}");
                        }
                        assert!((0..c).all(|i| back.get(r, i) == u8::from(x.get(r, i) != 0)), "{what}");
                    }
                    assert!(packed.same_gaps(&before) && back.same_gaps(&back_before), "{what}");
                }
            }
        }
    });
}
