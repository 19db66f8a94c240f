//! The adapters of a saved model: where its own belong, and which others are added.

use lessen_base::{Error, Result};
use lessen_nn::Model;
use lessen_nn::checkpoint::{ModelFolder, WeightedAdapter};
use lessen_task::agreement;
use std::mem::discriminant;
use std::path::{Path, PathBuf};

/// The adapters of a saved model.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AdapterOptions {
    /// The folder of the model that its own adapters belong to, where it is another than they name.
    pub base: Option<PathBuf>,
    /// Folders of adapters that are added to the model, and to its own adapters, each with a weight.
    pub added: Vec<WeightedAdapter>,
}

impl AdapterOptions {
    /// The folder of a model with these adapters.
    ///
    /// # Errors
    /// A base model that is in no folder, or beside a whole model; what is no folder of adapters, one that is given
    /// twice or is the model's own, and a weight that is no finite number.
    pub fn of<'a>(&'a self, dir: &'a Path) -> Result<ModelFolder<'a>> {
        let folder = ModelFolder::from(dir);
        if let Some(base) = &self.base {
            agreement::check_base(folder, base).map_err(|error| error.at(format!("--base {}", base.display())))?;
        }
        let place = |adapter: &WeightedAdapter| format!("--adapter {adapter}");
        let own = folder.has_adapters().then(|| real(dir));
        let mut known: Vec<(PathBuf, &WeightedAdapter)> = Vec::new();
        for adapter in &self.added {
            adapter.check().map_err(|error| error.at(place(adapter)))?;
            let real = real(&adapter.dir);
            if own.as_ref() == Some(&real) {
                let what = format!(
                    "these are the adapters of {} itself, which count with the weight 1; leave them out, or name the model that \
                     they belong to in its place",
                    dir.display()
                );
                return Err(Error::user(what).at(place(adapter)));
            }
            if let Some((_, first)) = known.iter().find(|(other, _)| *other == real) {
                let weight = adapter.weight + first.weight;
                let what = format!(
                    "these adapters are given twice; name them once, with the sum of the weights, {}={weight}",
                    first.dir.display()
                );
                return Err(Error::user(what).at(place(adapter)));
            }
            known.push((real, adapter));
        }
        Ok(folder.with_base(self.base.as_deref()).with_adapters(&self.added))
    }

    /// Refuses added adapters with another head than that of the model of a run, whose settings are for its own.
    ///
    /// # Errors
    /// Those adapters, and the errors of [`AdapterOptions::of`].
    pub(super) fn check_head(&self, dir: &Path) -> Result<()> {
        if self.added.is_empty() {
            return Ok(());
        }
        let folder = self.of(dir)?;
        let [own, other] = [folder.with_adapters(&[]), folder].map(Model::from_dir);
        let (own, other) = (own?, other?);
        let [own_class, other_class] = [&own, &other].map(Model::architecture);
        if own_class == other_class && discriminant(&own.task()) == discriminant(&other.task()) {
            return Ok(());
        }
        let shown = dir.display();
        Err(Error::user(format!(
            "--adapter makes a {} of the {} in {shown}, which the settings of the run are for; name {shown} in place of the run",
            other_class.name(),
            own_class.name()
        )))
    }
}

/// A folder by its one true path.
fn real(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf())
}
