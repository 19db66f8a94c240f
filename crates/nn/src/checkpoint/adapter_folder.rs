//! A folder of adapters that is open: the weights of the base model with the adapters' products added.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::adapter_config::AdapterConfig;
use super::adapter_files::open_tensors;
use super::file::TensorFile;
use super::folder::ModelFolder;
use super::found::{Found, Rest, Take};
use super::names::{Tied, tied_head};
use super::tensor_names::{
    EMBEDDING_MATRICES, embedding_layer, is_beside_adapter, is_left_over, parameter_of, variants,
};
use crate::lora::{Adapter, adapter_layer};
use crate::model::Model;
use crate::params::ParamSpec;
use lessen_base::{Error, Result};

/// A folder of adapters that is open.
pub(super) struct AdapterFolder {
    config: AdapterConfig,
    base: PathBuf,
    file: TensorFile,
    path: PathBuf,
    /// The name of the tensor of each parameter.
    tensors: BTreeMap<String, String>,
    model: Model,
    /// The head that the base model ties to its token embeddings.
    words: Option<Tied>,
    /// Whether the adapters untie the two.
    is_untied: bool,
}

impl AdapterFolder {
    pub(super) fn open(folder: ModelFolder<'_>) -> Result<AdapterFolder> {
        let config = AdapterConfig::read(folder.path())?;
        let base = folder.base_of(&config)?;
        let (path, file) = open_tensors(folder.path())?;
        let fields = folder.fields_of(&config, &file)?;
        let named = file.names().into_iter();
        let tensors = named
            .filter_map(|tensor| Some((parameter_of(&tensor)?, tensor)))
            .collect();
        Ok(AdapterFolder {
            model: Model::from_dir(folder)?,
            is_untied: config.untied(&fields, &file.names()).is_some(),
            words: tied_head(&fields),
            config,
            base,
            file,
            path,
            tensors,
        })
    }

    /// The tensor of a parameter, if there is one.
    fn tensor(&self, param: &str) -> Option<&String> {
        variants(param).find_map(|name| self.tensors.get(&name))
    }

    /// The tensor with the whole values of a parameter, without an adapter's product, if the folder has them.
    fn whole(&self, param: &str) -> Option<String> {
        self.tensor(param).or_else(|| self.shared(param)).cloned()
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

    /// The parameter of the base model that a parameter begins as.
    fn in_base(&self, param: &ParamSpec) -> ParamSpec {
        match &self.words {
            Some(words) if self.is_untied && param.name == words.copy => ParamSpec {
                name: words.source.clone(),
                ..param.clone()
            },
            _ => param.clone(),
        }
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

    /// The adapter of a parameter with the elements of both matrices, if it has one.
    fn adapter(&mut self, param: &ParamSpec) -> Result<Option<Matrices>> {
        let Some(found) = self.find_adapter(param) else {
            return Ok(None);
        };
        let FoundAdapter { adapter, a, b, .. } = &found;
        Ok(Some(Matrices {
            scale: self.config.scale(&found.layer, adapter.rank)?,
            a: self.read(a, &[adapter.rank, adapter.inputs])?,
            b: self.read(b, &[adapter.outputs, adapter.rank])?,
            adapter: found.adapter,
            is_transposed: found.is_transposed,
        }))
    }

    /// [`load_with`](super::load::load_with) of parameters with the adapters' products added.
    pub(super) fn load(
        &mut self,
        params: &[ParamSpec],
        may_lack: &dyn Fn(&str) -> bool,
        take: &mut Take<'_>,
    ) -> Result<Rest> {
        let mut base = self.open_base(params, may_lack)?;
        self.check(&mut base, params)?;
        for param in params {
            self.visit(&mut base, param, take)?;
        }
        let mut rest = base.rest();
        rest.missing.retain(|name| self.whole(name).is_none());
        Ok(rest)
    }

    /// Opens the parameters in the base model, which may lack parameters that the folder has.
    pub(super) fn open_base(&self, params: &[ParamSpec], may_lack: &dyn Fn(&str) -> bool) -> Result<Found> {
        let of_base: Vec<ParamSpec> = params.iter().map(|param| self.in_base(param)).collect();
        let begins = |name: &str| {
            let mut all = params.iter().zip(&of_base);
            all.any(|(param, base)| base.name == name && self.whole(&param.name).is_none())
        };
        Found::of(&self.base, &of_base, &|name| may_lack(name) || !begins(name))
    }

    /// Checks all that can be wrong with the parameters, but for a file that cannot be read any more.
    pub(super) fn check(&mut self, base: &mut Found, params: &[ParamSpec]) -> Result<()> {
        self.check_tensors(params)?;
        for param in params {
            self.check_adapter(param)?;
            match self.whole(&param.name) {
                Some(tensor) => self.file.check_f32(&tensor, &param.shape)?,
                None => base.check_one(&self.in_base(param))?,
            }
        }
        self.check_copy(params)?;
        base.check_tied(params)
    }

    /// Checks rank, shapes and dtypes of the adapter of a parameter, and that the parameters that the file names have
    /// one.
    fn check_adapter(&self, param: &ParamSpec) -> Result<()> {
        if let Some(FoundAdapter {
            adapter, layer, a, b, ..
        }) = self.find_adapter(param)
        {
            self.config.check_layer(&layer, adapter.rank)?;
            self.file.check_f32(&a, &[adapter.rank, adapter.inputs])?;
            return self.file.check_f32(&b, &[adapter.outputs, adapter.rank]);
        }
        let (Some(layer), 2) = (param.name.strip_suffix(".weight"), param.shape.len()) else {
            return Ok(());
        };
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

    /// Refuses two different tensors of parameters that the model ties.
    fn check_copy(&mut self, params: &[ParamSpec]) -> Result<()> {
        const COUNT: usize = 1 << 16;
        let Some(words) = self.words.as_ref().filter(|_| !self.is_untied) else {
            return Ok(());
        };
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

    /// The adapter of a parameter and the tensors of both matrices, if it has one.
    fn find_adapter(&self, param: &ParamSpec) -> Option<FoundAdapter> {
        let transposed = self.model.fan_in_fan_out() && !self.model.is_head(&param.name);
        let adapter = Adapter::beside(param, transposed)?;
        let of_layer = |name: &str| {
            Some((
                format!("{}.{name}", param.name.strip_suffix(".weight")?),
                name.to_string(),
            ))
        };
        let linear = [adapter.a(), adapter.b()];
        let table: Vec<String> = EMBEDDING_MATRICES
            .iter()
            .filter_map(|name| Some(of_layer(name)?.0))
            .collect();
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

    /// Shows the elements of a parameter to `take`: the folder's elements if the folder has the parameter, otherwise
    /// the base model's elements; in either case with the adapter's product added.
    pub(super) fn visit(&mut self, base: &mut Found, param: &ParamSpec, take: &mut Take<'_>) -> Result<()> {
        let matrices = self.adapter(param)?;
        let mut add = |first: usize, part: &[f32]| {
            let Some(Matrices {
                adapter,
                scale,
                is_transposed,
                a,
                b,
            }) = &matrices
            else {
                return take(param, first, part);
            };
            let mut merged = part.to_vec();
            adapter.merge((*scale, *is_transposed), (a, b), first, &mut merged);
            take(param, first, &merged)
        };
        let Some(tensor) = self.whole(&param.name) else {
            return base.visit(&self.in_base(param), &mut |_, first, part| add(first, part));
        };
        let mut first = 0;
        self.file.visit_f32(&tensor, &param.shape, &mut |part| {
            add(first, part)?;
            first += part.len();
            Ok(())
        })
    }

    /// Refuses tensors that belong to none of the parameters of a model.
    fn check_tensors(&self, params: &[ParamSpec]) -> Result<()> {
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
struct Matrices {
    adapter: Adapter,
    scale: f64,
    /// Whether the weight is `[in, out]`.
    is_transposed: bool,
    a: Vec<f32>,
    b: Vec<f32>,
}
