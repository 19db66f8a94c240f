//! Tests of ONNX files: models that the tests write, and damaged ones.

mod builder;
mod conversions;
mod files;
mod mutations;
mod operators;
