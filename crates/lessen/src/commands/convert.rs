//! `lessen convert`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lessen::device;
use lessen_base::{Error, Result};
use lessen_nn::NormKind;
use lessen_onnx::{Model, Sizes, size_names};
use lessen_onnx_sessions::{
    Converter, Difference, NormOperators, NormTarget, Report, Work, bounded_sizes, difference_of_files, difference_on,
};
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

/// The most work that is checked in `f64`: half a minute.
const MOST_EXACT: Work = Work {
    operations: 1e10,
    elements: (1 << 26) as f64,
};

/// The most work that is checked on the device, in `f32`: some minutes.
const MOST_ON_DEVICE: Work = Work {
    operations: 2e13,
    elements: (1 << 30) as f64,
};

/// Models of more parameters take too long in `f64`.
const MOST_PARAMETERS: usize = 1 << 24;

/// The largest difference, of the largest element, in `f64` with parameters that are not rounded.
const LARGEST_EXACT: f64 = 1e-6;

/// The largest difference, of the largest element, with the rounded parameters of the files.
const LARGEST_ROUNDED: f64 = 0.02;

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

/// The sizes that a model is converted and checked with.
struct Checked {
    sizes: Sizes,
    /// Sizes that are larger, each as `NAME=N`.
    reduced: Vec<String>,
    is_exact: bool,
}

impl Checked {
    /// The sizes with which the check of a model takes a bounded time and memory.
    fn of(model: &Model, wanted: Sizes) -> Result<Checked> {
        let parameters = model.initializers.values().map(|tensor| tensor.numel());
        let parameters = parameters.fold(0, usize::saturating_add);
        let mut most = if parameters <= MOST_PARAMETERS {
            MOST_EXACT
        } else {
            MOST_ON_DEVICE
        };
        let mut sizes = bounded_sizes(model, &wanted, most)?;
        let mut is_exact = most == MOST_EXACT;
        if is_exact && !Work::of_model(model, &sizes)?.is_within(most) {
            (most, is_exact) = (MOST_ON_DEVICE, false);
            sizes = bounded_sizes(model, &wanted, most)?;
        }
        let reduced = wanted.iter().filter(|(name, size)| sizes.get(*name) != Some(*size));
        Ok(Checked {
            reduced: reduced.map(|(name, size)| format!("{name}={size}")).collect(),
            is_exact,
            sizes,
        })
    }

    /// The sizes as `NAME=N`.
    fn shown(&self) -> String {
        let sizes = self.sizes.iter().map(|(name, size)| format!("{name}={size}"));
        sizes.collect::<Vec<String>>().join(", ")
    }
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
        let checked = Checked::of(&model, sizes(&model, &self.size)?)?;
        let target = match self.norm {
            Norm::Rmsnorm => NormTarget::Rms,
            Norm::Crmsnorm => NormTarget::Crms,
        };
        let operators = match self.target {
            Target::Onnxruntime => NormOperators::OnnxRuntime,
            Target::Opset23 => NormOperators::Standard,
        };
        let converter = Converter::of(&model, &checked.sizes, target, operators)?;
        let report = converter.report();
        let output = self.output.as_deref().filter(|_| !self.dry_run);
        output.map_or(Ok(()), |path| model.check_place(path))?;
        let written = output.map(|path| {
            let check = |written: &Model| match self.no_verify {
                true => Ok(None),
                false => self.check([&model, written], &converter, &checked).map(Some),
            };
            converter.write_checked(path, check)
        });
        let (bytes, check) = written.transpose()?.unzip();
        let (check, before) = (check.flatten(), model.source.all().len);
        say(&if self.json {
            format!("{}\n", self.to_json(&report, before, bytes, (&checked, check.as_ref())))
        } else {
            self.to_text(&report, before, bytes, (&checked, check.as_ref()))
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

    /// Runs both models, as they are in their files: small ones in `f64`, large ones in `f32`, one after the other.
    ///
    /// # Errors
    /// Results that differ.
    fn check(&self, [model, written]: [&Model; 2], converter: &Converter<'_>, checked: &Checked) -> Result<Check> {
        let (sizes, seed) = (&checked.sizes, self.seed);
        let within = |difference: Difference, largest: f64| {
            if difference.relative <= largest {
                return Ok(difference);
            }
            let Difference { output, relative } = difference;
            Err(Error::user(format!(
                "its output `{output}` differs by {relative:.1e} of its largest element"
            )))
        };
        if !checked.is_exact {
            let is_bounded = converter.work().is_within(MOST_ON_DEVICE);
            let found = is_bounded.then(|| difference_on(&device, [model, written], sizes, seed));
            let found = found.transpose()?.flatten();
            return Ok(Check {
                on_device: found.map(|found| within(found, LARGEST_ROUNDED)).transpose()?,
                ..Check::default()
            });
        }
        // A single image or text tells most failures at once.
        let first = size_names(model).into_iter().next();
        if let Some(name) = first.filter(|name| sizes.get(name) != Some(&1)) {
            let mut single = sizes.clone();
            single.insert(name, 1);
            within(difference_of_files(model, written, &single, seed)?, LARGEST_ROUNDED)?;
        }
        Ok(Check {
            exact: Some(within(converter.difference_in_f64(seed)?, LARGEST_EXACT)?),
            files: Some(within(
                difference_of_files(model, written, sizes, seed)?,
                LARGEST_ROUNDED,
            )?),
            on_device: None,
        })
    }

    fn norm_name(&self) -> &'static str {
        match self.norm {
            Norm::Rmsnorm => "RMSNorm",
            Norm::Crmsnorm => "CRMSNorm",
        }
    }

    fn to_text(
        &self,
        report: &Report,
        before: u64,
        after: Option<u64>,
        (checked, check): (&Checked, Option<&Check>),
    ) -> String {
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
        lines.extend(unknown(report));
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
        let taken = if report.unknown.is_empty() {
            ""
        } else {
            ", results of nodes that are not known being random as well"
        };
        match check {
            Some(Check {
                exact: Some(exact),
                files: Some(files),
                ..
            }) => lines.push(format!(
                "checked on random inputs{taken}: results differ by {:.1e} of their largest in f64, and by {:.1e} as the \
                 files are",
                exact.relative, files.relative
            )),
            Some(Check {
                on_device: Some(rounded),
                ..
            }) => lines.push(format!(
                "checked on random inputs: results differ by {:.1e} of their largest in f32, which rounds",
                rounded.relative
            )),
            Some(_) if report.unknown.is_empty() => {
                lines.push("not checked, since it takes too long; give lower sizes with --size".to_string());
            }
            Some(_) => lines.push("not checked, since there are nodes that are not known".to_string()),
            None => {}
        }
        if check.is_some() && !checked.reduced.is_empty() {
            lines.push(format!(
                "checked with {}, since {} takes too long or too much memory",
                checked.shown(),
                checked.reduced.join(", ")
            ));
        }
        lines.join("\n") + "\n"
    }

    fn to_json(
        &self,
        report: &Report,
        before: u64,
        after: Option<u64>,
        (checked, check): (&Checked, Option<&Check>),
    ) -> Value {
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
            "missing_operators": report.missing,
            "unknown": unknown.collect::<Vec<Value>>(),
            "changed_parameters": report.changed,
            "recentred": report.recentred,
            "parameters": report.parameters,
            "bytes": [Some(before), after],
            "output": self.output.as_ref().filter(|_| !self.dry_run).map(|path| path.display().to_string()),
            "sizes": checked.sizes,
            "difference_f64": check.map_or(Value::Null, |check| difference(&check.exact)),
            "difference_f32": check.map_or(Value::Null, |check| difference(&check.on_device)),
            "difference_files": check.map_or(Value::Null, |check| difference(&check.files)),
        })
    }
}

/// Lines about nodes that are not known: one of all missing operators, and one for each reason of other nodes.
fn unknown(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if !report.missing.is_empty() {
        let missing = report.missing.join(", ");
        lines.push(format!(
            "  operators that are not known, whose nodes are kept as they are: {missing}"
        ));
    }
    let is_missing = |why: &str| {
        report
            .missing
            .iter()
            .any(|name| why == format!("the operator {name} is not known"))
    };
    let others = report.unknown.iter().filter(|(_, why)| !is_missing(why));
    lines.extend(others.map(|(node, why)| format!("  not understood, and kept as it is: {node}: {why}")));
    lines
}
