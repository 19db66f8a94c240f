//! `lessen run`

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use lessen::onnx::{Inputs, check, places, write};
use lessen_base::Result;
use lessen_onnx::{HostValue, Model};
use lessen_onnx_sessions::{Session, random_values};
use serde_json::{Value, json};

use super::device_args::DeviceArgs;
use super::model_sizes::{given_sizes, sizes};
use super::output_place::check_place;
use crate::say;

/// Flags of `lessen run`.
#[derive(Args)]
pub struct Run {
    /// ONNX file of a model
    file: PathBuf,
    /// An input: X.npy where there is one, NAME=X.npy, NAME=X.pb (a value in ONNX's own format), or ALL.npz with a
    /// member for each; random ones by default
    #[arg(long, value_name = "[NAME=]FILE")]
    input: Vec<String>,
    /// File for the outputs: OUT.npz, OUT.npy where the model has one, or OUT/ for files in ONNX's own format
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
    outputs: Vec<(String, HostValue)>,
    ms: f64,
    compile_ms: f64,
}

impl Run {
    /// Runs the model; the exit code.
    pub fn run(self) -> Result<u8> {
        let model = Arc::new(Model::open_to_run(&self.file)?);
        if let Some(path) = &self.output {
            check(path, &model)?;
            let inputs = self.input.iter().flat_map(|word| {
                let named = word.split_once('=').map(|(_, file)| PathBuf::from(file));
                [PathBuf::from(word)].into_iter().chain(named)
            });
            let read: Vec<PathBuf> = model.files()?.into_iter().chain(inputs).collect();
            places(path, &model)
                .iter()
                .try_for_each(|place| check_place(place, &read, &[]))?;
        }
        let inputs = if self.input.is_empty() {
            random_values(&model, &sizes(&model, &self.size)?, self.seed)?
        } else {
            let inputs = Inputs::read(&model, &self.input)?;
            inputs.sizes(&model, &given_sizes(&model, &self.size)?)?;
            inputs.values(&model)?
        };
        let described = inputs.iter().map(|(name, value)| described(name, value)).collect();
        let session = Session::new(model.clone(), self.device.new_backend().open()?)?;
        let begun = Instant::now();
        let outputs = session.run(inputs)?;
        let compile_ms = 1e3 * session.compile_time().as_secs_f64();
        let ran = Ran {
            inputs: described,
            outputs,
            ms: 1e3 * begun.elapsed().as_secs_f64() - compile_ms,
            compile_ms,
        };
        if let Some(path) = &self.output {
            write(path, &model, &ran.outputs)?;
        }
        say(&if self.json {
            format!("{}\n", self.to_json(&ran))
        } else {
            self.to_text(&ran)
        })?;
        Ok(0)
    }

    fn to_json(&self, ran: &Ran) -> Value {
        let outputs = ran.outputs.iter().map(|(name, value)| described(name, value));
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
        let line = |what: &str, value: &Value| {
            let text = |key: &str| value[key].as_str().unwrap_or_default().to_string();
            format!("{what}  {}  {} {}", text("name"), text("dtype"), value["shape"])
        };
        lines.extend(ran.inputs.iter().map(|input| line("input ", input)));
        let outputs = ran.outputs.iter().map(|(name, value)| described(name, value));
        lines.extend(outputs.map(|output| line("output", &output)));
        lines.push(format!("run in {:.2} ms, compiled in {:.1} ms", ran.ms, ran.compile_ms));
        if let Some(path) = &self.output {
            lines.push(format!("written to {}", path.display()));
        }
        lines.join("\n") + "\n"
    }
}

/// The name, dtype and shape of a value; of a list its length in place of a shape.
fn described(name: &str, value: &HostValue) -> Value {
    match value {
        HostValue::Tensor(tensor) => {
            let dtype = tensor
                .element()
                .map_or("text".to_string(), |element| element.to_string());
            json!({ "name": name, "dtype": dtype, "shape": tensor.shape() })
        }
        HostValue::Sequence(all) => json!({ "name": name, "dtype": "sequence", "shape": [all.len()] }),
        HostValue::Absent => json!({ "name": name, "dtype": "absent", "shape": [] }),
    }
}
