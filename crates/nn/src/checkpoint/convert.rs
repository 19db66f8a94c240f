//! Copying a checkpoint with its weights in another dtype.

use std::io;
use std::path::Path;

use super::adapters::merge;
use super::dtype::WeightDtype;
use super::folder::ModelFolder;
use super::save::{Stored, create, write_config, write_stored};
use super::shards::Checkpoint;
use crate::config::Fields;
use lessen_base::{Result, atomic};
use safetensors::Dtype;

/// Writes the `config.json` and the tensors of the folder `source` to the folder `target`, creating it if needed, with
/// weights in `dtype`. Tensors keep their names, and integer tensors their dtype. Blocks are read and written one after
/// another, so at most a few MiB are in memory. Shards become one file. Each file is written atomically; to write the
/// whole folder atomically, use [`write_folder`](lessen_base::atomic::write_folder).
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
    for tensor in tensors.iter_mut().filter(|tensor| !is_integer(tensor.dtype)) {
        tensor.dtype = dtype.stored();
    }
    create(target)?;
    let path = target.join("model.safetensors");
    write_stored(&path, &tensors, |tensor, out| {
        let Stored { name, shape, .. } = tensor;
        let (file, fail) = (checkpoint.file(name), |error| atomic::error_of(&path, error));
        let copied = if is_integer(tensor.dtype) {
            file.visit(name, &mut |bytes| out.write_all(bytes).map_err(fail))
        } else {
            file.visit_f32(name, shape, &mut |part| dtype.write(name, part, out).map_err(fail))
        };
        copied.map_err(io::Error::other)
    })?;
    write_config(target, config, dtype)
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
