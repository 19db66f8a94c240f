//! Copying a checkpoint with its weights in another dtype.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use super::adapters::merge;
use super::dtype::WeightDtype;
use super::folder::ModelFolder;
use super::names::{beside_packed, unpacked};
use super::packed::Packed;
use super::save::{Stored, create, write_config, write_stored};
use super::scales::{Scales, beside};
use super::shards::Checkpoint;
use crate::config::Fields;
use lessen_base::{Result, atomic};
use safetensors::Dtype;

/// Writes the `config.json` and the tensors of the folder `source` to the folder `target`, creating it if needed, with
/// weights in `dtype`. Tensors keep their names, and integer tensors their dtype; integers with scales beside, and
/// codes of 4 bits, become the numbers that they stand for. Blocks are read and written one after another, so at most
/// a few MiB are in memory, or a matrix of 4 bits `[in, out]`. Shards become one file. Each file is written
/// atomically; to write the whole folder atomically, use [`write_folder`](lessen_base::atomic::write_folder).
///
/// Of a folder of adapters, and with the adapters of other folders, it writes the model that the adapters belong to,
/// with the adapters' products added to its weights.
///
/// # Errors
/// A missing, truncated or damaged file of `source`, a file that cannot be written, and a number that `dtype` does not
/// reach.
pub fn convert<'a>(source: impl Into<ModelFolder<'a>>, target: &Path, dtype: WeightDtype) -> Result<()> {
    let folder = source.into();
    if folder.is_adapted() {
        return merge(folder, target, dtype);
    }
    let source = folder.path();
    let config = Fields::read(&source.join("config.json"))?.into_map();
    let mut checkpoint = Checkpoint::open(source)?;
    let mut tensors = checkpoint.tensors();
    let scales = scales_of(&mut checkpoint, &tensors)?;
    let packed = packed_of(&mut checkpoint, &tensors)?;
    let of_codes = packed.keys().flat_map(|name| beside_packed(name));
    let are_beside: BTreeSet<String> = scales.keys().flat_map(|name| beside(name)).chain(of_codes).collect();
    tensors.retain(|tensor| !are_beside.contains(&tensor.name));
    for tensor in &mut tensors {
        let name = unpacked(&tensor.name).unwrap_or_default();
        if let Some(own) = packed.get(name) {
            (tensor.name, tensor.shape, tensor.dtype) = (name.to_string(), own.shape(), dtype.stored());
        } else if !is_integer(tensor.dtype) || scales.contains_key(&tensor.name) {
            tensor.dtype = dtype.stored();
        }
    }
    create(target)?;
    let path = target.join("model.safetensors");
    write_stored(&path, &tensors, |tensor, out| {
        let Stored { name, shape, .. } = tensor;
        let fail = |error| atomic::error_of(&path, error);
        if let Some(own) = packed.get(name) {
            let mut put = |part: &[f32]| dtype.write(name, part, out).map_err(fail);
            return own.numbers(&mut checkpoint, &mut put).map_err(io::Error::other);
        }
        let file = checkpoint.file(name);
        let copied = if let Some(scales) = scales.get(name) {
            let mut first = 0;
            file.visit(name, &mut |integers| {
                let numbers = scales.restore(first, integers);
                first += integers.len();
                dtype.write(name, &numbers, out).map_err(fail)
            })
        } else if is_integer(tensor.dtype) {
            file.visit(name, &mut |bytes| out.write_all(bytes).map_err(fail))
        } else {
            file.visit_f32(name, shape, &mut |part| dtype.write(name, part, out).map_err(fail))
        };
        copied.map_err(io::Error::other)
    })?;
    write_config(&target.join("config.json"), config, dtype)
}

/// The tensors in whose place there are codes of 4 bits, by their names.
fn packed_of(checkpoint: &mut Checkpoint, tensors: &[Stored]) -> Result<BTreeMap<String, Packed>> {
    let mut all = BTreeMap::new();
    for name in tensors.iter().filter_map(|tensor| unpacked(&tensor.name)) {
        if let Some(packed) = Packed::of(checkpoint, name, None)? {
            all.insert(name.to_string(), packed);
        }
    }
    Ok(all)
}

/// The scales of tensors of integers that have some beside.
fn scales_of(checkpoint: &mut Checkpoint, tensors: &[Stored]) -> Result<BTreeMap<String, Scales>> {
    let mut all = BTreeMap::new();
    for Stored { name, shape, .. } in tensors {
        let [scale, _] = beside(name);
        if checkpoint.stored(&scale).is_none() {
            continue;
        }
        if let Some(scales) = Scales::of(checkpoint, name, shape)? {
            all.insert(name.clone(), scales);
        }
    }
    Ok(all)
}

fn is_integer(dtype: Dtype) -> bool {
    matches!(
        dtype,
        Dtype::BOOL
            | Dtype::U8
            | Dtype::I8
            | Dtype::U16
            | Dtype::I16
            | Dtype::U32
            | Dtype::I32
            | Dtype::U64
            | Dtype::I64
    )
}
