//! Collectives: operations that several ranks compute together, each in a graph of its own, from values of all of them.
//!
//! The graphs of all ranks have the same collectives in the same order. [`evaluate_ranks`](crate::evaluate_ranks) runs
//! them together; a compiled program exchanges messages over a [`Carrier`](crate::Carrier). Sums are added by a
//! [`Tree`](lessen_base::tree::Tree) whose shape depends on the number of its leaves alone: a rank gives the sums of
//! the subtrees of its part of the leaves, so no bit depends on the number of ranks.

pub mod all_reduce;
pub mod broadcast_from;
pub mod pieces;

operations! {
    all_reduce::{AllReduce},
    broadcast_from::{BroadcastFrom},
    pieces::{AllGather, ReduceScatter},
}
