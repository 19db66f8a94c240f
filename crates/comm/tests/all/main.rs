//! Tests of the public interface, in one binary.

mod collectives;
mod engine;
mod faults;
#[cfg(unix)]
mod mpi;
mod ranks;
mod tree;
