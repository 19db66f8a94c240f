//! Folders of adapters that are added to a model, each with a weight.

use std::fmt;
use std::path::{Path, PathBuf};

use super::adapter_files::ADAPTERS;
use lessen_base::{Error, Result};

/// A folder of adapters and the factor of their products in the sum of several.
#[derive(Clone, PartialEq, Debug)]
pub struct WeightedAdapter {
    /// The folder.
    pub dir: PathBuf,
    /// The weight, any finite number. It is for products alone: parameters that the folder has whole are taken as they
    /// are.
    pub weight: f64,
}

impl WeightedAdapter {
    /// Refuses what is no folder of adapters, and a weight that is no finite number.
    ///
    /// # Errors
    /// These.
    pub fn check(&self) -> Result<()> {
        let shown = self.dir.display();
        let what = if !self.weight.is_finite() {
            format!("the weight {} is no finite number; choose one such as 0.5", self.weight)
        } else if !self.dir.is_dir() {
            format!("there is no folder {shown}; check the path")
        } else if has_adapters(&self.dir) {
            return Ok(());
        } else if has_adapters(&self.dir.join("model")) {
            let model = self.dir.join("model");
            format!("{shown} is a run; name the folder of its adapters, {}", model.display())
        } else if self.dir.join(ADAPTERS).is_file() {
            format!(
                "{shown} has {ADAPTERS}, but also a whole model, whose weights may have the adapters in them; name a folder \
                 with adapters alone, as peft's save_pretrained writes it"
            )
        } else {
            format!("{shown} has no {ADAPTERS}; name a folder of adapters, as peft's save_pretrained writes it")
        };
        Err(Error::user(what))
    }
}

impl fmt::Display for WeightedAdapter {
    /// `DIR`, or `DIR=WEIGHT` where the weight is not 1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.dir.display(), self.weight) {
            (dir, 1.0) => write!(f, "{dir}"),
            (dir, weight) => write!(f, "{dir}={weight}"),
        }
    }
}

/// Whether a folder has adapters in place of a model's weights.
pub(super) fn has_adapters(dir: &Path) -> bool {
    let lacks = |name: &str| !dir.join(name).exists();
    dir.join(ADAPTERS).is_file() && lacks("model.safetensors") && lacks("model.safetensors.index.json")
}
