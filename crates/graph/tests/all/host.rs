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
