//! The values of a session's parameters.

use super::Session;
use lessen_base::{Error, Result};
use lessen_device::{Host, HostArray};
use lessen_graph::numel;
use lessen_graph::ops::DequantizeGroups;
use lessen_nn::{ParamSpec, Stored, Weight, Weights};

/// Elements that are converted and copied to the device at once, unless a unit of the storage has more.
const BLOCK: usize = 1 << 16;

/// Last elements of a part of a parameter, fewer than a unit of its storage.
pub(super) struct Unfinished {
    name: String,
    first: usize,
    values: Vec<f32>,
}

impl Session {
    /// Gives parameters the initial values that they were declared with.
    ///
    /// # Errors
    /// A device that fails.
    pub fn draw(&mut self, is_drawn: impl Fn(&str) -> bool, seed: u64) -> Result<()> {
        let drawn: Vec<ParamSpec> = self
            .params
            .iter()
            .filter(|param| is_drawn(&param.name))
            .cloned()
            .collect();
        for param in drawn {
            let (mut values, count) = (param.init.sequence(seed, &param.name), numel(&param.shape));
            for first in (0..count).step_by(BLOCK) {
                let part: Vec<f32> = values.by_ref().take(BLOCK.min(count - first)).collect();
                self.set_part_of(&param, first, &part)?;
            }
        }
        Ok(())
    }

    /// The parameters' values.
    ///
    /// # Errors
    /// A device that fails.
    pub fn weights(&self) -> Result<Weights> {
        let mut weights = Weights::new();
        for param in &self.params {
            let mut data = Vec::new();
            self.show(param, &mut |values| data = values.to_vec())?;
            let shape = param.shape.clone();
            weights.insert(param.name.clone(), Weight { shape, data });
        }
        Ok(weights)
    }

    /// The values of a parameter.
    ///
    /// # Errors
    /// A parameter that the model does not have, a device that fails.
    pub fn weight(&self, name: &str) -> Result<Vec<f32>> {
        let Some(param) = self.params.iter().find(|param| param.name == name) else {
            return Err(Error::user(format!("the model has no parameter `{name}`")));
        };
        let mut data = Vec::new();
        self.show(param, &mut |values| data = values.to_vec())?;
        Ok(data)
    }

    /// Gives parameters other values; a parameter that `weights` lacks keeps its value. Where norms subtract no mean,
    /// parameters are recentred for it.
    ///
    /// # Errors
    /// A name that the model does not have, a wrong shape or number of elements; no parameter has changed then.
    pub fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        weights
            .iter()
            .try_for_each(|(name, weight)| self.check_weight(name, weight))?;
        let mut all = weights.iter();
        all.try_for_each(|(name, weight)| self.set_part(name, 0, &weight.data))?;
        self.recentre()
    }

    /// Refuses a value that no parameter can take.
    fn check_weight(&self, name: &str, weight: &Weight) -> Result<()> {
        let fits = |param: &ParamSpec| param.name == name && param.shape == weight.shape;
        if !self.params.iter().any(fits) {
            return Err(Error::user(format!(
                "the model has no parameter `{name}` of shape {:?}",
                weight.shape
            )));
        }
        check_count(name, weight)
    }

    /// Gives elements of a parameter from number `first` on other values, before [`Session::convert_norms`]. Where the
    /// storage encodes several elements together, parts of a parameter follow each other from its beginning on.
    ///
    /// # Errors
    /// A parameter that the model does not have, or that ends sooner; a part that does not follow the part before it.
    pub fn set_part(&mut self, name: &str, first: usize, values: &[f32]) -> Result<()> {
        let Some(param) = self.params.iter().find(|param| param.name == name) else {
            return Err(Error::user(format!("the model has no parameter `{name}`")));
        };
        let param = param.clone();
        self.set_part_of(&param, first, values)
    }

    /// [`Session::set_part`] of a parameter of the model.
    pub(super) fn set_part_of(&mut self, param: &ParamSpec, first: usize, values: &[f32]) -> Result<()> {
        let (stored, name) = (Stored::from(param), &param.name);
        let count = numel(&param.shape);
        if first.checked_add(values.len()).is_none_or(|end| end > count) {
            return Err(Error::user(format!(
                "the parameter `{name}` has {count} elements, too few for {} from number {first} on",
                values.len()
            )));
        }
        let unit = self.view.storage().unit(stored).max(1);
        if unit == 1 {
            return self.encode(stored, first, values);
        }
        let (first, mut values) = self.continued(name, unit, first, values)?;
        let whole = values.len() / unit * unit;
        if whole > 0 {
            self.encode(stored, first, &values[..whole])?;
            values.drain(..whole);
        }
        self.unfinished = (!values.is_empty()).then(|| Unfinished {
            name: name.to_string(),
            first: first + whole,
            values,
        });
        Ok(())
    }

    /// How rows of codes of 4 bits of a parameter are restored, where it is stored as such; see
    /// [`Session::set_groups`].
    pub fn groups(&self, name: &str) -> Option<DequantizeGroups> {
        let param = self.params.iter().find(|param| param.name == name)?;
        self.view.storage().groups(param.into())
    }

    /// Gives rows of codes of a parameter from number `row` on, and their scales, as [`DequantizeGroups`] has them: the
    /// codes that products read.
    ///
    /// # Errors
    /// A parameter that is not stored so, and rows that it does not have.
    pub fn set_groups(&mut self, name: &str, row: usize, codes: &[u8], scales: &[f32]) -> Result<()> {
        let param = self.params.iter().find(|param| param.name == name);
        let stored = param.and_then(|param| Some((param, self.view.storage().groups(param.into())?)));
        let Some((param, op)) = stored else {
            return Err(Error::user(format!(
                "`{name}` is no parameter that is stored in 4 bits"
            )));
        };
        let [of_codes, of_scales] = op.types(1)?.map(|ty| ty.last());
        let states = self.states_of_param(param.into());
        let (Some(at_codes), Some(at_scales)) = (row.checked_mul(of_codes), row.checked_mul(of_scales)) else {
            return Err(Error::user(format!("the parameter `{name}` has no row {row}")));
        };
        self.model.upload_part(&states[0], at_codes, Host::U8(codes))?;
        self.model.upload_part(&states[1], at_scales, Host::F32(scales))
    }

    /// Joins a part of a parameter with the unfinished unit before it. Returns the number of the first element and the
    /// elements, which begin with a unit.
    fn continued(&mut self, name: &str, unit: usize, first: usize, values: &[f32]) -> Result<(usize, Vec<f32>)> {
        match self.unfinished.take() {
            Some(mut left) if left.name == name && left.first + left.values.len() == first => {
                left.values.extend_from_slice(values);
                Ok((left.first, left.values))
            }
            _ if first.is_multiple_of(unit) => Ok((first, values.to_vec())),
            _ => Err(Error::user(format!(
                "the parameter `{name}` is stored in units of {unit} elements; set them from the beginning of one on"
            ))),
        }
    }

    /// Encodes whole units of a parameter into its states.
    fn encode(&self, param: Stored<'_>, first: usize, values: &[f32]) -> Result<()> {
        let storage = self.view.storage();
        let states = self.states_of_param(param);
        let unit = storage.unit(param).max(1);
        let block = (BLOCK / unit).max(1) * unit;
        for (number, part) in values.chunks(block).enumerate() {
            storage.encode(
                param,
                first + number * block,
                part,
                &mut |state, first, host| match states.get(state) {
                    Some(name) => self.upload_at(name, first, host),
                    None => Err(Error::internal(format!("`{}` has no state number {state}", param.name))),
                },
            )?;
        }
        Ok(())
    }

    /// Shows the values of a parameter to `visit`.
    fn show(&self, param: &ParamSpec, visit: &mut dyn FnMut(&[f32])) -> Result<()> {
        self.show_stored(&self.states_of_param(param.into()), param.into(), visit)
    }

    /// Shows the values of a parameter, or of its average if functions read that.
    pub(super) fn show_result(&self, param: &ParamSpec, visit: &mut dyn FnMut(&[f32])) -> Result<()> {
        if self.view.averages(&param.name) {
            return self.show_stored(&[self.view.result_of(&param.name)], param.into(), visit);
        }
        self.show(param, visit)
    }

    fn show_stored(&self, states: &[String], param: Stored<'_>, visit: &mut dyn FnMut(&[f32])) -> Result<()> {
        let storage = self.view.storage();
        if let [state] = states
            && let Some(whole) = self.gathered(state)?
        {
            visit(&storage.decode(param, &[whole.host()]));
            return Ok(());
        }
        if let [state] = states {
            return self
                .model
                .download(state, &mut |host| visit(&storage.decode(param, &[host])));
        }
        let mut arrays = Vec::with_capacity(states.len());
        for state in states {
            self.model
                .download(state, &mut |host| arrays.push(HostArray::from(host)))?;
        }
        let hosts: Vec<Host<'_>> = arrays.iter().map(HostArray::host).collect();
        visit(&storage.decode(param, &hosts));
        Ok(())
    }

    /// The names of the states that store a parameter.
    fn states_of_param(&self, param: Stored<'_>) -> Vec<String> {
        let specs = self.view.storage().specs(param);
        specs.into_iter().map(|spec| spec.name).collect()
    }

    /// The name of a parameter with a value that is NaN or infinite.
    ///
    /// # Errors
    /// A device that fails.
    pub fn broken_parameter(&self) -> Result<Option<&str>> {
        for param in &self.params {
            let mut is_broken = false;
            self.show(param, &mut |values| {
                is_broken = values.iter().any(|value| !value.is_finite())
            })?;
            if is_broken {
                return Ok(Some(&param.name));
            }
        }
        Ok(None)
    }
}

/// Refuses a value whose elements are not as many as its shape says.
pub(super) fn check_count(name: &str, weight: &Weight) -> Result<()> {
    let (found, shape) = (weight.data.len(), &weight.shape);
    if found == numel(shape) {
        return Ok(());
    }
    Err(Error::user(format!(
        "the value of `{name}` has {found} elements, and its shape {shape:?} needs {}",
        numel(shape)
    )))
}
