//! One-hot vectors of ids.

use crate::tensor::Tensor;
use crate::types::DType;

impl Tensor {
    /// For each of these ids, `i32` of any shape, a vector `f32` of `classes` numbers: 1 at the id, 0 elsewhere; the
    /// result is `[.., classes]`. Of an id that is not in `0..classes`, all numbers are 0.
    ///
    /// # Panics
    /// If this is not `i32`, or there are no classes.
    #[track_caller]
    pub fn one_hot(self, classes: usize) -> Tensor {
        let ty = self.ty();
        if ty.dtype != DType::I32 || classes == 0 {
            let sentence = format!("one_hot: needs i32 ids and at least one class, not {ty} and {classes}");
            self.trace().fail(sentence);
        }
        let all = self.trace().iota(DType::I32, &[classes], 0);
        self.unsqueeze(-1).eq(all).cast(DType::F32)
    }
}
