//! `lessen convert`

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lessen::device;
use lessen_nn::NormKind;
use lessen_onnx::{
    Converter, Difference, Model, NormOperators, NormTarget, Report, Sizes, difference_of_files, difference_on,
};
use lessen_run::{Error, Result};
use serde_json::{Value, json};

use super::converted_folder::{Wanted, converted};
use super::model_sizes::sizes;
use crate::say;

/// The norms that LayerNorms become.
#[derive(Clone, Copy, ValueEnum)]
enum Norm {
    /// RMSNorm
    Rmsnorm,
    /// CRMSNorm: rows without their last element
    Crmsnorm,
}

/// The model that a folder is written as.
#[derive(Clone, Copy, ValueEnum)]
enum ModelFamily {
    /// A Llama of transformers
    Llama,
}

/// The operators of the file that is written.
#[derive(Clone, Copy, ValueEnum)]
enum Target {
    /// Operators with kernels in ONNX Runtime
    Onnxruntime,
    /// Operators of ONNX itself, from version 23 on
    Opset23,
}

/// Flags of `lessen convert`.
#[derive(Args)]
pub struct Convert {
    /// ONNX file of a model, or Hugging Face folder
    input: PathBuf,
    /// File or folder to write
    #[arg(long, short, value_name = "FILE", required_unless_present = "dry_run")]
    output: Option<PathBuf>,
    /// Norm that LayerNorms become where the mean that they subtract is redundant
    #[arg(long, value_name = "NORM", default_value = "rmsnorm")]
    norm: Norm,
    /// The operators that are written
    #[arg(long, value_name = "TARGET", default_value = "onnxruntime")]
    target: Target,
    /// Write a folder as this model of transformers, where that computes the same (GPT-NeoX without parallel branches,
    /// OLMo)
    #[arg(long = "as", value_name = "MODEL")]
    form: Option<ModelFamily>,
    /// Only print the norms that would be converted
    #[arg(long)]
    dry_run: bool,
    /// The size of an extent of the inputs that has a name, for the check of the result
    #[arg(long, value_name = "NAME=N")]
    size: Vec<String>,
    /// Do not run both models to compare their results
    #[arg(long)]
    no_verify: bool,
    /// Seed of the random inputs of the check
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

/// The differences of both models' results on random inputs.
#[derive(Default)]
struct Check {
    /// In `f64`, with parameters that are not rounded.
    exact: Option<Difference>,
    /// Of the files, in `f64`.
    files: Option<Difference>,
    /// Of the files, in `f32`.
    on_device: Option<Difference>,
}

impl Convert {
    /// Converts; the exit code.
    pub fn run(self) -> Result<u8> {
        if self.input.is_dir() {
            return self.run_folder();
        }
        if self.form.is_some() && self.input.exists() {
            return Err(Error::user(format!(
                "--as llama is for Hugging Face folders, and {} is none; leave it out",
                self.input.display()
            )));
        }
        let model = Model::open(&self.input)?;
        let sizes = sizes(&model, &self.size)?;
        let target = match self.norm {
            Norm::Rmsnorm => NormTarget::Rms,
            Norm::Crmsnorm => NormTarget::Crms,
        };
        let operators = match self.target {
            Target::Onnxruntime => NormOperators::OnnxRuntime,
            Target::Opset23 => NormOperators::Standard,
        };
        let converter = Converter::of(&model, &sizes, target, operators)?;
        let report = converter.report();
        let output = self.output.as_deref().filter(|_| !self.dry_run);
        let bytes = output.map(|path| self.write(&converter, path)).transpose()?;
        let check = match output.filter(|_| !self.no_verify) {
            Some(path) => Some(self.check(&model, &converter, &sizes, path, &report)?),
            None => None,
        };
        let before = model.source.all().len;
        say(&if self.json {
            format!("{}\n", self.to_json(&report, before, bytes, check.as_ref()))
        } else {
            self.to_text(&report, before, bytes, check.as_ref())
        })?;
        Ok(0)
    }

    /// Converts a folder; the exit code.
    fn run_folder(&self) -> Result<u8> {
        if let Some(size) = self.size.first() {
            return Err(Error::user(format!(
                "--size {size} is for ONNX files, and {} is a folder; leave it out",
                self.input.display()
            )));
        }
        let wanted = match (self.form, self.norm) {
            (None, Norm::Rmsnorm) => Wanted::Norm(NormKind::Rms),
            (None, Norm::Crmsnorm) => Wanted::Norm(NormKind::Crms),
            (Some(ModelFamily::Llama), Norm::Rmsnorm) => Wanted::Llama,
            (Some(ModelFamily::Llama), Norm::Crmsnorm) => {
                return Err(Error::user(
                    "--norm crmsnorm does not go with --as llama, since a Llama has RMSNorm; leave one of them out",
                ));
            }
        };
        let output = self.output.as_deref().filter(|_| !self.dry_run);
        let check = (!self.no_verify).then_some(self.seed);
        say(&converted(&self.input, output, wanted, check, self.json)?)?;
        Ok(0)
    }

    fn write(&self, converter: &Converter<'_>, path: &Path) -> Result<u64> {
        let is_same = |path: &Path| path.canonicalize().ok();
        if is_same(path).is_some() && is_same(path) == is_same(&self.input) {
            return Err(Error::user(format!(
                "{} would be read and written at once; write another file with -o",
                path.display()
            )));
        }
        converter.write(path)
    }

    /// Runs both models, if all of their operators are known: small ones in `f64`, large ones in `f32`, one after the
    /// other.
    fn check(
        &self,
        model: &Model,
        converter: &Converter<'_>,
        sizes: &Sizes,
        path: &Path,
        report: &Report,
    ) -> Result<Check> {
        /// Models of more parameters take too long in `f64`.
        const MOST: usize = 1 << 24;
        if !report.unknown.is_empty() {
            return Ok(Check::default());
        }
        let written = Model::open(path)?;
        if report.parameters[0] > MOST || converter.largest_value() > MOST {
            return Ok(Check {
                on_device: difference_on(&device, [model, &written], sizes, self.seed)?,
                ..Check::default()
            });
        }
        Ok(Check {
            exact: converter.difference_in_f64(self.seed)?,
            files: difference_of_files(model, &written, sizes, self.seed)?,
            on_device: None,
        })
    }

    fn norm_name(&self) -> &'static str {
        match self.norm {
            Norm::Rmsnorm => "RMSNorm",
            Norm::Crmsnorm => "CRMSNorm",
        }
    }

    fn to_text(&self, report: &Report, before: u64, after: Option<u64>, check: Option<&Check>) -> String {
        let found = report.converted.len() + report.left.len();
        let norm = self.norm_name();
        let mut lines = vec![format!(
            "{}: {found} LayerNorms, {} of them become {norm}",
            self.input.display(),
            report.converted.len()
        )];
        for left in &report.left {
            lines.push(format!("  left: `{}`, since {}", left.norm, left.why));
        }
        for (node, why) in &report.unknown {
            lines.push(format!("  not understood, and kept as it is: {node}: {why}"));
        }
        lines.push(format!(
            "parameters changed ahead of time: {}; means subtracted elsewhere: {}",
            report.changed,
            report.recentred.len()
        ));
        let [old, new] = report.parameters;
        lines.push(format!("numbers in parameters: {old}, now {new}"));
        if let (Some(bytes), Some(path)) = (after, &self.output) {
            lines.push(format!("written to {}: {before} bytes, now {bytes}", path.display()));
        }
        match check {
            Some(Check {
                exact: Some(exact),
                files: Some(files),
                ..
            }) => lines.push(format!(
                "checked on random inputs: results differ by {:.1e} of their largest in f64, and by {:.1e} as the files are",
                exact.relative, files.relative
            )),
            Some(Check {
                on_device: Some(rounded),
                ..
            }) => lines.push(format!(
                "checked on random inputs: results differ by {:.1e} of their largest in f32, which rounds",
                rounded.relative
            )),
            Some(_) => lines.push(
                "not checked: there are operators that are not known, or results that are not finite".to_string(),
            ),
            None => {}
        }
        lines.join("\n") + "\n"
    }

    fn to_json(&self, report: &Report, before: u64, after: Option<u64>, check: Option<&Check>) -> Value {
        let difference = |difference: &Option<Difference>| match difference {
            Some(difference) => json!({"output": difference.output, "relative": difference.relative}),
            None => Value::Null,
        };
        let left = report
            .left
            .iter()
            .map(|left| json!({"norm": left.norm, "why": left.why}));
        let unknown = report
            .unknown
            .iter()
            .map(|(node, why)| json!({"node": node, "why": why}));
        json!({
            "input": self.input.display().to_string(),
            "norm": self.norm_name(),
            "found": report.converted.len() + report.left.len(),
            "converted": report.converted,
            "left": left.collect::<Vec<Value>>(),
            "unknown": unknown.collect::<Vec<Value>>(),
            "changed_parameters": report.changed,
            "recentred": report.recentred,
            "parameters": report.parameters,
            "bytes": [Some(before), after],
            "output": self.output.as_ref().filter(|_| !self.dry_run).map(|path| path.display().to_string()),
            "difference_f64": check.map_or(Value::Null, |check| difference(&check.exact)),
            "difference_f32": check.map_or(Value::Null, |check| difference(&check.on_device)),
            "difference_files": check.map_or(Value::Null, |check| difference(&check.files)),
        })
    }
}
