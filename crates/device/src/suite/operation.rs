//! One operation, of the library or from outside, against the reference evaluator.

use std::collections::BTreeSet;

use lessen_graph::Type;

use super::kernels::on_dense_inputs;
use super::random::Random;
use super::sample::Sample;
use super::views::in_views;
use super::{Found, NewDevice};

/// Rows and columns of inputs: one row, one column, and others that no width of vectors divides.
const SIZES: [[usize; 2]; 7] = [[1, 1], [1, 70], [3, 7], [7, 3], [33, 1], [5, 129], [130, 9]];

/// Checks on devices of 1, 2 and 3 workers that an operation computes what its evaluation does, or its decomposition
/// where it has one and is no standard operation. `sample` gives the operation and its inputs for a number of rows and
/// of columns; floats are `f32`. The inputs are random numbers of this seed, as they are and in views: permuted, cut,
/// repeated, apart. Indices are valid, other integers are below 3.
///
/// ```
/// use lessen_device::suite::{Sample, check_operation};
/// use lessen_device::ReferenceBackend;
/// use lessen_graph::{Type, ops::TopK};
///
/// let k_of = |columns: usize| columns.div_ceil(2);
/// check_operation(&|_| Box::new(ReferenceBackend::default()), 7, &|rows, columns| {
///     Sample::new(TopK { k: k_of(columns), largest: true }, &[Type::f32(&[rows, columns])])
/// })?;
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// A sentence with the seed, the graph and the first element that differs, or the error of the device.
pub fn check_operation(new: NewDevice<'_>, seed: u64, sample: &dyn Fn(usize, usize) -> Sample) -> Found {
    let mut random = Random::new(seed);
    let mut devices = [1, 2, 3].map(new);
    for [rows, columns] in SIZES {
        let sample = sample(rows, columns);
        let types: Vec<Type> = sample.types();
        let on_all = devices
            .iter_mut()
            .try_for_each(|device| on_dense_inputs(device.as_mut(), &mut random, &sample, &types));
        let checked = on_all.and_then(|()| in_views(&mut devices, &mut random, &sample, &types, &mut BTreeSet::new()));
        checked.map_err(|wrong| format!("seed {seed}, {rows} rows of {columns}: {wrong}"))?;
    }
    Ok(())
}
