//! Tests of the public interface, in one binary.

mod image_files;
mod mutations;
mod properties;
mod tokenizer_fields;
