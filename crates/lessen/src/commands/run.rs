//! `lessen run`

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use lessen::onnx::{Inputs, check, dtype_of_input, of_outputs, random_inputs, write};
use lessen_data::arrays::Array;
use lessen_device::{Host, HostArray};
use lessen_onnx::{Executable, Model, Sizes};
use lessen_run::Result;
use serde_json::{Value, json};

use super::device_args::DeviceArgs;
use super::model_sizes::{given_sizes, sizes};
use crate::say;

/// Flags of `lessen run`.
#[derive(Args)]
pub struct Run {
    /// ONNX file of a model
    file: PathBuf,
    /// An input: X.npy where there is one, NAME=X.npy, or ALL.npz with a member for each; random ones by default
    #[arg(long, value_name = "[NAME=]FILE")]
    input: Vec<String>,
    /// File for the outputs: OUT.npz, or OUT.npy where the model has one
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The size of an extent of the inputs that has a name; inputs from files say it themselves
    #[arg(long, value_name = "NAME=N")]
    size: Vec<String>,
    /// Seed of random inputs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

/// The outcome of a run.
struct Ran {
    /// Names, dtypes and shapes of the inputs.
    inputs: Vec<Value>,
    outputs: Vec<(String, Array)>,
    ms: f64,
    compile_ms: f64,
}

impl Run {
    /// Runs the model; the exit code.
    pub fn run(self) -> Result<u8> {
        let model = Model::open(&self.file)?;
        if let Some(path) = &self.output {
            check(path, &model)?;
        }
        let ran = if self.input.is_empty() {
            let executable = self.loaded(&model, &sizes(&model, &self.size)?)?;
            let inputs = random_inputs(&executable, self.seed);
            ran(&model, executable, &inputs)?
        } else {
            let inputs = Inputs::read(&model, &self.input)?;
            let sizes = inputs.sizes(&model, &given_sizes(&model, &self.size)?)?;
            let inputs = inputs.arrays(&model)?;
            ran(&model, self.loaded(&model, &sizes)?, &inputs)?
        };
        if let Some(path) = &self.output {
            write(path, &ran.outputs)?;
        }
        say(&if self.json {
            format!("{}\n", self.to_json(&ran))
        } else {
            self.to_text(&ran)
        })?;
        Ok(0)
    }

    fn loaded(&self, model: &Model, sizes: &Sizes) -> Result<Executable> {
        Executable::load(self.device.open()?, model, sizes)
    }

    fn to_json(&self, ran: &Ran) -> Value {
        let outputs = ran
            .outputs
            .iter()
            .map(|(name, array)| described(name, &array.dtype().to_string(), array.shape()));
        json!({
            "model": self.file.display().to_string(),
            "inputs": ran.inputs,
            "random": self.input.is_empty(),
            "outputs": outputs.collect::<Vec<Value>>(),
            "ms": ran.ms,
            "compile_ms": ran.compile_ms,
            "output": self.output.as_ref().map(|path| path.display().to_string()),
        })
    }

    fn to_text(&self, ran: &Ran) -> String {
        let mut lines = Vec::new();
        if self.input.is_empty() && !ran.inputs.is_empty() {
            lines.push("inputs are random, since there is no --input".to_string());
        }
        for input in &ran.inputs {
            let name = input["name"].as_str().unwrap_or_default();
            lines.push(format!(
                "input   {name}  {} {}",
                input["dtype"].as_str().unwrap_or_default(),
                input["shape"]
            ));
        }
        for (name, array) in &ran.outputs {
            lines.push(format!("output  {name}  {} {}", array.dtype(), json!(array.shape())));
        }
        lines.push(format!("run in {:.2} ms, compiled in {:.1} ms", ran.ms, ran.compile_ms));
        if let Some(path) = &self.output {
            lines.push(format!("written to {}", path.display()));
        }
        lines.join("\n") + "\n"
    }
}

/// Runs a model that is loaded.
fn ran(model: &Model, mut executable: Executable, inputs: &[(String, HostArray)]) -> Result<Ran> {
    let data: Vec<(&str, Host<'_>)> = inputs
        .iter()
        .map(|(name, array)| (name.as_str(), array.host()))
        .collect();
    let begun = Instant::now();
    executable.run(&data)?;
    let ms = 1e3 * begun.elapsed().as_secs_f64();
    let inputs = executable.inputs().iter().map(|(name, ty)| {
        let dtype = dtype_of_input(model, name).map(|dtype| dtype.to_string());
        described(name, &dtype.unwrap_or_default(), &ty.shape)
    });
    Ok(Ran {
        inputs: inputs.collect(),
        outputs: of_outputs(model, &executable),
        ms,
        compile_ms: 1e3 * executable.compile_time().as_secs_f64(),
    })
}

fn described(name: &str, dtype: &str, shape: &[usize]) -> Value {
    json!({ "name": name, "dtype": dtype, "shape": shape })
}
