//! Operators on arrays in memory, exactly in the types that a file declares: integers wrap, 16-bit floats round and
//! overflow.
//!
//! Every operator of a file can be computed here. Products of floats and what is around them run as compiled programs
//! instead; what is left for this module are integers, shapes, texts, sequences and results whose
//! size depends on elements.
//!
//! A new operator is a function and a line in [`operators`]' groups.

mod broadcast;
mod call;
mod cells;
mod control;
mod data;
mod elementwise;
mod images;
mod learning;
mod message;
mod movement;
mod narrow_numbers;
mod node;
mod number;
mod operators;
mod products;
mod tensor;
mod typed;

pub(crate) use broadcast::Broadcast;
pub(crate) use call::{Bodies, Body, HostCall, HostOperators, NoBodies, one};
pub(crate) use cells::{Cell, Cells, moved};
pub use data::Data;
pub(crate) use data::{each_float, each_integer, each_number, each_wide};
pub(crate) use images::{Resizing, Taps};
pub use narrow_numbers::NarrowNumbers;
pub use node::run_node;
pub(crate) use number::{Float, Integer, Number};
pub(crate) use operators::host_operator;
pub(crate) use tensor::numel;
pub use tensor::{HostTensor, HostValue};
pub(crate) use typed::Typed;
