//! Tests of ONNX files: models that the tests write, models of exporters, and damaged models.

mod bodies;
mod builder;
mod case;
mod contributed;
mod control;
mod conversion_checks;
mod conversion_faults;
mod conversions;
mod exported;
mod exports;
mod files;
mod functions;
mod movement;
mod mutations;
mod network;
mod network_faults;
mod nodes;
mod operators;
mod quantize;
mod quantized;
mod recurrent;
mod session;
mod shifted;

#[global_allocator]
static ALLOCATOR: lessen_cpu::CountingAllocator = lessen_cpu::CountingAllocator;
