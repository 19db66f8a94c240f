//! `lessen bench attention`

use clap::{Args, ValueEnum};
use lessen::bench::attention::{self, Case};
use lessen::device;
use lessen_base::{Error, Result};
use lessen_graph::ops::{Attention as Operation, AttentionBias, Weighting};
use lessen_saved::op_sample::OpSample;
use lessen_saved::saved_run::{AdapterOptions, SavedRun};
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_train::show_size;
use serde_json::{Value, json};
use std::path::PathBuf;

use crate::say;

/// The bias of scores.
#[derive(Clone, Copy, ValueEnum)]
enum Position {
    /// Nothing
    None,
    /// A slope for each head
    Alibi,
    /// A learned function of the logarithm of the distance
    Fire,
}

/// Which graphs to measure.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum GraphVariant {
    /// The operation
    Fused,
    /// Simple operations, between which scores and biases are tensors
    Unfused,
}

/// The passes that run.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Pass {
    /// Forward alone
    Forward,
    /// Forward and backward
    Both,
}

/// Flags of `lessen bench attention`.
#[derive(Args)]
pub struct Attention {
    /// Run of a language model whose own attention and inputs, on its validation text, are measured
    #[arg(long, value_name = "DIR", conflicts_with_all = ["attention", "position", "head", "batch", "full"])]
    run: Option<PathBuf>,
    /// Layer of that model, from 0
    #[arg(long, default_value_t = 0)]
    layer: usize,
    /// How scores become weights, such as softmax, norm_softmax:gamma=inf, relu:keys
    #[arg(long, default_value = "softmax")]
    attention: Weighting,
    /// Bias that is added to scores
    #[arg(long, value_enum, default_value = "none")]
    position: Position,
    /// Tokens of a sequence
    #[arg(long, value_delimiter = ',', default_value = "512,1024,2048,4096,8192")]
    tokens: Vec<usize>,
    /// Heads
    #[arg(long, value_delimiter = ',', default_value = "1,12")]
    heads: Vec<usize>,
    /// Extent of a head
    #[arg(long, default_value_t = 64)]
    head: usize,
    /// Sequences
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Let queries see later keys
    #[arg(long)]
    full: bool,
    /// Graphs to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "fused")]
    form: Vec<GraphVariant>,
    /// Passes to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "forward,both")]
    pass: Vec<Pass>,
    /// Timed runs of each case
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Attention {
    /// Measures; the exit code.
    pub fn run(self) -> Result<u8> {
        let (mut table, mut found) = (String::new(), Vec::new());
        for (tokens, heads, case) in self.cases()? {
            let m = attention::measure(&case, self.runs as usize)?;
            let pass = if case.backward { "both" } else { "forward" };
            let form = if case.unfused { "unfused" } else { "fused" };
            table += &format!(
                "{tokens:>6} tokens {heads:>3} heads  {pass:<7} {form:<7} {:>10.3} ms  {:>7.1} GFLOP/s  {:>12} beside operands\n",
                m.median_ms(),
                m.flops / m.median_ms() * 1e-6,
                show_size(m.scratch_bytes)
            );
            found.push(attention::to_json(&case, &m));
        }
        let peak = attention::peak()? / 1e9;
        if self.json {
            let all: Value = json!({ "peak_gflops": peak, "cases": found });
            say(&format!("{all}\n"))?;
        } else {
            say(&format!("{table}peak of products {peak:.0} GFLOP/s\n"))?;
        }
        Ok(0)
    }

    /// The attention of the layer in a run.
    fn sample(&self, run: &SavedRun, tokens: usize) -> Result<OpSample<Operation>> {
        run.op_sample(self.layer, tokens)?.ok_or_else(|| {
            Error::user(format!(
                "{} has no attention layer {}; layers are numbered from 0",
                run.source().display(),
                self.layer
            ))
        })
    }

    /// Tokens, heads and the case.
    fn cases(&self) -> Result<Vec<(usize, usize, Case)>> {
        let bias = match self.position {
            Position::None => AttentionBias::None,
            Position::Alibi => AttentionBias::Alibi,
            Position::Fire => AttentionBias::Fire,
        };
        let op = Operation {
            weighting: self.attention,
            bias,
            causal: !self.full,
            scale: 1.0 / (self.head.max(1) as f64).sqrt(),
            ..Operation::default()
        };
        let device = NewBackend::new(device);
        let run = self
            .run
            .as_ref()
            .map(|dir| SavedRun::open(dir, WhichModel::Last, AdapterOptions::default(), &device))
            .transpose()?;
        let mut all = Vec::new();
        for tokens in self.tokens.iter().map(|&tokens| tokens.max(1)) {
            let sample = run.as_ref().map(|run| self.sample(run, tokens)).transpose()?;
            for heads in self.heads.iter().map(|&heads| heads.max(1)) {
                let case = match &sample {
                    Some(sample) => Case::trained(sample.clone(), heads),
                    None => Case::random(op, [self.batch.max(1), tokens, heads, self.head.max(1)]),
                };
                let both = self
                    .pass
                    .iter()
                    .flat_map(|pass| self.form.iter().map(move |form| (pass, form)));
                all.extend(both.map(|(&pass, &form)| {
                    let mut case = case.clone();
                    (case.backward, case.unfused) = (pass == Pass::Both, form == GraphVariant::Unfused);
                    (tokens, heads, case)
                }));
            }
        }
        Ok(all)
    }
}
