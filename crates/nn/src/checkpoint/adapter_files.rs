//! The files of a folder of adapters.

use std::path::{Path, PathBuf};

use super::file::TensorFile;
use lessen_base::lfs::refuse_pointer;
use lessen_base::{Error, Result};

/// The file that makes a folder one of adapters.
pub(super) const ADAPTERS: &str = "adapter_config.json";

/// The file with the tensors of adapters.
pub(super) const TENSORS: &str = "adapter_model.safetensors";

/// The file with the `config.json` of the whole model that adapters were made for. It has a name of its own, since
/// transformers takes a folder with a `config.json` for one of a whole model.
pub(super) const MODEL: &str = "adapter_model_config.json";

/// The file that describes the whole model of adapters, where their folder has it: [`MODEL`], or a `config.json`, as
/// older folders have it.
pub(super) fn model_config(dir: &Path) -> Option<PathBuf> {
    let all = [MODEL, "config.json"].map(|name| dir.join(name));
    all.into_iter().find(|path| path.exists())
}

/// Whether a folder, which has a model's weights, has adapters beside them.
pub(super) fn has_adapters_beside(dir: &Path) -> bool {
    [ADAPTERS, TENSORS].iter().all(|name| dir.join(name).is_file())
}

/// The file with the tensors of a folder of adapters.
///
/// # Errors
/// A file that is missing or damaged.
pub(super) fn open_tensors(dir: &Path) -> Result<(PathBuf, TensorFile)> {
    let path = dir.join(TENSORS);
    let pickled = dir.join("adapter_model.bin");
    if !path.exists() && pickled.exists() {
        refuse_pointer(&pickled)?;
        return Err(Error::user(format!(
            "{} has an adapter_model.bin but no {TENSORS}; save the adapters with a peft of today: \
             `model.save_pretrained(DIR)`",
            dir.display()
        )));
    }
    let file = TensorFile::open(&path)?;
    Ok((path, file))
}
