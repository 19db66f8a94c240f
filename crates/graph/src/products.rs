//! The products of an operation, as hardware that multiplies matrices computes them.

use crate::slide::Slide;

/// Products of one operation: each of `batch` rows or images with a matrix, or with windows, of a second factor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Products {
    /// Which products of the operation these are, where it has several, such as `scores`; otherwise empty.
    pub part: &'static str,
    /// The inputs of the operation that are multiplied: rows or images, and what all of them are multiplied with. None
    /// stands for a factor that the operation computes itself.
    pub factors: [Option<usize>; 2],
    /// Rows, or images where there are windows.
    pub batch: usize,
    /// Numbers of a row, or channels of an image.
    pub inputs: usize,
    /// Columns of the second factor, or channels of the result.
    pub outputs: usize,
    /// Groups of channels; see [`Conv2dOptions`](crate::ops::Conv2dOptions).
    pub groups: usize,
    /// The windows along height and width; none where rows are multiplied with a matrix.
    pub windows: Option<[Slide; 2]>,
    /// Times that it is computed one after another: steps of a recurrence, matrices of a stack.
    pub repeats: usize,
    /// Whether each of these times needs the result of the one before, with the same second factor.
    pub recurrent: bool,
}

impl Products {
    /// Rows `[rows, inner]` of input `factors[0]` times a matrix `[inner, columns]` of input `factors[1]`.
    pub fn matrix(factors: [Option<usize>; 2], rows: usize, inner: usize, columns: usize) -> Products {
        Products {
            part: "",
            factors,
            batch: rows,
            inputs: inner,
            outputs: columns,
            groups: 1,
            windows: None,
            repeats: 1,
            recurrent: false,
        }
    }

    /// The same products so many times.
    pub fn times(self, repeats: usize) -> Products {
        Products { repeats, ..self }
    }

    /// The same products under this name.
    pub fn called(self, part: &'static str) -> Products {
        Products { part, ..self }
    }

    /// The same products, each of which needs the result of the one before, so many times.
    pub fn steps(self, steps: usize) -> Products {
        Products {
            recurrent: true,
            ..self.times(steps)
        }
    }
}
