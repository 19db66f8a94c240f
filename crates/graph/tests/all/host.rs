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
