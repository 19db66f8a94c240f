//! Arrays in the host's memory.

use lessen_graph::Host;

#[test]
fn a_slice_becomes_an_array_of_its_dtype() {
    let mask = [true, false, true];
    assert_eq!(Host::from(&mask[..]), Host::Bool(&[1, 0, 1]));
    assert_eq!(Host::from(&[1u8, 0][..]), Host::U8(&[1, 0]));
    assert_eq!(Host::from(&[1.5f32][..]), Host::F32(&[1.5]));
    assert_eq!(Host::from(&[1.5f64][..]), Host::F64(&[1.5]));
    assert_eq!(Host::from(&[-1i32][..]), Host::I32(&[-1]));
    assert_eq!(Host::from(&[1u32][..]), Host::U32(&[1]));
}

#[test]
fn vectors_and_arrays_become_arrays_of_their_dtype() {
    let (images, labels) = (vec![0.5f32, 1.0], [3, 4, 5]);
    let inputs: [(&str, Host<'_>); 2] = [("images", (&images).into()), ("labels", (&labels).into())];
    assert_eq!(inputs[0].1, Host::F32(&images));
    assert_eq!(inputs[1].1, Host::I32(&labels));
    assert_eq!(Host::from(&vec![true, false]), Host::Bool(&[1, 0]));
    assert_eq!(Host::from(&[2u32; 2]), Host::U32(&[2, 2]));
    assert_eq!(Host::from(&Vec::<f64>::new()), Host::F64(&[]));
    assert_eq!(Host::from(&[7u8]), Host::U8(&[7]));
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays_of_ndarray_become_arrays_where_they_lie_in_row_major_order() {
    use ndarray::{Array3, arr0, array, s};

    let x = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    assert_eq!(Host::try_from(&x).unwrap(), Host::F32(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert_eq!(
        Host::try_from(&x.slice(s![1.., ..])).unwrap(),
        Host::F32(&[4.0, 5.0, 6.0])
    );
    assert_eq!(Host::try_from(&array![true, false]).unwrap(), Host::Bool(&[1, 0]));
    assert_eq!(Host::try_from(&arr0(3i32)).unwrap(), Host::I32(&[3]));
    assert_eq!(
        Host::try_from(&Array3::<f64>::zeros((2, 0, 3))).unwrap(),
        Host::F64(&[])
    );
    for error in [Host::try_from(&x.t()), Host::try_from(&x.slice(s![.., ..2]))].map(Result::unwrap_err) {
        let (sentence, code) = (error.to_string(), error.exit_code());
        assert!(
            sentence.contains("row-major") && sentence.contains("as_standard_layout"),
            "{sentence}"
        );
        assert_eq!(code, 2);
    }
    let copied = x.t();
    let copied = copied.as_standard_layout();
    assert_eq!(
        Host::try_from(&copied).unwrap(),
        Host::F32(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0])
    );
}
