//! Rows in 8 bits: codes, scales, restored rows, and numbers at the ends of the range.

use lessen_graph::ops::{DequantizeRows, QuantizeRows};
use lessen_graph::{Array, DType, Op, Type, evaluate_op};

use crate::prng::Prng;

const CODE: DType = DType::U8;
const MAX: f64 = f32::MAX as f64;
const INF: f64 = f64::INFINITY;

/// Codes, scales and restored rows.
fn quantized(x: &Array) -> [Array; 3] {
    let outputs: [Array; 2] = evaluate_op(&QuantizeRows, &[x]).unwrap().try_into().unwrap();
    let [codes, scale] = outputs;
    let y = evaluate_op(&DequantizeRows, &[&codes, &scale]).unwrap().remove(0);
    [codes, scale, y]
}

#[test]
fn each_row_has_a_scale_and_codes_are_rounded_to_even() {
    let rows = [
        [127.0, 0.5, 1.5, -2.5, -127.0],
        [0.0, -0.0, 4.0, -254.0, 253.0],
        [0.0; 5],
    ];
    let [codes, scale, y] = quantized(&Array::f32(&[3, 5], rows.concat()));
    assert_eq!((codes.ty, scale.ty), (Type::new(CODE, &[3, 5]), Type::f32(&[3])));
    assert_eq!(scale.data, [1.0, 2.0, 0.0]);
    let expected = [
        [255.0, 128.0, 130.0, 126.0, 1.0],
        [128.0, 128.0, 130.0, 1.0, 254.0],
        [128.0; 5],
    ];
    assert_eq!(codes.data, expected.concat());
    let restored = [
        [127.0, 0.0, 2.0, -2.0, -127.0],
        [0.0, 0.0, 4.0, -254.0, 252.0],
        [0.0; 5],
    ];
    assert_eq!(y.data, restored.concat());
}

#[test]
fn restored_rows_are_within_the_error() {
    let seed = 51;
    let r = &mut Prng::new(seed);
    for (shape, dtype) in [([40, 33], DType::F32), ([300, 1], DType::F32), ([7, 130], DType::BF16)] {
        let x = r.normal(&shape);
        let ty = Type::new(dtype, &shape);
        let x = Array::from_fn(ty, |i| dtype.round(x.at(i) * 10f64.powi(3 * i[0] as i32 % 30 - 15)));
        let [codes, _, y] = quantized(&x);
        assert!(
            codes.data.iter().all(|code| (1.0..=255.0).contains(code)),
            "seed {seed}"
        );
        for (x, y) in x.rows().zip(y.rows()) {
            let most = x.iter().fold(0f64, |most, x| most.max(x.abs()));
            let near = |(x, y): (&f64, &f64)| (x - y).abs() <= QuantizeRows::ERROR * most;
            assert!(x.iter().zip(y).all(near), "seed {seed}, {x:?} became {y:?}");
        }
    }
}

#[test]
fn a_row_is_restored_as_finite_numbers_only_if_all_of_it_is() {
    for (x, scale) in [([1.0, f64::NAN, INF], f64::NAN), ([-INF, 0.0, 1.0], INF)] {
        let [codes, found, y] = quantized(&Array::f32(&[3], x.to_vec()));
        let found = found.item();
        assert!(found == scale || (found.is_nan() && scale.is_nan()), "{x:?}: {found}");
        assert_eq!(codes.data, [128.0; 3], "{x:?}");
        assert!(y.data.iter().all(|y| y.is_nan()), "{x:?} became {y:?}");
    }
    let [codes, scale, y] = quantized(&Array::f32(&[3], vec![MAX, -MAX, 0.0]));
    assert_eq!(
        (codes.data, scale.item()),
        (vec![255.0, 1.0, 128.0], QuantizeRows::MOST_SCALE.into())
    );
    assert!(
        y.data[0] <= MAX && MAX - y.data[0] <= 1e-6 * MAX && y.data[1] == -y.data[0],
        "{y:?}"
    );
}

#[test]
fn rows_of_tiny_numbers_count_as_zeros() {
    let least = 127.0 * f64::from(QuantizeRows::LEAST_SCALE);
    let x = [least, -least, 0.0, least * 0.9, least * -0.4, 1e-45];
    let [codes, scale, y] = quantized(&Array::f32(&[2, 3], x.map(|x| f64::from(x as f32)).to_vec()));
    assert_eq!(codes.data, [255.0, 1.0, 128.0, 128.0, 128.0, 128.0]);
    assert_eq!(scale.data, [QuantizeRows::LEAST_SCALE.into(), 0.0]);
    assert_eq!(y.data, [least, -least, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn other_types_are_refused() {
    let codes = |shape: &[usize]| Type::new(CODE, shape);
    for x in [
        codes(&[2, 3]),
        Type::new(DType::F64, &[2, 3]),
        Type::f32(&[]),
        Type::f32(&[2, 0]),
    ] {
        let error = QuantizeRows.infer(std::slice::from_ref(&x)).unwrap_err().to_string();
        assert!(
            error.contains("rows of f32 or bf16") && error.contains(&x.to_string()),
            "{error}"
        );
    }
    for (codes, scale) in [
        (codes(&[2, 3]), Type::f32(&[3])),
        (codes(&[2, 3]), Type::new(DType::F64, &[2])),
        (Type::f32(&[2, 3]), Type::f32(&[2])),
        (codes(&[]), Type::f32(&[])),
    ] {
        let error = DequantizeRows
            .infer(&[codes.clone(), scale.clone()])
            .unwrap_err()
            .to_string();
        assert!(error.contains(&format!("{codes} and {scale}")), "{error}");
    }
}
