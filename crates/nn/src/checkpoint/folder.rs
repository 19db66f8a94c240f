//! A folder that a model is read from: a folder with the model itself, or a folder with adapters beside the folder of
//! their base model; and the adapters of other folders that are added to it.

use std::path::{Path, PathBuf};

use super::adapter_config::AdapterConfig;
use super::weighted_adapter::{WeightedAdapter, has_adapters};
use lessen_base::{Error, Result};

/// A Hugging Face folder with a model, or with adapters as `peft` writes them, and adapters that are added to it; or in
/// its place an ONNX file with a classifier of images.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ModelFolder<'a> {
    dir: &'a Path,
    base: Option<&'a Path>,
    added: &'a [WeightedAdapter],
    starts: bool,
}

impl<'a, P: AsRef<Path> + ?Sized> From<&'a P> for ModelFolder<'a> {
    /// The folder; adapters in it belong to the model that their own file names.
    fn from(dir: &'a P) -> ModelFolder<'a> {
        ModelFolder {
            dir: dir.as_ref(),
            base: None,
            added: &[],
            starts: false,
        }
    }
}

impl<'a> ModelFolder<'a> {
    /// Sets the base model of the folder's adapters, in place of the base model that their own file names.
    pub fn with_base(self, base: Option<&'a Path>) -> ModelFolder<'a> {
        ModelFolder { base, ..self }
    }

    /// Adds the adapters of other folders. Their products are added to those of the folder's own adapters, if it has
    /// some: a weight is `W + sum_i w_i s_i B_i A_i` with the weights `w_i` of the adapters and the factors `s_i` of
    /// their files, as `add_weighted_adapter` of `peft` has it for `combination_type="cat"`. The folder's own adapters
    /// have the weight 1. Parameters that one of the adapters has whole, such as a head, are taken as they are.
    pub fn with_adapters(self, added: &'a [WeightedAdapter]) -> ModelFolder<'a> {
        ModelFolder { added, ..self }
    }

    /// Makes it one that training starts from: layers beyond those that its `config.json` counts are left out.
    pub fn to_start_from(self) -> ModelFolder<'a> {
        ModelFolder { starts: true, ..self }
    }

    /// Whether training starts from it.
    pub(super) fn starts(self) -> bool {
        self.starts
    }

    /// The folder itself.
    pub fn path(self) -> &'a Path {
        self.dir
    }

    /// Whether it is an ONNX file in place of a folder: a file whose name ends in `.onnx`.
    pub fn is_onnx_file(self) -> bool {
        let ending = self.dir.extension();
        ending.is_some_and(|ending| ending.eq_ignore_ascii_case("onnx")) && self.dir.is_file()
    }

    /// The base model that [`ModelFolder::with_base`] gave.
    pub fn given_base(self) -> Option<&'a Path> {
        self.base
    }

    /// The adapters that [`ModelFolder::with_adapters`] gave.
    pub fn added(self) -> &'a [WeightedAdapter] {
        self.added
    }

    /// Whether it has adapters in place of a model's weights.
    pub fn has_adapters(self) -> bool {
        has_adapters(self.dir)
    }

    /// Whether the model's weights are those of the folder with products of adapters added, its own or others.
    pub(super) fn is_adapted(self) -> bool {
        self.has_adapters() || !self.added.is_empty()
    }

    /// The folder of the model that the folder's own adapters belong to; none where it has the model itself.
    ///
    /// # Errors
    /// Adapters that Lessen does not have, or whose base model is in no folder here.
    pub fn base(self) -> Result<Option<PathBuf>> {
        if self.has_adapters() {
            self.base_of(&AdapterConfig::read(self.dir)?).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The folder of the model that these adapters belong to.
    pub(super) fn base_of(self, adapters: &AdapterConfig) -> Result<PathBuf> {
        let base = match self.base {
            Some(base) => base.to_path_buf(),
            None => self.named_base(adapters)?,
        };
        if ModelFolder::from(&base).has_adapters() {
            return Err(Error::user(format!(
                "the base model of the adapters in {} is {}, a folder of adapters; merge those first, with `lessen export`",
                self.dir.display(),
                base.display()
            )));
        }
        Ok(base)
    }

    /// The folder that the adapters' own file names.
    fn named_base(self, adapters: &AdapterConfig) -> Result<PathBuf> {
        // A relative path is one from where the command runs, as in `peft`, or else from the folder itself.
        let named = adapters.base();
        let places = [PathBuf::from(named), self.dir.join(named)];
        let is_model = |path: &PathBuf| !named.is_empty() && path.join("config.json").is_file();
        let found = places.into_iter().find(is_model);
        found.ok_or_else(|| {
            adapters.error(
                "base_model_name_or_path",
                format!(
                    "names the model that the adapters belong to, \"{named}\", which is no folder of a model here; name its folder \
                     with --base DIR, or model.base in a recipe"
                ),
            )
        })
    }
}
