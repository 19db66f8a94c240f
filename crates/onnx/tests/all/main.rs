//! Tests of ONNX files: models that the tests write, models of exporters, and damaged models.

mod builder;
mod conversions;
mod exported;
mod files;
mod mutations;
mod operators;

#[global_allocator]
static ALLOCATOR: lessen_cpu::CountingAllocator = lessen_cpu::CountingAllocator;
