//! A folder that a model is read from: a folder with the model itself, or a folder with adapters beside the folder of
//! their base model.

use std::path::{Path, PathBuf};

use super::adapter_config::AdapterConfig;
use super::adapter_files::{ADAPTERS, open_tensors};
use super::file::TensorFile;
use crate::config::Fields;
use lessen_base::{Error, Result};
use serde_json::Value;

/// A Hugging Face folder with a model, or with adapters as `peft` writes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelFolder<'a> {
    dir: &'a Path,
    base: Option<&'a Path>,
}

impl<'a, P: AsRef<Path> + ?Sized> From<&'a P> for ModelFolder<'a> {
    /// The folder; adapters in it belong to the model that their own file names.
    fn from(dir: &'a P) -> ModelFolder<'a> {
        ModelFolder {
            dir: dir.as_ref(),
            base: None,
        }
    }
}

impl<'a> ModelFolder<'a> {
    /// Sets the base model of the folder's adapters, in place of the base model that their own file names.
    pub fn with_base(self, base: Option<&'a Path>) -> ModelFolder<'a> {
        ModelFolder { base, ..self }
    }

    /// The folder itself.
    pub fn path(self) -> &'a Path {
        self.dir
    }

    /// The base model that [`ModelFolder::with_base`] gave.
    pub fn given_base(self) -> Option<&'a Path> {
        self.base
    }

    /// Whether it has adapters in place of a model's weights.
    pub fn has_adapters(self) -> bool {
        let lacks = |name: &str| !self.dir.join(name).exists();
        self.dir.join(ADAPTERS).is_file() && lacks("model.safetensors") && lacks("model.safetensors.index.json")
    }

    /// The folder of the model that the adapters belong to; none where it has the model itself.
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

    /// Fields of `config.json`: the folder's own, or for adapters without this file the base model's, with the head
    /// that the adapters are for. Adapters that untie the head from the token embeddings leave `tie_word_embeddings`
    /// false.
    ///
    /// # Errors
    /// A file that is missing or damaged, and the errors of [`ModelFolder::base`].
    pub(crate) fn fields(self) -> Result<Fields> {
        if !self.has_adapters() {
            return Fields::read(&self.dir.join("config.json"));
        }
        let adapters = AdapterConfig::read(self.dir)?;
        let (_, tensors) = open_tensors(self.dir)?;
        let fields = self.fields_of(&adapters, &tensors)?;
        Ok(match adapters.untied(&fields, &tensors.names()) {
            Some(_) => fields.changed(|map| {
                map.insert("tie_word_embeddings".into(), Value::Bool(false));
            }),
            None => fields,
        })
    }

    /// Fields of `config.json` of the model that adapters belong to, with the head that they are for.
    pub(super) fn fields_of(self, adapters: &AdapterConfig, tensors: &TensorFile) -> Result<Fields> {
        let own = self.dir.join("config.json");
        if own.exists() {
            return Fields::read(&own);
        }
        let base = self.base_of(adapters)?;
        adapters.fields_over(Fields::read(&base.join("config.json"))?, tensors)
    }
}
