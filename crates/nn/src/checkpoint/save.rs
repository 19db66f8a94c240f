//! Writing a checkpoint, as transformers' `save_pretrained` does, tensor by tensor.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use lessen_graph::{DType, Type};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value};

use crate::weights::Weights;
use lessen_base::atomic;
use lessen_base::{Error, Result};

/// A tensor of a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Name.
    pub name: String,
    /// Dtype and shape.
    pub ty: Type,
}

/// Writes `config.json` and `model.safetensors` into `dir`, creating it if needed. Each file is written atomically.
///
/// # Errors
/// A file that cannot be written, which the message names.
pub fn save(dir: &Path, config_json: &Map<String, Value>, weights: &Weights) -> Result<()> {
    let entries = weights.iter().map(|(name, weight)| Entry {
        name: name.clone(),
        ty: Type::f32(&weight.shape),
    });
    let entries: Vec<Entry> = entries.collect();
    save_with(dir, config_json, &entries, |entry, out| {
        write_elements(out, &weights[&entry.name].data)
    })
}

/// [`save`] of tensors that `write` writes, each as the bytes of its elements, little-endian.
///
/// # Errors
/// A file that cannot be written, which the message names.
pub fn save_with(
    dir: &Path,
    config_json: &Map<String, Value>,
    entries: &[Entry],
    write: impl FnMut(&Entry, &mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    fs::create_dir_all(dir).map_err(|e| Error::user(format!("the folder {} cannot be made: {e}", dir.display())))?;
    write_tensors(&dir.join("model.safetensors"), entries, write)?;
    let mut config = serde_json::to_string_pretty(config_json).expect("a JSON object can be written");
    config.push('\n');
    atomic::write_with(&dir.join("config.json"), |out| out.write_all(config.as_bytes()))
}

/// Writes a safetensors file atomically; `write` writes the bytes of a tensor's elements, little-endian.
///
/// # Errors
/// A file that cannot be written.
pub fn write_tensors(
    path: &Path,
    entries: &[Entry],
    mut write: impl FnMut(&Entry, &mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let header = header(entries);
    atomic::write_with(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        entries.iter().try_for_each(|entry| write(entry, out))
    })
}

/// Makes the header of a safetensors file, padded so that the tensors are aligned to 8 bytes.
fn header(entries: &[Entry]) -> Vec<u8> {
    let mut offset = 0;
    let infos = entries.iter().map(|entry| {
        let begin = offset;
        offset += entry.ty.bytes();
        let info = TensorInfo {
            dtype: stored(entry.ty.dtype),
            shape: entry.ty.shape.clone(),
            data_offsets: (begin, offset),
        };
        (entry.name.clone(), info)
    });
    // Some versions of transformers refuse files without a format.
    let format = HashMap::from([("format".to_string(), "pt".to_string())]);
    let metadata = Metadata::new(Some(format), infos.collect()).expect("offsets follow from dtypes and shapes");
    let mut header = serde_json::to_vec(&metadata).expect("a header can be written");
    header.resize(header.len().next_multiple_of(8), b' ');
    header
}

/// The dtype's name in safetensors.
pub(super) fn stored(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::BF16 => Dtype::BF16,
        DType::I32 => Dtype::I32,
        DType::U32 => Dtype::U32,
        DType::Bool => Dtype::BOOL,
    }
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
