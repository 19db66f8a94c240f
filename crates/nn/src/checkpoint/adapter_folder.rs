//! A folder of adapters that is open: its tensors by the parameters that they belong to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::adapter_config::AdapterConfig;
use super::adapter_files::open_tensors;
use super::file::TensorFile;
use super::names::Tied;
use super::tensor_names::{
    EMBEDDING_MATRICES, embedding_layer, is_beside_adapter, is_left_over, parameter_of, variants,
};
use crate::lora::{Adapter, adapter_layer};
use crate::params::ParamSpec;
use lessen_base::{Error, Result};

/// The number of elements that are compared at once.
const COUNT: usize = 1 << 16;

/// A folder of adapters that is open.
pub(super) struct AdapterFolder {
    pub(super) config: AdapterConfig,
    /// The factor of its products beside those of other folders.
    weight: f64,
    file: TensorFile,
    path: PathBuf,
    /// The name of the tensor of each parameter.
    tensors: BTreeMap<String, String>,
    /// The head that the base model ties to its token embeddings.
    words: Option<Tied>,
    /// Whether the adapters untie the two.
    is_untied: bool,
    /// The parameters of the model that the adapters were made for; none where no file says which that is.
    made_for: Option<Vec<String>>,
}

impl AdapterFolder {
    /// Opens the files of a folder.
    ///
    /// # Errors
    /// A file that is missing or damaged, and adapters that Lessen does not have.
    pub(super) fn open(dir: &Path, weight: f64) -> Result<AdapterFolder> {
        let config = AdapterConfig::read(dir)?;
        let (path, file) = open_tensors(dir)?;
        let named = file.names().into_iter();
        let tensors = named
            .filter_map(|tensor| Some((parameter_of(&tensor)?, tensor)))
            .collect();
        Ok(AdapterFolder {
            config,
            weight,
            file,
            path,
            tensors,
            words: None,
            is_untied: false,
            made_for: None,
        })
    }

    /// Sets the head that the base model ties to its token embeddings, and whether the adapters untie the two.
    pub(super) fn set_words(&mut self, words: Option<Tied>, is_untied: bool) {
        self.words = words;
        self.is_untied = is_untied;
    }

    /// Sets the parameters of the model that the adapters were made for.
    pub(super) fn set_made_for(&mut self, params: Vec<String>) {
        self.made_for = Some(params);
    }

    /// The file of the tensors.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The tensors.
    pub(super) fn file(&self) -> &TensorFile {
        &self.file
    }

    /// Whether the adapters untie the head from the token embeddings.
    pub(super) fn is_untied(&self) -> bool {
        self.is_untied
    }

    /// The tensor of a parameter, if there is one.
    pub(super) fn tensor(&self, param: &str) -> Option<&String> {
        variants(param).find_map(|name| self.tensors.get(&name))
    }

    /// The tensor with the whole values of a parameter, without an adapter's product, if the folder has them.
    pub(super) fn whole(&self, param: &str) -> Option<&String> {
        self.tensor(param).or_else(|| self.shared(param))
    }

    /// Whether a parameter was trained whole, and is no copy of the base model's beside an adapter.
    pub(super) fn trains_whole(&self, param: &str) -> bool {
        self.whole(param).is_some_and(|tensor| !is_beside_adapter(tensor))
    }

    /// The tensor of the parameter that a tied one shares its values with. Modules that are trained whole have their
    /// own.
    fn shared(&self, param: &str) -> Option<&String> {
        let words = self.words.as_ref()?;
        let other = match param {
            _ if param == words.source => words.copy,
            _ if param == words.copy => &words.source,
            _ => return None,
        };
        let tensor = self.tensor(other)?;
        let module = other.strip_suffix(".weight").unwrap_or(other);
        let is_own = self.is_untied && !is_beside_adapter(tensor) && self.config.targets().are_whole(module);
        (!is_own).then_some(tensor)
    }

    /// The adapter of a parameter with the elements of both matrices, if it has one. `transposed` says whether the
    /// parameter is `[in, out]`.
    pub(super) fn adapter(&mut self, param: &ParamSpec, transposed: bool) -> Result<Option<Matrices>> {
        let Some(found) = self.find_adapter(param, transposed) else {
            return Ok(None);
        };
        let FoundAdapter { adapter, a, b, .. } = &found;
        Ok(Some(Matrices {
            scale: self.weight * self.config.scale(&found.layer, adapter.rank)?,
            a: self.read(a, &[adapter.rank, adapter.inputs])?,
            b: self.read(b, &[adapter.outputs, adapter.rank])?,
            adapter: found.adapter,
            is_transposed: found.is_transposed,
        }))
    }

    /// The elements of a tensor.
    fn read(&mut self, tensor: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let mut all = Vec::with_capacity(shape.iter().product());
        self.file.visit_f32(tensor, shape, &mut |part| {
            all.extend_from_slice(part);
            Ok(())
        })?;
        Ok(all)
    }

    /// Shows the elements of a parameter that the folder has whole to `take`, some after others, with the number of the
    /// first of them.
    pub(super) fn visit_whole(
        &mut self,
        param: &ParamSpec,
        take: &mut dyn FnMut(usize, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let Some(tensor) = self.whole(&param.name).cloned() else {
            return Ok(());
        };
        let mut first = 0;
        self.file.visit_f32(&tensor, &param.shape, &mut |part| {
            take(first, part)?;
            first += part.len();
            Ok(())
        })
    }

    /// Checks shape and dtype of a parameter that the folder has whole.
    pub(super) fn check_whole(&self, param: &ParamSpec) -> Result<()> {
        match self.whole(&param.name) {
            Some(tensor) => self.file.check_f32(tensor, &param.shape),
            None => Ok(()),
        }
    }

    /// Checks rank, shapes and dtypes of the adapter of a parameter, and that the parameters that the file names have
    /// one.
    pub(super) fn check_adapter(&self, param: &ParamSpec, transposed: bool) -> Result<()> {
        if let Some(found) = self.find_adapter(param, transposed) {
            let FoundAdapter {
                adapter, layer, a, b, ..
            } = &found;
            self.config.check_layer(layer, adapter.rank)?;
            self.check_widths(&found)?;
            self.file.check_f32(a, &[adapter.rank, adapter.inputs])?;
            return self.file.check_f32(b, &[adapter.outputs, adapter.rank]);
        }
        let (Some(layer), 2) = (param.name.strip_suffix(".weight"), param.shape.len()) else {
            return Ok(());
        };
        if self.made_for.as_ref().is_some_and(|names| !names.contains(&param.name)) {
            return Ok(());
        }
        for name in variants(layer) {
            if !self.config.targets().name(&name)? {
                return Ok(());
            }
        }
        Err(Error::user(format!(
            "{} has no adapter of `{layer}`, which `target_modules` of adapter_config.json names; save the adapters anew, or \
             name the layers that have one",
            self.path.display()
        )))
    }

    /// Refuses an adapter of a layer of other widths.
    fn check_widths(
        &self,
        FoundAdapter {
            adapter, layer, a, b, ..
        }: &FoundAdapter,
    ) -> Result<()> {
        let (Some(&[_, inputs]), Some(&[outputs, _])) = (self.file.shape(a), self.file.shape(b)) else {
            return Ok(());
        };
        if (inputs, outputs) == (adapter.inputs, adapter.outputs) {
            return Ok(());
        }
        Err(Error::user(format!(
            "{}: the adapter of `{layer}` is for {inputs} inputs and {outputs} outputs, but this layer of the model has \
             {} and {}; name adapters that were trained on this model",
            self.path.display(),
            adapter.inputs,
            adapter.outputs
        )))
    }

    /// Refuses two different tensors of the token embeddings and the head that the model ties to them.
    pub(super) fn check_copy(&mut self, params: &[ParamSpec]) -> Result<()> {
        let Some(words) = &self.words else { return Ok(()) };
        let has = |name: &str| params.iter().find(|param| param.name == name);
        let (Some(param), None) = (has(&words.source), has(words.copy)) else {
            return Ok(());
        };
        let (Some(source), Some(copy)) = (self.tensor(&words.source).cloned(), self.tensor(words.copy).cloned()) else {
            return Ok(());
        };
        for first in (0..param.shape.iter().product()).step_by(COUNT) {
            let mut part = |name: &str| self.file.read_part(name, &param.shape, first, COUNT);
            if part(&source)? != part(&copy)? {
                return Err(Error::user(format!(
                    "{}: the tensor `{copy}` differs from `{source}`, which the model ties; name both in `modules_to_save` of \
                     adapter_config.json, without `ensure_weight_tying`",
                    self.path.display()
                )));
            }
        }
        Ok(())
    }

    /// Refuses a parameter that this folder and another have whole with different values.
    pub(super) fn check_same(&mut self, other: &mut AdapterFolder, param: &ParamSpec) -> Result<()> {
        let (Some(one), Some(two)) = (self.whole(&param.name).cloned(), other.whole(&param.name).cloned()) else {
            return Ok(());
        };
        for first in (0..param.shape.iter().product()).step_by(COUNT) {
            let own = self.file.read_part(&one, &param.shape, first, COUNT)?;
            if own != other.file.read_part(&two, &param.shape, first, COUNT)? {
                return Err(Error::user(format!(
                    "{} and {} both have `{}` as a whole (`modules_to_save`, or a bias), with other values, and only products \
                     are summed; leave out one of the two",
                    self.path.display(),
                    other.path.display(),
                    param.name
                )));
            }
        }
        Ok(())
    }

    /// Whether a parameter has an adapter.
    pub(super) fn has_adapter(&self, param: &ParamSpec, transposed: bool) -> bool {
        self.find_adapter(param, transposed).is_some()
    }

    /// The adapter of a parameter and the tensors of both matrices, if it has one.
    fn find_adapter(&self, param: &ParamSpec, transposed: bool) -> Option<FoundAdapter> {
        let adapter = Adapter::beside(param, transposed)?;
        let of_layer = |name: &&str| Some(format!("{}.{name}", param.name.strip_suffix(".weight")?));
        let linear = [adapter.a(), adapter.b()];
        let table: Vec<String> = EMBEDDING_MATRICES.iter().filter_map(of_layer).collect();
        let both = |[a, b]: [&str; 2]| Some((self.tensor(a)?.clone(), self.tensor(b)?.clone()));
        let ((a, b), mut adapter, is_transposed) = match both([&linear[0], &linear[1]]) {
            Some(tensors) => (tensors, adapter, transposed),
            None => (both([&table[0], &table[1]])?, Adapter::beside(param, true)?, true),
        };
        adapter.rank = self
            .file
            .shape(&a)
            .and_then(|shape| shape.first().copied())
            .unwrap_or(0);
        let name = parameter_of(&a)?;
        let layer = adapter_layer(&name).or_else(|| embedding_layer(&name))?.to_string();
        Some(FoundAdapter {
            adapter,
            layer,
            is_transposed,
            a,
            b,
        })
    }

    /// Refuses tensors that belong to none of the parameters of a model.
    pub(super) fn check_tensors(&self, params: &[ParamSpec]) -> Result<()> {
        let is_param = |name: &str| params.iter().any(|param| variants(&param.name).any(|own| own == name));
        let is_tied = |name: &str| self.words.as_ref().is_some_and(|words| words.copy == name);
        let is_layer = |layer: &str| is_param(&format!("{layer}.weight"));
        let is_known = |tensor: &String| {
            let is_of_one = parameter_of(tensor).is_some_and(|name| {
                is_param(&name)
                    || is_tied(&name)
                    || adapter_layer(&name).is_some_and(is_layer)
                    || embedding_layer(&name).is_some_and(is_layer)
            });
            is_of_one || is_left_over(tensor)
        };
        match self.file.names().into_iter().find(|tensor| !is_known(tensor)) {
            None => Ok(()),
            Some(stranger) => Err(Error::user(format!(
                "{}: the tensor `{stranger}` belongs to no parameter of the model; are the adapters of another model?",
                self.path.display()
            ))),
        }
    }
}

/// An adapter and the tensors of both matrices.
struct FoundAdapter {
    adapter: Adapter,
    /// Name of its layer in the folder.
    layer: String,
    /// Whether the weight is `[in, out]`.
    is_transposed: bool,
    a: String,
    b: String,
}

/// An adapter with the elements of both matrices.
pub(super) struct Matrices {
    adapter: Adapter,
    scale: f64,
    /// Whether the weight is `[in, out]`.
    is_transposed: bool,
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Matrices {
    /// Adds the product to elements of the weight from number `first` on.
    pub(super) fn add_to(&self, first: usize, weight: &mut [f64]) {
        let factors = (self.scale, self.is_transposed);
        self.adapter.merge(factors, (&self.a, &self.b), first, weight);
    }
}
