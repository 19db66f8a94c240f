//! A session: a model's parameters on a device, and functions over them. Training, evaluation, prediction and
//! generation all run in one.
//!
//! This file has its beginning; `function` has what it runs, `parameters` the parameters' values, `states` all states
//! and files of them, and `folder` folders of parameters.

mod folder;
mod function;
mod parameters;
mod states;

pub(crate) use self::folder::PARAMETERS;
pub use self::function::{Function, Inputs, Results};

use crate::graphs::{check_params, traced};
use crate::norms;
use crate::reading::Reading;
use lessen_base::{Error, Result};
use lessen_compile::{Options, Precision};
use lessen_device::{DeviceMemory, DeviceModel, Host, SharedDevice};
use lessen_graph::{Tensor, Type};
use lessen_nn::{Context, Held, NormKind, ParamSpec, Weights};
use std::collections::BTreeSet;

/// A model on a device: its parameters, and functions over them.
pub struct Session {
    model: DeviceModel,
    params: Vec<ParamSpec>,
    /// The states that are allocated, the parameters among them.
    states: BTreeSet<String>,
    loaded: Vec<Function>,
    /// The arena that functions are to get along with.
    arena: Option<usize>,
    /// How functions read parameters.
    reading: Reading,
    /// What products of functions read.
    precision: Precision,
}

impl Session {
    /// A model with these parameters and their values.
    ///
    /// # Errors
    /// A parameter without value or of another shape, and parameters that the device's memory cannot hold.
    pub fn new(device: impl Into<SharedDevice>, params: Vec<ParamSpec>, weights: &Weights) -> Result<Session> {
        for ParamSpec { name, shape, .. } in &params {
            if weights.get(name).is_none_or(|weight| weight.shape != *shape) {
                return Err(Error::user(format!(
                    "there is no value of shape {shape:?} for `{name}`"
                )));
            }
        }
        let session = Session::zeros(device, params)?;
        let names: Vec<String> = session.params.iter().map(|param| param.name.clone()).collect();
        for name in names {
            session.model.upload(&name, Host::F32(&weights[&name].data))?;
        }
        Ok(session)
    }

    /// A model with these parameters, which are zeros.
    ///
    /// # Errors
    /// Parameters that the device's memory cannot hold.
    pub fn zeros(device: impl Into<SharedDevice>, params: Vec<ParamSpec>) -> Result<Session> {
        Session::held(device, params, Held::Wide)
    }

    /// A model for inference in a precision, whose parameters are zeros. With `bf16` matrices are held in half the
    /// bytes and rounded as they are set, and products read them so.
    ///
    /// # Errors
    /// Parameters that the device's memory cannot hold.
    pub fn for_inference(
        device: impl Into<SharedDevice>,
        params: Vec<ParamSpec>,
        precision: Precision,
    ) -> Result<Session> {
        let held = match precision {
            Precision::F32 => Held::Wide,
            Precision::Bf16 => Held::Narrow,
        };
        let mut session = Session::held(device, params, held)?;
        session.set_precision(precision);
        Ok(session)
    }

    fn held(device: impl Into<SharedDevice>, params: Vec<ParamSpec>, held: Held) -> Result<Session> {
        let mut session = Session {
            model: device.into().add_model(),
            params: Vec::new(),
            states: BTreeSet::new(),
            loaded: Vec::new(),
            arena: None,
            reading: Reading::of_inference(held),
            precision: Precision::default(),
        };
        for ParamSpec { name, shape, .. } in &params {
            session.allocate(name, &held.ty(shape))?;
        }
        session.params = params;
        Ok(session)
    }

    /// The same device with other parameters: those that stay, by name and shape, keep their values, and so do the
    /// states `kept`, by name and type. All other states and all functions are freed; new parameters are zeros. Returns
    /// the names of these as well.
    ///
    /// # Errors
    /// Parameters that the device's memory cannot hold.
    pub fn with_params(mut self, params: Vec<ParamSpec>, kept: &[(String, Type)]) -> Result<(Session, Vec<String>)> {
        for function in std::mem::take(&mut self.loaded) {
            self.unload(function);
        }
        self.arena = None;
        self.reading = Reading::default();
        let stays = |name: &str, ty: &Type| {
            let is_param = params
                .iter()
                .any(|param| param.name == name && Type::f32(&param.shape) == *ty);
            is_param || kept.iter().any(|(own, own_ty)| own == name && own_ty == ty)
        };
        for name in std::mem::take(&mut self.states) {
            match self.model.state_type(&name) {
                Some(ty) if stays(&name, &ty) => drop(self.states.insert(name)),
                _ => self.model.free(&name),
            }
        }
        let mut new = Vec::new();
        for ParamSpec { name, shape, .. } in &params {
            if !self.states.contains(name) {
                self.allocate(name, &Type::f32(shape))?;
                new.push(name.clone());
            }
        }
        self.params = params;
        Ok((self, new))
    }

    /// The parameters: names, shapes, first values.
    pub fn params(&self) -> &[ParamSpec] {
        &self.params
    }

    /// The device, which may hold other sessions, too.
    pub fn device(&self) -> &SharedDevice {
        self.model.device()
    }

    /// What is allocated on the device now, and what can still be.
    pub fn memory(&self) -> DeviceMemory {
        self.model.device().memory()
    }

    /// Makes functions that are added from now on read parameters this way.
    pub(crate) fn read_as(&mut self, reading: Reading) {
        self.reading = reading;
    }

    /// How functions read parameters.
    pub(crate) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Lets products of functions that are made from now on read `bf16`, or what the parameters are. See [`Precision`].
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// Whether products read `bf16` that the device has no instructions for, which takes longer than `f32`.
    pub fn widens_bf16(&self) -> bool {
        self.precision == Precision::Bf16 && self.model.device().lock().widens_bf16()
    }

    /// How functions are compiled.
    pub(crate) fn options(&self) -> Options {
        Options {
            precision: self.precision,
            ..Options::default()
        }
    }

    /// Gives the parameters what training results in: averages, and the sums with adapters.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if let Some(graph) = self.reading.finish(&self.params) {
            let function = self.add(&graph, &Options::default())?;
            self.run(function, &[])?;
            self.unload(function);
        }
        self.reading = Reading::default();
        Ok(())
    }

    /// Lets functions that are added from now on subtract no mean in a layer norm where that spares means; their
    /// results are the same up to rounding. Parameters are recentred for it as `trace` allows, a function over them, on
    /// which the results of all others depend in the same way: those of other batches of the same model.
    ///
    /// # Errors
    /// Shapes that do not fit each other, with the line of the function; a parameter that the model does not have.
    pub fn convert_norms(
        &mut self,
        norm: NormKind,
        trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
    ) -> Result<()> {
        let (graph, own) = traced(&self.reading, trace)?;
        check_params(&self.params, &own)?;
        self.reading
            .set_norm(norm, norms::centred_for(&graph, &self.params, norm));
        self.recentre()
    }

    /// Recentres the parameters for norms that subtract no mean.
    pub(crate) fn recentre(&mut self) -> Result<()> {
        if let Some(graph) = norms::recentring(&self.params, &self.reading) {
            let function = self.add(&graph, &Options::default())?;
            self.run(function, &[])?;
            self.unload(function);
        }
        Ok(())
    }

    fn allocate(&mut self, name: &str, ty: &Type) -> Result<()> {
        self.model.allocate(name, ty)?;
        self.states.insert(name.to_string());
        Ok(())
    }
}
