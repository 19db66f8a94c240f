//! Tests of the public interface, in one binary.

mod mutations;
mod properties;
