//! `lessen bench onnx`

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use lessen::bench::onnx::{Beside, Measured, OperationTime, measure};
use lessen::onnx::Inputs;
use lessen_base::Result;
use lessen_jobs::training::median;
use lessen_onnx::Model;
use lessen_onnx_sessions::random_values;
use lessen_train::show_size;
use serde_json::json;

use crate::commands::model_sizes::{given_sizes, sizes};
use crate::say;

/// Flags of `lessen bench onnx`.
#[derive(Args)]
pub struct Onnx {
    /// ONNX file of a model
    file: PathBuf,
    /// An input, as `lessen run` takes them; random ones by default
    #[arg(long, value_name = "[NAME=]FILE")]
    input: Vec<String>,
    /// The size of an extent of the inputs that has a name
    #[arg(long, value_name = "NAME=N")]
    size: Vec<String>,
    /// Timed runs
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Threads to use [default: LESSEN_THREADS, else the number of cores]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    threads: Option<usize>,
    /// Do not run ONNX Runtime beside it, which is done where Python ($PYTHON, or python3) has it
    #[arg(long)]
    alone: bool,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Onnx {
    /// Measures; the exit code.
    pub fn run(self) -> Result<u8> {
        let model = Arc::new(Model::open_to_run(&self.file)?);
        let (inputs, sizes) = if self.input.is_empty() {
            let sizes = sizes(&model, &self.size)?;
            (random_values(&model, &sizes, 1)?, sizes)
        } else {
            let inputs = Inputs::read(&model, &self.input)?;
            let sizes = inputs.sizes(&model, &given_sizes(&model, &self.size)?)?;
            (inputs.values(&model)?, sizes)
        };
        let beside = (!self.alone).then_some(self.file.as_path());
        let m = measure(model, &inputs, self.runs as usize, self.threads, beside)?;
        let file = self.file.display().to_string();
        if self.json {
            let mut object = m.to_json();
            (object["file"], object["sizes"]) = (json!(file), json!(sizes));
            say(&format!("{object}\n"))?;
        } else {
            let sizes: Vec<String> = sizes.iter().map(|(name, size)| format!("{name}={size}")).collect();
            say(&format!("{file}  {}\n{}", sizes.join(" "), to_text(&m)))?;
        }
        Ok(0)
    }
}

fn to_text(m: &Measured) -> String {
    let ([least, most], runs) = (m.spread_ms(), m.run_ms.len());
    let beside = match &m.beside {
        Some(Ok(Beside {
            version,
            run_ms,
            ratios,
        })) => {
            let [middle, ratio] = [run_ms, ratios].map(|all| median(all.clone()));
            let (least, most) = (run_ms[0], run_ms[run_ms.len() - 1]);
            format!(
                "   ONNX Runtime   {middle:>9.2} ms   ({least:.2} .. {most:.2}; version {version}); Lessen's time is \
                 {ratio:.3} of it ({:.3} .. {:.3})\n   products       {:>9.0} % of the peak in ONNX Runtime\n",
                ratios[0],
                ratios[ratios.len() - 1],
                100.0 * m.share_of_peak(middle),
            )
        }
        Some(Err(why)) => format!("   ONNX Runtime is not measured: {why}\n"),
        None => String::new(),
    };
    let operations = m.operations.iter().filter(|operation| operation.share > 0.01);
    let operations = operations.map(|operation| {
        let OperationTime { name, nodes, share } = operation;
        format!("   in {name:<15} {:>6.1} %    ({nodes} of them)\n", 100.0 * share)
    });
    [
        format!("   compile        {:>9.1} ms\n", m.compile_ms),
        format!(
            "   run            {:>9.2} ms   ({least:.2} .. {most:.2}, {runs} runs)\n",
            m.median_ms()
        ),
        format!(
            "   products       {:>9.0} % of the machine's peak, {:.0} GFLOP/s in f32\n",
            100.0 * m.share_of_peak(m.median_ms()),
            m.peak_flops / 1e9
        ),
        beside,
        format!(
            "   in norms       {:>9.1} %    ({} of them; of the time in kernels)\n",
            100.0 * m.norm_share,
            m.norms
        ),
        operations.collect(),
        format!("   arena          {:>12}\n", show_size(m.arena_bytes)),
        format!("   parameters     {:>12}\n", show_size(m.parameter_bytes)),
    ]
    .concat()
}
