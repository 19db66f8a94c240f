//! Operations that compare the numbers of a row: the position of its extremum, its numbers in order.

pub mod arg_reduce;
pub mod top_k;

operations! {
    arg_reduce::{ArgReduce},
    top_k::{TopK},
}
