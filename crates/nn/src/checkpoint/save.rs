//! Writing a checkpoint, as transformers' `save_pretrained` does.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value};

use crate::weights::Weights;
use lessen_base::atomic;
use lessen_base::{Error, Result};

/// Writes `config.json` and `model.safetensors` into `dir`, creating it if needed. Each file is written atomically.
///
/// # Errors
/// A file that cannot be written, which the message names.
pub fn save(dir: &Path, config_json: &Map<String, Value>, weights: &Weights) -> Result<()> {
    fs::create_dir_all(dir).map_err(|e| Error::user(format!("the folder {} cannot be made: {e}", dir.display())))?;
    let header = header(weights);
    atomic::write_with(&dir.join("model.safetensors"), |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        weights
            .values()
            .try_for_each(|weight| write_elements(out, &weight.data))
    })?;
    let mut config = serde_json::to_string_pretty(config_json).expect("a JSON object can be written");
    config.push('\n');
    atomic::write_with(&dir.join("config.json"), |out| out.write_all(config.as_bytes()))
}

/// Makes the header of a safetensors file, padded so that the tensors are aligned to 8 bytes.
fn header(weights: &Weights) -> Vec<u8> {
    let mut offset = 0;
    let infos = weights.iter().map(|(name, weight)| {
        let begin = offset;
        offset += 4 * weight.data.len();
        let info = TensorInfo {
            dtype: Dtype::F32,
            shape: weight.shape.clone(),
            data_offsets: (begin, offset),
        };
        (name.clone(), info)
    });
    // Some versions of transformers refuse files without a format.
    let format = HashMap::from([("format".to_string(), "pt".to_string())]);
    let metadata = Metadata::new(Some(format), infos.collect()).expect("weights have as many elements as their shape");
    let mut header = serde_json::to_vec(&metadata).expect("a header can be written");
    header.resize(header.len().next_multiple_of(8), b' ');
    header
}

fn write_elements(out: &mut dyn Write, data: &[f32]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for chunk in data.chunks(1 << 14) {
        bytes.clear();
        bytes.extend(chunk.iter().flat_map(|value| value.to_le_bytes()));
        out.write_all(&bytes)?;
    }
    Ok(())
}
