//! `lessen convert` of a Hugging Face folder.

use std::path::Path;

use lessen::device;
use lessen_base::Result;
use lessen_nn::NormKind;
use lessen_saved::norm_conversion::{Check, ConvertedFolder, convert_folder, convert_folder_to_llama};
use lessen_task::device::NewBackend;
use serde_json::{Value, json};

/// The model that a folder becomes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The same model with other norms.
    Norm(NormKind),
    /// A Llama, with RMSNorm.
    Llama,
}

impl Wanted {
    fn norm(self) -> NormKind {
        match self {
            Wanted::Norm(norm) => norm,
            Wanted::Llama => NormKind::Rms,
        }
    }
}

/// Converts a folder; returns the text to print.
///
/// # Errors
/// As [`convert_folder`] and [`convert_folder_to_llama`].
pub fn converted(
    source: &Path,
    out: Option<&Path>,
    wanted: Wanted,
    check: Option<u64>,
    as_json: bool,
) -> Result<String> {
    let device = NewBackend::new(device);
    let check = check.map(|seed| Check { seed, device: &device });
    let found = match wanted {
        Wanted::Norm(norm) => convert_folder(source, out, norm, check)?,
        Wanted::Llama => convert_folder_to_llama(source, out, check)?,
    };
    Ok(if as_json {
        format!("{}\n", to_json(source, out, wanted, &found))
    } else {
        to_text(source, out, wanted, &found)
    })
}

fn to_text(source: &Path, out: Option<&Path>, wanted: Wanted, found: &ConvertedFolder) -> String {
    let all = found.converted.len() + found.left.len();
    let mut lines = vec![format!(
        "{}: {all} LayerNorms, {} of them are computed as {}",
        source.display(),
        found.converted.len(),
        match wanted.norm() {
            NormKind::Crms => "CRMSNorm",
            _ => "RMSNorm",
        }
    )];
    let left = found
        .left
        .iter()
        .map(|(place, why)| format!("  left: {place}, since {why}"));
    lines.extend(left);
    lines.push(format!(
        "parameters recentred ahead of time: {}; means subtracted elsewhere: {}",
        found.recentred.len(),
        found.means
    ));
    if let Some(out) = out {
        let form = if wanted == Wanted::Llama { " as a Llama" } else { "" };
        lines.push(format!("written to {}{form}", out.display()));
    }
    if let Some((difference, dtype)) = found.difference {
        lines.push(format!(
            "checked on random inputs: logits differ by {difference:.1e} of the largest in {}",
            dtype.name()
        ));
    }
    lines.join("\n") + "\n"
}

fn to_json(source: &Path, out: Option<&Path>, wanted: Wanted, found: &ConvertedFolder) -> Value {
    let left = found.left.iter().map(|(norm, why)| json!({"norm": norm, "why": why}));
    json!({
        "input": source.display().to_string(),
        "norm": wanted.norm().name(),
        "as": (wanted == Wanted::Llama).then_some("llama"),
        "found": found.converted.len() + found.left.len(),
        "converted": found.converted,
        "left": left.collect::<Vec<Value>>(),
        "changed_parameters": found.recentred.len(),
        "recentred": found.means,
        "output": out.map(|path| path.display().to_string()),
        "difference": found.difference.map(|(difference, dtype)| {
            json!({"relative": difference, "dtype": dtype.name()})
        }),
    })
}
