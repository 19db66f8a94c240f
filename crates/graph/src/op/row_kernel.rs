//! Kernels in safe Rust: functions of one row at a time, which a device runs over its threads.

use std::fmt;
use std::sync::Arc;

/// A row of an input: its elements in order. Of an input that is read whole, all of its elements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Row<'a> {
    /// Elements of `f32`.
    F32(&'a [f32]),
    /// Elements of `i32`.
    I32(&'a [i32]),
}

impl<'a> Row<'a> {
    /// The elements of an `f32` input.
    ///
    /// # Panics
    /// If the input has another dtype.
    #[track_caller]
    pub fn f32(self) -> &'a [f32] {
        match self {
            Row::F32(row) => row,
            Row::I32(_) => panic!("an input of i32 is read as f32"),
        }
    }

    /// The elements of an `i32` input.
    ///
    /// # Panics
    /// If the input has another dtype.
    #[track_caller]
    pub fn i32(self) -> &'a [i32] {
        match self {
            Row::I32(row) => row,
            Row::F32(_) => panic!("an input of f32 is read as i32"),
        }
    }
}

/// A row of an output. Its elements are arbitrary before the kernel writes them; those of an
/// [`OutRole::Sum`](crate::OutRole::Sum) are a sum, to which the kernel adds.
#[derive(PartialEq, Debug)]
pub enum RowMut<'a> {
    /// Elements of `f32`.
    F32(&'a mut [f32]),
    /// Elements of `i32`.
    I32(&'a mut [i32]),
}

impl RowMut<'_> {
    /// The elements of an `f32` output.
    ///
    /// # Panics
    /// If the output has another dtype.
    #[track_caller]
    pub fn f32(&mut self) -> &mut [f32] {
        match self {
            RowMut::F32(row) => row,
            RowMut::I32(_) => panic!("an output of i32 is written as f32"),
        }
    }

    /// The elements of an `i32` output.
    ///
    /// # Panics
    /// If the output has another dtype.
    #[track_caller]
    pub fn i32(&mut self) -> &mut [i32] {
        match self {
            RowMut::I32(row) => row,
            RowMut::F32(_) => panic!("an output of f32 is written as i32"),
        }
    }
}

/// The function of a [`RowKernel`].
type RowFunction = dyn Fn(&[Row<'_>], &mut [RowMut<'_>]) + Send + Sync;

/// A kernel of an operation that works row by row; see [`Op::row_kernel`](crate::Op::row_kernel).
///
/// ```
/// use lessen_graph::{Array, Op, Result, RowKernel, RowWise, Tensor, Type, evaluate_op};
///
/// /// The elements of each row, divided by the largest magnitude.
/// #[derive(PartialEq, Debug)]
/// struct Scaled;
///
/// impl Op for Scaled {
///     fn name(&self) -> &'static str {
///         "example.scaled"
///     }
///     fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
///         Ok(inputs.to_vec())
///     }
///     fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
///         Some(vec![inputs[0] / inputs[0].abs().max_last()])
///     }
///     fn row_wise(&self, inputs: &[Type], outputs: &[Type]) -> RowWise {
///         RowWise::of_last_axis(inputs, outputs)
///     }
///     fn row_kernel(&self) -> Option<RowKernel> {
///         Some(RowKernel::new(|inputs, outputs| {
///             let (x, y) = (inputs[0].f32(), outputs[0].f32());
///             let most = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
///             y.iter_mut().zip(x).for_each(|(y, x)| *y = x / most);
///         }))
///     }
/// }
///
/// // The reference is the decomposition.
/// let y = evaluate_op(&Scaled, &[&Array::f32(&[1, 2], vec![-4.0, 2.0])])?;
/// assert_eq!(y[0].data, [-1.0, 0.5]);
/// # Ok::<(), lessen_graph::Error>(())
/// ```
#[derive(Clone)]
pub struct RowKernel(Arc<RowFunction>);

impl RowKernel {
    /// The kernel that computes a row of each output from a row of each input. The function gives the same elements for
    /// the same inputs whenever it is called, and in any thread.
    pub fn new(run: impl Fn(&[Row<'_>], &mut [RowMut<'_>]) + Send + Sync + 'static) -> RowKernel {
        RowKernel(Arc::new(run))
    }

    /// Computes a row.
    pub fn run(&self, inputs: &[Row<'_>], outputs: &mut [RowMut<'_>]) {
        (self.0)(inputs, outputs);
    }
}

impl fmt::Debug for RowKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowKernel")
    }
}
