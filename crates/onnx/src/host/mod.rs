//! Arrays in memory in the types of a file, and a node with such arrays as inputs.

mod call;
mod cells;
mod conversion;
pub mod coordinates;
mod data;
mod message;
mod narrow_numbers;
mod number;
mod resizing;
mod tensor;
mod typed;

pub use call::{Bodies, Body, HostCall, HostOperator, HostOperators, NoBodies, one};
pub use cells::{Cell, Cells, moved};
pub use conversion::cast_by;
pub use coordinates::Taps;
pub use data::{Data, each_float, each_integer, each_number, each_wide};
pub use narrow_numbers::NarrowNumbers;
pub use number::{Float, Integer, Number};
pub use resizing::Resizing;
pub use tensor::{HostTensor, HostValue, numel};
pub use typed::Typed;
