//! Tests of the public interface, in one binary.

mod adapter_folders;
mod attention_kinds;
mod cache;
mod checkpoint;
mod checkpoint_faults;
mod config;
mod conversion;
mod encoder;
mod fine_tuning;
mod init;
mod llama;
mod mutations;
mod observations;
mod optimizer;
mod packed;
mod parity;
mod properties;
mod statistics;
mod support;
