//! `lessen bench`

mod activation;
mod attention;
mod bound;
mod condense;
mod memory;
mod onnx;
mod planning_args;
mod predict;
mod shared;
mod step;
mod update;

use clap::{Args, Subcommand};
use lessen_base::Result;

/// Flags of `lessen bench`.
#[derive(Args)]
pub struct Bench {
    #[command(subcommand)]
    what: Benchmark,
}

/// A benchmark.
#[derive(Subcommand)]
enum Benchmark {
    /// Training steps of a GPT, of BERT-base, of the `thucnews` recipe, and of networks on images
    Step(step::Step),
    /// Memory and time of a training step by the memory planner under budgets, and by fixed policies
    Memory(memory::Memory),
    /// Random small networks: by how much plans under budgets may be slower than the fastest ones
    Bound(bound::Bound),
    /// Training steps by optimizer, batch size and placement of the update
    Update(update::Update),
    /// Training steps that processes share over a network, by batch size and placement of the update
    Shared(shared::Shared),
    /// Inference with different activations: time per element and of whole models
    Activation(activation::Activation),
    /// One attention layer, forward or with its derivative, fused or as a graph of simple operations
    Attention(attention::Attention),
    /// Dataset condensation: an update of the images, an epoch of the network, whole outer iterations
    Condense(condense::Condense),
    /// An ONNX model on random inputs, and the share of its norms
    Onnx(onnx::Onnx),
    /// Predictions of a saved model: percentiles of the time of a request, and answers in a second
    Predict(predict::Predict),
}

impl Bench {
    /// Measures; the exit code.
    pub fn run(self) -> Result<u8> {
        match self.what {
            Benchmark::Step(step) => step.run(),
            Benchmark::Memory(memory) => memory.run(),
            Benchmark::Bound(bound) => bound.run(),
            Benchmark::Update(update) => update.run(),
            Benchmark::Shared(shared) => shared.run(),
            Benchmark::Activation(activation) => activation.run(),
            Benchmark::Attention(attention) => attention.run(),
            Benchmark::Condense(condense) => condense.run(),
            Benchmark::Onnx(onnx) => onnx.run(),
            Benchmark::Predict(predict) => predict.run(),
        }
    }
}
