//! Conversions between all dtypes, against the rules written with Rust's own conversions.

use super::support::*;
use lessen_cpu::kernels::elementwise::cast::cast;
use lessen_cpu::kernels::{Element, Rows};
use lessen_graph::DType;

/// Converts one run of elements.
fn run<A: Element, B: Element>(from: DType, to: DType, x: &[A]) -> Vec<B> {
    let mut y = vec![B::default(); x.len()];
    let c = x.len();
    let x = Rows::dense(x.as_ptr().cast_mut(), c).cast::<u8>();
    // SAFETY: one row of this many elements on both sides.
    unsafe { cast(from, to, 1, c, x, Rows::dense(y.as_mut_ptr(), c).cast::<u8>()) };
    y
}

/// To bf16: the nearer of the two neighbours, the even one in the middle.
fn bf16(x: f32) -> u16 {
    if x.is_nan() {
        return ((x.to_bits() >> 16) | 0x40) as u16;
    }
    let (low, rest) = (x.to_bits() >> 16, x.to_bits() & 0xffff);
    let up = rest > 0x8000 || (rest == 0x8000 && low % 2 == 1);
    (low + u32::from(up)) as u16
}

#[test]
fn floats_to_everything() {
    at_all_levels(|_| {
        let mut random = Random::new(1);
        let mut x = EXTREMES.to_vec();
        x.extend((0..5000).map(|_| f32::from_bits(random.number() as u32)));
        x.extend((0..500).map(|_| random.unit_f32() * 1e5));
        // In the middle between two neighbours, and beside it.
        x.extend([0x3f80_8000, 0x3f81_8000, 0x3f80_8001, 0x3f80_7fff, 0x7f7f_8000].map(f32::from_bits));
        let bits = |v: Vec<f32>| v.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        assert_eq!(bits(run(DType::F32, DType::F32, &x)), bits(x.clone()));
        let wide: Vec<f64> = run(DType::F32, DType::F64, &x);
        assert!(
            wide.iter()
                .zip(&x)
                .all(|(w, x)| *w == f64::from(*x) || (w.is_nan() && x.is_nan()))
        );
        let same = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
        assert!(same(&run::<f64, f32>(DType::F64, DType::F32, &wide), &x));
        assert_eq!(
            run::<f32, i32>(DType::F32, DType::I32, &x),
            x.iter().map(|&x| x as i32).collect::<Vec<_>>()
        );
        assert_eq!(
            run::<f32, u32>(DType::F32, DType::U32, &x),
            x.iter().map(|&x| x as u32).collect::<Vec<_>>()
        );
        assert_eq!(
            run::<f32, u8>(DType::F32, DType::U8, &x),
            x.iter().map(|&x| x as u8).collect::<Vec<_>>()
        );
        let truth: Vec<u8> = x.iter().map(|&x| u8::from(x != 0.0)).collect();
        assert_eq!(run::<f32, u8>(DType::F32, DType::Bool, &x), truth);
        let halves: Vec<u16> = run(DType::F32, DType::BF16, &x);
        assert_eq!(halves, x.iter().map(|&x| bf16(x)).collect::<Vec<_>>());
        assert_eq!(run::<f64, u16>(DType::F64, DType::BF16, &wide), halves);
        let back: Vec<f32> = run(DType::BF16, DType::F32, &halves);
        assert!(
            back.iter()
                .zip(&halves)
                .all(|(b, &h)| b.to_bits() == u32::from(h) << 16)
        );
        assert_eq!(
            run::<u16, i32>(DType::BF16, DType::I32, &halves),
            back.iter().map(|&x| x as i32).collect::<Vec<_>>()
        );
    });
}

#[test]
fn integers_and_truth_values() {
    at_all_levels(|_| {
        let x = [0, 1, -1, 255, 256, i32::MAX, i32::MIN, 16_777_217, -5];
        assert_eq!(run::<i32, f32>(DType::I32, DType::F32, &x), x.map(|x| x as f32));
        assert_eq!(run::<i32, f64>(DType::I32, DType::F64, &x), x.map(f64::from));
        assert_eq!(run::<i32, u32>(DType::I32, DType::U32, &x), x.map(|x| x as u32));
        assert_eq!(run::<i32, u8>(DType::I32, DType::Bool, &x), x.map(|x| u8::from(x != 0)));
        assert_eq!(run::<i32, u16>(DType::I32, DType::BF16, &x), x.map(|x| bf16(x as f32)));
        assert_eq!(run::<i32, u8>(DType::I32, DType::U8, &x), x.map(|x| x as u8));
        let u = x.map(|x| x as u32);
        assert_eq!(run::<u32, f32>(DType::U32, DType::F32, &u), u.map(|x| x as f32));
        assert_eq!(run::<u32, f64>(DType::U32, DType::F64, &u), u.map(f64::from));
        assert_eq!(run::<u32, i32>(DType::U32, DType::I32, &u), x);
        assert_eq!(run::<u32, u8>(DType::U32, DType::U8, &u), u.map(|x| x as u8));
        let bytes = [0u8, 1, 128, 255];
        assert_eq!(run::<u8, f32>(DType::U8, DType::F32, &bytes), [0.0, 1.0, 128.0, 255.0]);
        assert_eq!(run::<u8, f64>(DType::U8, DType::F64, &bytes), [0.0, 1.0, 128.0, 255.0]);
        assert_eq!(run::<u8, i32>(DType::U8, DType::I32, &bytes), [0, 1, 128, 255]);
        assert_eq!(run::<u8, u32>(DType::U8, DType::U32, &bytes), [0, 1, 128, 255]);
        assert_eq!(run::<u8, u8>(DType::U8, DType::Bool, &bytes), [0, 1, 1, 1]);
        assert_eq!(
            run::<u8, u16>(DType::U8, DType::BF16, &bytes),
            bytes.map(|x| bf16(x.into()))
        );
        let b = [0u8, 1, 2, 0, 255];
        assert_eq!(run::<u8, f32>(DType::Bool, DType::F32, &b), [0.0, 1.0, 1.0, 0.0, 1.0]);
        assert_eq!(run::<u8, i32>(DType::Bool, DType::I32, &b), [0, 1, 1, 0, 1]);
        assert_eq!(
            run::<u8, u16>(DType::Bool, DType::BF16, &b),
            [0, 0x3f80, 0x3f80, 0, 0x3f80]
        );
    });
}

#[test]
fn strides_and_in_place() {
    at_all_levels(|_| {
        for (n, c) in SIZES {
            for from in READABLE {
                for to in WRITABLE {
                    let mut next = -2.75f32;
                    let mut x = Block::new(n, c, from, || {
                        next += 1.0;
                        next
                    });
                    let mut y = Block::new(n, c, to, || 77i32);
                    let before = y.clone();
                    // SAFETY: the blocks have these sizes.
                    unsafe { cast(DType::F32, DType::I32, n, c, x.rows().cast(), y.rows().cast()) };
                    assert_eq!(y.values(), x.values().iter().map(|&x| x as i32).collect::<Vec<_>>());
                    assert!(y.same_gaps(&before));
                }
            }
        }
        let mut x: Vec<f32> = (0..150).map(|i| i as f32 - 70.5).collect();
        let expected: Vec<u32> = x.iter().map(|&x| (x as i32) as u32).collect();
        let rows = Rows::dense(x.as_mut_ptr(), 150).cast::<u8>();
        // SAFETY: one row, in place, of types of the same size.
        unsafe { cast(DType::F32, DType::I32, 1, 150, rows, rows) };
        assert_eq!(x.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), expected);
    });
}
