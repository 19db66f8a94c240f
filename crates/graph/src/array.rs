//! Arrays of the reference evaluator: dense, row-major, elements of every dtype in `f64`.

use crate::types::{DType, Type, numel};

/// A dense array. Its elements are `f64`, which represents every dtype exactly.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// Dtype and shape.
    pub ty: Type,
    /// Elements in row-major order.
    pub data: Vec<f64>,
}

impl Array {
    /// An array of this type from its elements in row-major order.
    ///
    /// # Panics
    /// If the number of elements is not the shape's.
    #[track_caller]
    pub fn new(ty: Type, data: Vec<f64>) -> Array {
        assert_eq!(
            ty.numel(),
            data.len(),
            "an array of type {ty} needs {} elements",
            ty.numel()
        );
        Array { ty, data }
    }

    /// An `f32` array.
    #[track_caller]
    pub fn f32(shape: &[usize], data: Vec<f64>) -> Array {
        Array::new(Type::f32(shape), data)
    }

    /// An `i32` array.
    #[track_caller]
    pub fn i32(shape: &[usize], data: &[i32]) -> Array {
        Array::new(Type::new(DType::I32, shape), data.iter().map(|&v| v as f64).collect())
    }

    /// An `f32` scalar.
    pub fn scalar(value: f64) -> Array {
        Array::f32(&[], vec![value])
    }

    /// An array filled with one value.
    pub fn full(ty: Type, value: f64) -> Array {
        let n = ty.numel();
        Array {
            ty,
            data: vec![value; n],
        }
    }

    /// An array whose element at a multi-index is computed by `f`.
    pub fn from_fn(ty: Type, mut f: impl FnMut(&[usize]) -> f64) -> Array {
        let mut data = Vec::with_capacity(ty.numel());
        for_each_index(&ty.shape, |index| data.push(f(index)));
        Array { ty, data }
    }

    /// The element at a multi-index.
    pub fn at(&self, index: &[usize]) -> f64 {
        self.data[self.offset(index)]
    }

    /// The position in `data` of a multi-index.
    pub fn offset(&self, index: &[usize]) -> usize {
        debug_assert_eq!(index.len(), self.ty.rank());
        index
            .iter()
            .zip(&self.ty.shape)
            .fold(0, |offset, (&i, &n)| offset * n + i)
    }

    /// The only element of a one-element array.
    ///
    /// # Panics
    /// If there is not exactly one element.
    pub fn item(&self) -> f64 {
        assert_eq!(
            self.data.len(),
            1,
            "`item` needs one element, this array has type {}",
            self.ty
        );
        self.data[0]
    }

    /// Rows of the last axis.
    pub fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.data.chunks(self.ty.last().max(1))
    }
}

/// Calls `f` with every multi-index of a shape, in row-major order.
pub fn for_each_index(shape: &[usize], mut f: impl FnMut(&[usize])) {
    let mut index = vec![0; shape.len()];
    for _ in 0..numel(shape) {
        f(&index);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}
