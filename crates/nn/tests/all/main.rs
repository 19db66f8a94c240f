//! Tests of the public interface, in one binary.

mod adapter_folders;
mod attention_kinds;
mod cache;
mod checkpoint;
mod checkpoint_faults;
mod config;
mod config_faults;
mod conversion;
mod criterion;
mod derivatives;
mod encoder;
mod fine_tuning;
mod init;
mod llama;
mod lora;
mod mutations;
mod observations;
mod optimizer;
mod packed;
mod parity;
mod properties;
mod small_models;
mod statistics;
mod support;
