//! `lessen bench attention`

use clap::{Args, ValueEnum};
use lessen::bench::attention::{self, Bias, Case};
use lessen_graph::ops::Weighting;
use lessen_run::Result;
use lessen_train::show_size;
use serde_json::{Value, json};

use crate::say;

/// What is added to scores.
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
enum Form {
    /// The operation
    Fused,
    /// Simple operations, between which scores and biases are tensors
    Unfused,
}

/// What runs.
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
    /// How scores become weights, such as softmax, norm_softmax:gamma=inf, relu:keys
    #[arg(long, default_value = "softmax")]
    attention: Weighting,
    /// What is added to scores
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
    form: Vec<Form>,
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
        for case in self.cases() {
            let m = attention::measure(&case, &case.random_values(), self.runs as usize)?;
            let pass = if case.backward { "both" } else { "forward" };
            let form = if case.unfused { "unfused" } else { "fused" };
            table += &format!(
                "{:>6} tokens {:>3} heads  {pass:<7} {form:<7} {:>10.3} ms  {:>7.1} GFLOP/s  {:>12} beside operands\n",
                case.tokens,
                case.heads,
                m.median_ms(),
                m.flops / m.median_ms() * 1e-6,
                show_size(m.scratch_bytes)
            );
            found.push(attention::to_json(&case, &m));
        }
        let peak = attention::peak()? / 1e9;
        if self.json {
            let all: Value = json!({ "peak_gflops": peak, "cases": found });
            say(&format!("{all}\n"));
        } else {
            say(&format!("{table}peak of products {peak:.0} GFLOP/s\n"));
        }
        Ok(0)
    }

    fn cases(&self) -> Vec<Case> {
        let bias = match self.position {
            Position::None => Bias::None,
            Position::Alibi => Bias::Alibi,
            Position::Fire => Bias::Fire,
        };
        let mut all = Vec::new();
        for &tokens in &self.tokens {
            for &heads in &self.heads {
                for &pass in &self.pass {
                    all.extend(self.form.iter().map(|&form| Case {
                        weighting: self.attention,
                        bias,
                        causal: !self.full,
                        batch: self.batch.max(1),
                        tokens: tokens.max(1),
                        heads: heads.max(1),
                        head: self.head.max(1),
                        backward: pass == Pass::Both,
                        unfused: form == Form::Unfused,
                    }));
                }
            }
        }
        all
    }
}
