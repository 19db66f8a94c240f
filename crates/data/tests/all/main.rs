//! Tests of the public interface, in one binary.

mod image_files;
mod mutations;
mod properties;
mod text_of_tokens;
mod tokenizer_fields;
