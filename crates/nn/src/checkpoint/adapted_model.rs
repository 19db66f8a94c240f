//! The weights of a base model with the products of adapters added.

use std::path::PathBuf;

use super::adapter_folder::{AdapterFolder, Matrices};
use super::described::Described;
use super::folder::ModelFolder;
use super::found::{Found, Rest};
use super::names::Tied;
use super::receive::Take;
use super::unread::check_unread;
use crate::model::Model;
use crate::params::ParamSpec;
use lessen_base::{Error, Result};

/// A base model and its adapters, whose files are open.
pub(super) struct AdaptedModel {
    base: PathBuf,
    /// Whether training starts from it.
    starts: bool,
    parts: Vec<AdapterFolder>,
    model: Model,
    /// The head that the base model ties to its token embeddings.
    words: Option<Tied>,
    /// Whether the adapters untie the two.
    is_untied: bool,
}

impl AdaptedModel {
    /// Opens the files of a folder's adapters and of those that are added to it.
    ///
    /// # Errors
    /// A file that is missing or damaged, and adapters that do not go together.
    pub(super) fn open(folder: ModelFolder<'_>) -> Result<AdaptedModel> {
        let base = folder.base()?.unwrap_or_else(|| folder.path().to_path_buf());
        let Described {
            words,
            is_untied,
            parts,
            ..
        } = Described::of(folder)?;
        Ok(AdaptedModel {
            base,
            starts: folder.starts(),
            parts,
            model: Model::from_dir(folder).or_else(|_| Model::from_dir_for_states(folder))?,
            words,
            is_untied,
        })
    }

    /// [`load_with`](super::load::load_with) of parameters with the adapters' products added.
    pub(super) fn load(
        &mut self,
        params: &[ParamSpec],
        may_lack: &dyn Fn(&str) -> bool,
        take: &mut Take<'_>,
    ) -> Result<Rest> {
        let mut base = self.open_base(params, may_lack)?;
        let unread = self.check(&mut base, params)?;
        for param in params {
            self.visit(&mut base, param, take)?;
        }
        let mut rest = base.rest(unread);
        rest.missing.retain(|name| !self.has_whole(name));
        Ok(rest)
    }

    /// Opens the parameters in the base model, which may lack parameters that the adapters have.
    pub(super) fn open_base(&self, params: &[ParamSpec], may_lack: &dyn Fn(&str) -> bool) -> Result<Found> {
        let of_base: Vec<ParamSpec> = params.iter().map(|param| self.in_base(param)).collect();
        let begins = |name: &str| {
            let mut all = params.iter().zip(&of_base);
            all.any(|(param, base)| base.name == name && !self.has_whole(&param.name))
        };
        Found::of(&self.base, &of_base, &|name| may_lack(name) || !begins(name))
    }

    /// Checks all that can be wrong with the parameters, but for a file that cannot be read any more. Returns the
    /// tensors of the base model that nothing reads: heads of other tasks.
    pub(super) fn check(&mut self, base: &mut Found, params: &[ParamSpec]) -> Result<Vec<String>> {
        // Only some of the model's parameters may be asked for, such as those of its states.
        let mut all = self.model.parameters();
        all.extend_from_slice(params);
        for part in &self.parts {
            part.check_tensors(&all)?;
        }
        for param in params {
            let transposed = self.is_transposed(param);
            for part in &self.parts {
                part.check_adapter(param, transposed)?;
                part.check_whole(param)?;
            }
            if self.has_whole(&param.name) {
                self.check_whole(param)?;
            } else {
                base.check_one(&self.in_base(param))?;
            }
        }
        if !self.is_untied {
            self.parts.iter_mut().try_for_each(|part| part.check_copy(params))?;
        }
        base.check_tied(params)?;
        let folder = ModelFolder::from(&self.base);
        let folder = if self.starts { folder.to_start_from() } else { folder };
        check_unread(base, params, folder)
    }

    /// Refuses a parameter that two adapters have whole with different values, and one that an adapter has whole and
    /// another changes by a product.
    fn check_whole(&mut self, param: &ParamSpec) -> Result<()> {
        let transposed = self.is_transposed(param);
        let holders = self.holders(&param.name);
        for &holder in &holders {
            let part = &self.parts[holder];
            let mut others = self.parts.iter().enumerate().filter(|(number, _)| *number != holder);
            let adapted = others.find(|(_, other)| other.has_adapter(param, transposed));
            if let Some((_, other)) = adapted.filter(|_| part.trains_whole(&param.name)) {
                return Err(Error::user(format!(
                    "{} has `{}` as a whole (`modules_to_save`), and {} has an adapter of it, which belongs to the values that \
                     the base model has there; leave out one of the two",
                    part.path().display(),
                    param.name,
                    other.path().display()
                )));
            }
        }
        for pair in holders.windows(2) {
            if let Ok([one, other]) = self.parts.get_disjoint_mut([pair[0], pair[1]]) {
                one.check_same(other, param)?;
            }
        }
        Ok(())
    }

    /// The numbers of the adapters that have the whole values of a parameter. Where some were trained, copies of the
    /// base model's values beside another's adapter do not count.
    fn holders(&self, param: &str) -> Vec<usize> {
        let those = |has: &dyn Fn(&AdapterFolder) -> bool| -> Vec<usize> {
            let all = self.parts.iter().enumerate();
            all.filter(|(_, part)| has(part)).map(|(number, _)| number).collect()
        };
        let trained = those(&|part| part.trains_whole(param));
        if trained.is_empty() {
            those(&|part| part.whole(param).is_some())
        } else {
            trained
        }
    }

    /// Shows the elements of a parameter to `take`: an adapter's elements if one has the whole parameter, otherwise the
    /// base model's elements; in either case with the products of all adapters added.
    pub(super) fn visit(&mut self, base: &mut Found, param: &ParamSpec, take: &mut Take<'_>) -> Result<()> {
        let transposed = self.is_transposed(param);
        let found = self.parts.iter_mut().map(|part| part.adapter(param, transposed));
        let products: Vec<Matrices> = found.filter_map(Result::transpose).collect::<Result<_>>()?;
        let mut add = |first: usize, part: &[f32]| {
            if products.is_empty() {
                return take(param, first, part);
            }
            let mut sums: Vec<f64> = part.iter().copied().map(f64::from).collect();
            products.iter().for_each(|product| product.add_to(first, &mut sums));
            let merged: Vec<f32> = sums.into_iter().map(|sum| sum as f32).collect();
            take(param, first, &merged)
        };
        let begins = self.in_base(param);
        let holder = self.holders(&param.name).first().copied();
        match holder.and_then(|holder| self.parts.get_mut(holder)) {
            Some(part) => part.visit_whole(param, &mut add),
            None => base.visit(&begins, &mut |_, first, part| add(first, part)),
        }
    }

    /// Whether one of the adapters has the whole values of a parameter.
    fn has_whole(&self, param: &str) -> bool {
        self.parts.iter().any(|part| part.whole(param).is_some())
    }

    /// Whether a parameter, if it is the weight of a layer, is `[in, out]`.
    fn is_transposed(&self, param: &ParamSpec) -> bool {
        self.model.fan_in_fan_out() && !self.model.is_head(&param.name)
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
}
