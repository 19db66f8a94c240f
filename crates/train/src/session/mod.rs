//! A session: a model's parameters on a device, and functions over them. Training, evaluation, prediction and
//! generation all run in one.
//!
//! Several sessions share a device: each has its own parameters, states and functions, and all use one arena. This file
//! has the beginning of a session; `function` has what it runs, `results` what runs return, `parameters` the values of
//! parameters, `states` all states and files of them, `folder` folders of parameters,
//! `observed` the observed values of a model function, `random` the seed of random numbers, and `embed` embeddings of
//! texts.

mod embed;
mod folder;
mod function;
mod observed;
mod parameters;
pub(crate) mod pieces;
mod random;
mod results;
mod states;

pub use self::embed::Pooling;
pub(crate) use self::folder::PARAMETERS;
pub use self::function::{Function, FunctionOptions, Inputs};
pub use self::results::Results;

use self::embed::Embeddings;
use self::function::{Program, new_owner};
use self::parameters::{Unfinished, check_count};
use self::pieces::Pieces;
use self::random::Keys;
use crate::function_graph::{check_params, traced};
use crate::norms;
use crate::view::ParameterView;
use lessen_base::{Error, Result};
use lessen_compile::{Options, Precision};
use lessen_device::{DeviceMemory, DeviceModel, SharedDevice};
use lessen_graph::{Tensor, Type};
use lessen_nn::{Bf16Storage, Cx, F32Storage, Int4Storage, Int8Storage, NormKind, ParamSpec, ParamStorage, Weights};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A model on a device: its parameters, and functions over them. Dropping it frees its memory on the device. Threads
/// may share it, and run its functions.
pub struct Session {
    model: DeviceModel,
    params: Vec<ParamSpec>,
    /// The states that are allocated, the parameters' states among them.
    states: BTreeSet<String>,
    /// Number of this session in its functions.
    owner: u64,
    /// Programs of functions, by the functions' numbers.
    programs: BTreeMap<u64, Program>,
    next_function: u64,
    /// Arena bytes within which functions are planned, if possible.
    arena: Option<usize>,
    /// The view of the parameters that functions read.
    view: ParameterView,
    /// Dtype that matrix products of functions read.
    precision: Precision,
    unfinished: Option<Unfinished>,
    /// The functions of [`Session::embed`].
    embeddings: Embeddings,
    keys: Keys,
    /// The states of which this process has a piece.
    pieces: Pieces,
}

const fn is_shared<T: Send + Sync>() {}
const _: () = is_shared::<Session>();

impl Session {
    /// A model with these parameters and their values.
    ///
    /// # Errors
    /// A parameter without value, of another shape or number of elements, and parameters that the device's memory
    /// cannot hold.
    pub fn new(device: impl Into<SharedDevice>, params: Vec<ParamSpec>, weights: &Weights) -> Result<Session> {
        for ParamSpec { name, shape, .. } in &params {
            match weights.get(name).filter(|weight| weight.shape == *shape) {
                Some(weight) => check_count(name, weight)?,
                None => {
                    return Err(Error::user(format!(
                        "there is no value of shape {shape:?} for `{name}`"
                    )));
                }
            }
        }
        let mut session = Session::zeros(device, params)?;
        for param in session.params.clone() {
            session.set_part_of(&param, 0, &weights[&param.name].data)?;
        }
        Ok(session)
    }

    /// A model with these parameters, which are zeros.
    ///
    /// # Errors
    /// Parameters that the device's memory cannot hold.
    pub fn zeros(device: impl Into<SharedDevice>, params: Vec<ParamSpec>) -> Result<Session> {
        Session::stored(device, params, Arc::new(F32Storage))
    }

    /// A model for inference in a precision, whose parameters are zeros. With `bf16` matrices are stored in half the
    /// bytes, with `int8` in a quarter, with `int4` in less than a sixth; they are rounded as they are set, and
    /// products read them so.
    ///
    /// # Errors
    /// Parameters that the device's memory cannot hold.
    pub fn for_inference(
        device: impl Into<SharedDevice>,
        params: Vec<ParamSpec>,
        precision: Precision,
    ) -> Result<Session> {
        let storage: Arc<dyn ParamStorage> = match precision {
            Precision::F32 => Arc::new(F32Storage),
            Precision::Bf16 => Arc::new(Bf16Storage),
            Precision::Int8 => Arc::new(Int8Storage),
            Precision::Int4 => Arc::new(Int4Storage::default()),
        };
        let mut session = Session::stored(device, params, storage)?;
        session.set_precision(precision);
        Ok(session)
    }

    /// A model for inference whose parameters are stored as `storage` says; all states are zeros.
    ///
    /// # Errors
    /// Two parameters or states of one name; parameters that the device's memory cannot hold.
    pub fn stored(
        device: impl Into<SharedDevice>,
        params: Vec<ParamSpec>,
        storage: Arc<dyn ParamStorage>,
    ) -> Result<Session> {
        let mut session = Session {
            model: device.into().add_model()?,
            params: Vec::new(),
            states: BTreeSet::new(),
            owner: new_owner(),
            programs: BTreeMap::new(),
            next_function: 0,
            arena: None,
            view: ParameterView::of_inference(storage),
            precision: Precision::default(),
            unfinished: None,
            embeddings: Embeddings::default(),
            keys: Keys::default(),
            pieces: Pieces::default(),
        };
        for param in &params {
            session.allocate_param(param)?;
        }
        session.params = params;
        Ok(session)
    }

    /// Allocates the states of a parameter.
    fn allocate_param(&mut self, param: &ParamSpec) -> Result<()> {
        for spec in self.view.storage().specs(param.into()) {
            if self.states.contains(&spec.name) {
                return Err(Error::user(format!(
                    "two parameters have the state `{}`; give one of them another name",
                    spec.name
                )));
            }
            self.allocate(&spec.name, &spec.ty())?;
        }
        Ok(())
    }

    /// Replaces the parameters. Parameters that stay, by name and shape, keep their values, and so do the states
    /// `kept`, by name and type. All other states and all functions are freed; new parameters are zeros. Returns the
    /// names of the new parameters as well.
    ///
    /// # Errors
    /// Parameters that the device's memory cannot hold.
    pub fn with_params(mut self, params: Vec<ParamSpec>, kept: &[(String, Type)]) -> Result<(Session, Vec<String>)> {
        self.unload_all();
        self.arena = None;
        self.view = ParameterView::default();
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
        for param in &params {
            if !self.states.contains(&param.name) {
                self.allocate_param(param)?;
                new.push(param.name.clone());
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

    /// Memory of the device: how much all sessions on it have allocated now, and how much they still can.
    pub fn memory(&self) -> DeviceMemory {
        self.model.device().memory()
    }

    /// Sets the view of parameters for functions that are added from now on.
    pub(crate) fn set_view(&mut self, view: ParameterView) {
        self.view = view;
    }

    /// The view of the parameters that functions read.
    pub(crate) fn view(&self) -> &ParameterView {
        &self.view
    }

    /// Sets the dtype that matrix products read, for functions that are made from now on. See [`Precision`].
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// Whether products read `bf16` without instructions of the device for it, which takes longer than `f32`.
    pub fn widens_bf16(&self) -> bool {
        self.precision == Precision::Bf16 && self.model.device().lock().widens_bf16()
    }

    /// Options of the compiler for functions.
    pub(crate) fn options(&self) -> Options {
        Options {
            precision: self.precision,
            ..Options::default()
        }
    }

    /// Assigns parameters the results of training: averages, and sums with adapters.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if let Some(graph) = self.view.finish(&self.params) {
            let function = self.add(&graph, &Options::default())?;
            self.run(function, &[])?;
            self.unload(function)?;
        }
        self.view = ParameterView::default();
        Ok(())
    }

    /// Converts norms of functions that are added from now on, where that saves means; results are the same up to
    /// rounding. Parameters are recentred for it as the function `trace` allows. All other functions must depend on the
    /// parameters in the same way: they are the same model on other batches.
    ///
    /// # Errors
    /// Shapes that do not fit each other, with the line of the function; a parameter that the model does not have.
    pub fn convert_norms<N: Into<String>>(
        &mut self,
        norm: NormKind,
        trace: impl Fn(Cx) -> Vec<(N, Tensor)>,
    ) -> Result<()> {
        let (graph, own) = traced(&self.view, false, trace)?;
        check_params(&self.params, &own)?;
        let params = self.view.single_states(&self.params);
        self.view.set_norm(norm, norms::centred_for(&graph, &params, norm));
        self.recentre()
    }

    /// Recentres the parameters for norms that subtract no mean.
    pub(crate) fn recentre(&mut self) -> Result<()> {
        if let Some(graph) = norms::recentring(&self.view.recentred_states(&self.params)) {
            let function = self.add(&graph, &Options::default())?;
            self.run(function, &[])?;
            self.unload(function)?;
        }
        Ok(())
    }
}
