//! Layouts of views.

use lessen_graph::Layout;

#[test]
fn reshape_of_dense_is_dense() {
    let dense = Layout::dense(&[2, 3, 4]);
    assert_eq!(dense.reshape(&[2, 3, 4], &[6, 4]).unwrap(), Layout::dense(&[6, 4]));
    assert_eq!(dense.reshape(&[2, 3, 4], &[2, 1, 12]).unwrap().strides[2], 1);
    assert_eq!(dense.reshape(&[2, 3, 4], &[24]).unwrap(), Layout::dense(&[24]));
}

#[test]
fn reshape_splits_a_slice_but_does_not_merge_it() {
    // Columns 4..8 of a [3, 12] array.
    let slice = Layout {
        offset: 4,
        strides: vec![12, 1],
    };
    let split = slice.reshape(&[3, 4], &[3, 2, 2]).unwrap();
    assert_eq!(
        split,
        Layout {
            offset: 4,
            strides: vec![12, 2, 1]
        }
    );
    assert!(slice.reshape(&[3, 4], &[12]).is_none());
    assert!(!slice.is_dense(&[3, 4]));
    assert!(slice.is_dense(&[1, 4]));
}

#[test]
fn reshape_of_broadcast_merges_broadcast_axes_only() {
    let rows = Layout {
        offset: 0,
        strides: vec![0, 0, 1],
    };
    assert_eq!(rows.reshape(&[2, 3, 4], &[6, 4]).unwrap().strides, vec![0, 1]);
    assert!(rows.reshape(&[2, 3, 4], &[2, 12]).is_none());
}

#[test]
fn reshape_without_elements_needs_no_copy() {
    for (from, to) in [
        (&[0, 2, 3][..], &[0, 3][..]),
        (&[2, 0, 3], &[0]),
        (&[2, 3, 0], &[5, 0, 7]),
    ] {
        let layout = Layout::dense(from).reshape(from, to).unwrap();
        assert!(
            layout.fits(to, 0) && layout.strides.len() == to.len(),
            "{from:?} to {to:?}"
        );
    }
}
