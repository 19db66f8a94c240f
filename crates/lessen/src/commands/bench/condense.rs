//! `lessen bench condense`

use clap::Args;
use lessen::bench::condense::{Condensing, Measured};
use lessen_base::Result;
use lessen_compile::Precision;
use lessen_condense::{InnerEpochs, Method};
use lessen_jobs::training::median;
use lessen_train::{parse_size, show_size};

use crate::say;

/// Flags of `lessen bench condense`.
#[derive(Args)]
pub struct Condense {
    /// Network that is matched
    #[arg(long, default_value = "convnet-3")]
    network: String,
    /// Classes
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    classes: u32,
    /// Synthetic images of a class
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    per_class: u32,
    /// Real images of a class in an update
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    real: u32,
    /// Height and width of the images
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    side: u32,
    /// Settings of the paper: baseline, m, md, mdo, mda
    #[arg(long, default_value = "md")]
    method: Method,
    /// Dtype of the operands of products and convolutions
    #[arg(long, default_value = "f32", value_parser = ["f32", "bf16"])]
    precision: String,
    /// Most memory of all functions: 512MiB, 2GiB
    #[arg(long)]
    budget: Option<String>,
    /// Timed updates of the images
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    updates: u32,
    /// Timed epochs of the network
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Schedules of outer iterations to time: a number of epochs between updates, adaptive, adaptive:NUMBER
    #[arg(long, value_delimiter = ',')]
    outer: Vec<InnerEpochs>,
    /// Time each operation of all functions, too
    #[arg(long)]
    operations: bool,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Condense {
    /// Measures; the exit code.
    pub fn run(self) -> Result<u8> {
        let condensing = Condensing {
            network: self.network,
            classes: self.classes as usize,
            per_class: self.per_class as usize,
            real: self.real as usize,
            side: self.side as usize,
            method: self.method,
            precision: match self.precision.as_str() {
                "bf16" => Precision::Bf16,
                _ => Precision::F32,
            },
            budget: self.budget.as_deref().map(parse_size).transpose()?,
            updates: self.updates as usize,
            epochs: self.epochs as usize,
            outer: self.outer,
            operations: self.operations,
        };
        let (measured, json) = condensing.run()?;
        if self.json {
            say(&format!("{json}\n"))?;
        } else {
            say(&table(&condensing, &measured))?;
        }
        Ok(0)
    }
}

/// The measurement as text.
fn table(condensing: &Condensing, m: &Measured) -> String {
    let spread = |times: &[f64]| {
        let (least, most) = (times[0], times[times.len() - 1]);
        format!("{:>9.1} ms   ({least:.1} .. {most:.1})", median(times.to_vec()))
    };
    let mut lines = format!(
        "{}, {} classes of {} real and {} synthetic images\n",
        condensing.network, condensing.classes, condensing.real, condensing.per_class
    );
    lines += &format!("   compile        {:>9.1} ms\n", m.compile_ms);
    lines += &format!("   update         {}\n", spread(&m.update_ms));
    lines += &format!("   epoch          {}\n", spread(&m.epoch_ms));
    for (schedule, seconds) in condensing.outer.iter().zip(&m.outer_seconds) {
        lines += &format!("   outer          {seconds:>9.1} s    ({schedule})\n");
    }
    lines += &format!("   memory planned {:>12}\n", show_size(m.planned_peak));
    lines += &format!("   memory in use  {:>12}\n", show_size(m.measured_peak));
    if let Some(resident) = m.resident {
        lines += &format!("   resident       {:>12}\n", show_size(resident));
    }
    for function in &m.functions {
        lines += &format!(
            "   {:<14} {:>9.1} ms estimated, {} nodes, {:.1} GFLOP, arena {}\n",
            function.name,
            function.estimated_ms,
            function.nodes,
            function.flops / 1e9,
            show_size(function.arena_bytes)
        );
        let mut steps = function.schedule.clone();
        steps.sort_by(|a, b| b.measured_ms.total_cmp(&a.measured_ms));
        for step in steps {
            let (measured, estimated) = (step.measured_ms, step.estimated_ms);
            lines += &format!(
                "      {measured:>9.2} ms {estimated:>9.2} ms estimated  {}\n",
                step.operations
            );
        }
    }
    lines
}
