//! Numbers that operators take beside a tensor.

/// A number at the right of an operator: `x * 2`, `x / count`. It becomes a scalar of the tensor's dtype; see
/// [`Tensor::scalar_like`](crate::Tensor::scalar_like). At the left Rust infers the type of a literal if there is one
/// type of floats and one of integers alone: `f64` and `i32`.
pub trait Scalar: Copy {
    /// The nearest `f64`.
    fn to_f64(self) -> f64;
}

macro_rules! scalars {
    ($($number:ty),+) => {$(
        impl Scalar for $number {
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )+};
}

scalars!(f64, f32, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);
