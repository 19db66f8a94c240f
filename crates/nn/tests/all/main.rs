//! Tests of the public interface, in one binary.

mod cache;
mod checkpoint;
mod checkpoint_faults;
mod config;
mod encoder;
mod init;
mod optimizer;
mod parity;
mod support;
