//! `lessen energy`

use super::candidates;
use super::device_args::DeviceArgs;
use super::output_place::{check_place, files_of};
use crate::{say, tell};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use lessen_base::{Error, Result};
use lessen_hardware::bitfusion::{Accelerator, BitFusion, GroupMapping};
use lessen_hardware::{BitSerial, Bits, BitsByLayer};
use lessen_jobs::energy::{EnergyReport, LayerSource};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The name of the machine that the command runs on.
const THIS_CPU: &str = "cpu";

/// Flags of `lessen energy`.
#[derive(Args)]
pub struct Energy {
    /// Recipe, folder of a run or of Hugging Face, ONNX file, TOML file with [[layer]] tables, or a published network:
    /// mobilenet-v1, mobilenet-v2, mobilenet-v2-cifar, vgg-16, resnet-50, densenet-bc-190
    #[arg(value_name = "MODEL", add = candidates::recipes())]
    model: String,
    /// Bits of all layers: a number, such as 8, w4a8 for weights of 4 and activations of 8 bits, or a TOML file with
    /// default and a table layers of bits by name [default: those of the model, where it has its own]
    #[arg(long, value_name = "BITS")]
    bits: Option<String>,
    /// Hardware: bf_e or bf_s (the published configurations of BitFusion), haq (bit-serial, cycles alone), cpu (the
    /// measured roofline of this machine), or a TOML file of an accelerator like BitFusion
    #[arg(long, value_name = "NAME|FILE", default_value = "bf_e", value_hint = ValueHint::FilePath)]
    accelerator: String,
    /// Examples of a batch
    #[arg(long, value_name = "N", default_value_t = 16)]
    batch: usize,
    /// Tokens of a text, for models of texts [default: 128, or the most that the model reads]
    #[arg(long, value_name = "N")]
    length: Option<usize>,
    /// How BitFusion computes convolutions with groups; the totals of the others are shown beside [default: per-group]
    #[arg(long, value_name = "CHOICE",
          value_parser = PossibleValuesParser::new(GroupMapping::ALL.map(GroupMapping::name)))]
    depthwise: Option<String>,
    /// Also write a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

impl Energy {
    /// Models the layers; the exit code.
    pub fn run(self) -> Result<u8> {
        if let Some(page) = &self.html {
            let mut read = files_of(Path::new(&self.model))?;
            read.extend(self.bits.iter().chain([&self.accelerator]).map(PathBuf::from));
            check_place(page, &read, &[])?;
        }
        let source = LayerSource {
            model: &self.model,
            batch: self.batch,
            length: self.length,
            bits: self.bits.as_deref().map(bits).transpose()?,
        };
        let groups = match &self.depthwise {
            Some(word) => Some(GroupMapping::parse(word)?),
            None => None,
        };
        let other = [THIS_CPU, BitSerial::HAQ].contains(&self.accelerator.as_str());
        if other && groups.is_some() {
            return Err(Error::user(format!(
                "--depthwise is for accelerators like BitFusion; leave it out with --accelerator {}",
                self.accelerator
            )));
        }
        // An accelerator with a mistake is refused before a model is read.
        let bit_fusion = match other {
            true => None,
            false => Some(BitFusion::new(self.bit_fusion()?, groups.unwrap_or_default())),
        };
        let layers = source.layers(&self.device.new_backend())?;
        let report = match bit_fusion {
            Some(hardware) => EnergyReport::bit_fusion(layers, &hardware)?,
            None if self.accelerator == THIS_CPU => {
                let roofline = lessen::bench::roofline::measure(self.device.threads())?;
                EnergyReport::new(layers, &roofline)?
            }
            None => EnergyReport::new(layers, &BitSerial::haq())?,
        };
        report.missing().iter().for_each(|sentence| tell(sentence));
        if let Some(path) = &self.html {
            report.write_html(path)?;
        }
        let shown = self.html.as_ref().map(|path| path.display().to_string());
        say(&if self.json {
            let mut object = report.to_json();
            if let Some(path) = shown {
                object["page"] = json!(path);
            }
            format!("{object}\n")
        } else {
            let written = shown.map(|path| format!("\nwritten to {path}\n"));
            report.to_text() + &written.unwrap_or_default()
        })?;
        Ok(0)
    }

    fn bit_fusion(&self) -> Result<Accelerator> {
        if let Some(found) = Accelerator::named(&self.accelerator) {
            return Ok(found);
        }
        let path = Path::new(&self.accelerator);
        if !path.exists() {
            return Err(Error::user(format!(
                "--accelerator: there is no hardware and no file called '{}'; take {}, {}, {THIS_CPU} or a TOML file",
                self.accelerator,
                Accelerator::NAMES.join(", "),
                BitSerial::HAQ
            )));
        }
        Accelerator::from_file(path)
    }
}

/// The bits of `--bits`: of the word itself, or of the file that it names.
fn bits(word: &str) -> Result<BitsByLayer> {
    let path = Path::new(word);
    if !path.is_file() {
        let bits = Bits::parse(word).map_err(|e| {
            Error::user(format!(
                "--bits: {}, or the name of a TOML file with bits by layer",
                e.message()
            ))
        });
        return Ok(BitsByLayer::all(bits?));
    }
    let text = fs::read_to_string(path)
        .map_err(|e| Error::user(format!("--bits: {word} cannot be read ({e}); check the file")))?;
    BitsByLayer::parse(&text).map_err(|e| e.at(word))
}
