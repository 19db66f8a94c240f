//! Writing a checkpoint, as transformers' `save_pretrained` does, tensor by tensor.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use lessen_graph::{DType, Type};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value};

use super::dtype::WeightDtype;
use crate::config::put_dtype;
use crate::quantization_config::CONFIG;
use crate::weights::Weights;
use lessen_base::atomic;
use lessen_base::{Error, Result};

/// Takes elements of a tensor, some after others.
pub type Sink<'a> = dyn FnMut(&[f32]) -> io::Result<()> + 'a;

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
    save_with(dir, config_json, WeightDtype::F32, &entries, |entry, sink| {
        sink(&weights[&entry.name].data)
    })
}

/// [`save`] in a dtype. `show` passes the elements of each tensor to the sink; the entries' own dtypes do not matter.
///
/// # Errors
/// A file that cannot be written, which the message names, and a number that the dtype does not reach.
pub fn save_with(
    dir: &Path,
    config_json: &Map<String, Value>,
    dtype: WeightDtype,
    entries: &[Entry],
    show: impl FnMut(&Entry, &mut Sink<'_>) -> io::Result<()>,
) -> Result<()> {
    create(dir)?;
    write_weights(&dir.join("model.safetensors"), entries, dtype, show)?;
    write_config(&dir.join("config.json"), config_json.clone(), dtype)
}

/// Writes a safetensors file of weights in a dtype atomically, as [`save_with`].
pub(super) fn write_weights(
    path: &Path,
    entries: &[Entry],
    dtype: WeightDtype,
    mut show: impl FnMut(&Entry, &mut Sink<'_>) -> io::Result<()>,
) -> Result<()> {
    let stored = entries.iter().map(|entry| Stored {
        name: entry.name.clone(),
        dtype: dtype.stored(),
        shape: entry.ty.shape.to_vec(),
    });
    let stored: Vec<Stored> = stored.collect();
    let mut entries = entries.iter();
    write_stored(path, &stored, |tensor, out| {
        let Some(entry) = entries.next() else { return Ok(()) };
        show(entry, &mut |part| dtype.write(&tensor.name, part, out))
    })
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
    let tensors = entries.iter().map(|entry| Stored {
        name: entry.name.clone(),
        dtype: stored(entry.ty.dtype),
        shape: entry.ty.shape.to_vec(),
    });
    let tensors: Vec<Stored> = tensors.collect();
    let mut entries = entries.iter();
    write_stored(path, &tensors, |_, out| {
        entries.next().map_or(Ok(()), |entry| write(entry, out))
    })
}

/// A tensor as a file holds it.
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
}

/// Writes a safetensors file atomically; `write` writes the bytes of each tensor's elements, in order.
pub(super) fn write_stored(
    path: &Path,
    tensors: &[Stored],
    mut write: impl FnMut(&Stored, &mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let header = header(tensors).map_err(|what| Error::user(what).at(path.display()))?;
    atomic::write_with(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        tensors.iter().try_for_each(|tensor| write(tensor, out))
    })
}

/// Creates the folder of a checkpoint, if needed.
pub(super) fn create(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|e| Error::user(format!("the folder {} cannot be made: {e}", dir.display())))
}

/// Writes the `config.json` of a model whose weights have this dtype, and are integers no more, to a file.
pub(super) fn write_config(path: &Path, mut config_json: Map<String, Value>, dtype: WeightDtype) -> Result<()> {
    config_json.remove(CONFIG);
    put_dtype(&mut config_json, dtype.transformers_name());
    write_json(path, &config_json)
}

/// Writes a JSON object to a file.
pub(super) fn write_json(path: &Path, object: &Map<String, Value>) -> Result<()> {
    let text = serde_json::to_string_pretty(object);
    let mut text = text.map_err(|error| Error::user(error.to_string()).at(path.display()))?;
    text.push('\n');
    atomic::write_with(path, |out| out.write_all(text.as_bytes()))
}

/// Makes the header of a safetensors file, padded so that the tensors are aligned to 8 bytes.
///
/// # Errors
/// Two tensors of one name, and tensors of more bytes than can be counted, in words.
fn header(tensors: &[Stored]) -> std::result::Result<Vec<u8>, String> {
    let (mut offset, mut names, mut infos) = (0usize, HashSet::new(), Vec::new());
    for Stored { name, dtype, shape } in tensors {
        let begin = offset;
        let bits = shape
            .iter()
            .try_fold(dtype.bitsize(), |bits, &extent| bits.checked_mul(extent));
        let end = bits.and_then(|bits| begin.checked_add(bits / 8));
        offset = end.ok_or_else(|| format!("the tensor `{name}` of shape {shape:?} is too large"))?;
        if !names.insert(name) {
            return Err(format!("two tensors are called `{name}`"));
        }
        let info = TensorInfo {
            dtype: *dtype,
            shape: shape.clone(),
            data_offsets: (begin, offset),
        };
        infos.push((name.clone(), info));
    }
    // Some versions of transformers refuse files without a format.
    let format = HashMap::from([("format".to_string(), "pt".to_string())]);
    let metadata = Metadata::new(Some(format), infos).map_err(|error| error.to_string())?;
    let mut header = serde_json::to_vec(&metadata).map_err(|error| error.to_string())?;
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok(header)
}

/// The dtype's name in safetensors.
pub(super) fn stored(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::BF16 => Dtype::BF16,
        DType::I32 => Dtype::I32,
        DType::U32 => Dtype::U32,
        DType::U8 => Dtype::U8,
        DType::Bool => Dtype::BOOL,
    }
}
