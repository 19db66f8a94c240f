//! The operations, one file each, in folders by subject: type rule, derivative, decomposition, row-wise structure,
//! cost, reference evaluation, and the methods of [`Tensor`](crate::Tensor) that apply it.
//!
//! A new operation is a file and its lines in the `mod.rs` of its folder, which declare and register it.

/// Registers the operations of a folder and re-exports them: `operations! { file::{Operation, Operation}, ... }`.
macro_rules! operations {
    ($($file:ident::{$($op:ident),+}),+ $(,)?) => {
        $(pub use $file::{$($op),+};)+

        /// The operations of this folder.
        pub(crate) const OPERATIONS: &[$crate::named::Standard] = &[$($($crate::named::Standard::of::<$op>()),+),+];
    };
}

#[macro_use]
mod facts;

pub mod attention;
pub mod bits;
pub mod collective;
pub mod contraction;
pub mod control;
pub mod convolution;
mod element_function;
pub mod elementwise;
pub mod index;
pub mod loss;
pub mod norm;
pub mod optimizer;
pub mod order;
pub mod pooling;
pub mod random;
pub mod recurrent;
pub mod reduction;
pub(crate) mod rules;
pub mod shape;
pub mod source;
pub mod temperature;

pub use attention::*;
pub use bits::*;
pub use collective::*;
pub use contraction::*;
pub use control::*;
pub use convolution::*;
pub use element_function::Elementwise;
pub use elementwise::*;
pub use index::*;
pub use loss::*;
pub use norm::*;
pub use optimizer::*;
pub use order::*;
pub use pooling::*;
pub use random::*;
pub use recurrent::*;
pub use reduction::*;
pub use shape::*;
pub use source::*;
