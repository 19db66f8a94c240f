//! The argument of model functions: the trace, data inputs, parameters and the random key.

mod observe;
mod quantize;
mod random;
mod ranks;
mod report;
mod scan;
mod values;

pub use observe::Recorded;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_graph::{DType, InputKind, Ranks, Scope, Tensor, TraceRef, Type};

use crate::criterion::Criterion;
use crate::init::Init;
use crate::lora::Lora;
use crate::names::{self, average_of, is_reserved};
use crate::params::ParamSpec;
use crate::quantization::Quantization;
use crate::storage::{F32Storage, ParamStorage, Stored};

/// Inputs, parameters and recorded statistics, shared by all contexts of one trace.
#[derive(Default)]
struct Declared {
    inputs: HashMap<String, Tensor>,
    params: Vec<ParamSpec>,
    /// The position of each parameter in `params`, by its name.
    positions: HashMap<String, usize>,
    /// The line that declared each parameter first.
    places: HashMap<String, &'static Location<'static>>,
    /// Inputs and states with names of training.
    reserved: HashSet<String>,
    record: Option<observe::Record>,
    ranged: quantize::Ranged,
    /// Inputs of layers by the layers' names, where they are asked for.
    layer_inputs: Option<Vec<(String, Tensor)>>,
}

impl Declared {
    fn param(&self, name: &str) -> Option<&ParamSpec> {
        self.positions.get(name).map(|position| &self.params[*position])
    }

    fn push_param(&mut self, param: ParamSpec) {
        self.positions.insert(param.name.clone(), self.params.len());
        self.params.push(param);
    }
}

/// What a context is.
#[derive(Clone)]
struct Inner {
    training: bool,
    prefix: String,
    declared: Rc<RefCell<Declared>>,
    lora: Option<Rc<Lora>>,
    averaged: Rc<BTreeSet<String>>,
    criterion: Rc<Criterion>,
    storage: Arc<dyn ParamStorage>,
    /// Values in place of parameters, by full names.
    values: Rc<BTreeMap<String, Tensor>>,
    quantization: Option<Rc<Quantization>>,
    /// Whether reported values are results of the graph.
    reports: bool,
    ranks: Ranks,
}

/// The argument of a model function: a handle that copies freely, as [`Tensor`] is. Contexts derived by [`Cx::at`] and
/// [`Cx::scope`] share inputs and parameters, and differ in the prefix of parameter names.
#[derive(Clone, Copy)]
pub struct Cx {
    trace: TraceRef,
    /// Place of its [`Inner`] in the trace.
    place: usize,
}

/// A context in a scope that ends when this is dropped.
pub(crate) struct Inside {
    cx: Cx,
    _scope: Scope,
}

impl Deref for Inside {
    type Target = Cx;

    fn deref(&self) -> &Cx {
        &self.cx
    }
}

impl Cx {
    /// Makes a context without a prefix; `training` enables dropout.
    pub fn new(trace: TraceRef, training: bool) -> Cx {
        Cx::of(
            trace,
            Inner {
                training,
                prefix: String::new(),
                declared: Rc::default(),
                lora: None,
                averaged: Rc::default(),
                criterion: Rc::default(),
                storage: Arc::new(F32Storage),
                values: Rc::default(),
                quantization: None,
                reports: false,
                ranks: Ranks::ALONE,
            },
        )
    }

    fn of(trace: TraceRef, inner: Inner) -> Cx {
        let place = trace.keep(Rc::new(inner));
        Cx { trace, place }
    }

    #[track_caller]
    fn inner(self) -> Rc<Inner> {
        let inner = self.trace.kept(self.place);
        inner.unwrap_or_else(|| self.trace.fail("a context of another trace"))
    }

    /// A context that differs in what `change` does.
    fn but(self, change: impl FnOnce(&mut Inner)) -> Cx {
        let mut inner = Inner::clone(&self.inner());
        change(&mut inner);
        Cx::of(self.trace, inner)
    }

    /// Calls `f` with inputs, parameters and statistics.
    #[track_caller]
    fn declared<R>(self, f: impl FnOnce(&mut Declared) -> R) -> R {
        f(&mut self.inner().declared.borrow_mut())
    }

    /// A context without a prefix over a graph that is to go on, which declares `params` and its data inputs.
    pub fn resumed(trace: TraceRef, training: bool, params: Vec<ParamSpec>) -> Cx {
        let cx = Cx::new(trace, training);
        let inputs: HashMap<String, Tensor> = trace.with_graph(|graph| {
            let data = graph.inputs.iter().filter(|input| input.kind == InputKind::Data);
            data.map(|input| (input.name.clone(), trace.tensor(input.value)))
                .collect()
        });
        cx.declared(|declared| {
            params.into_iter().for_each(|param| declared.push_param(param));
            declared.reserved = inputs.keys().filter(|name| is_reserved(name)).cloned().collect();
            declared.inputs = inputs;
        });
        cx
    }

    /// Sets the storage from whose states parameters are read.
    pub fn with_storage(self, storage: Arc<dyn ParamStorage>) -> Cx {
        self.but(|inner| inner.storage = storage)
    }

    /// Gives linear layers the adapters of LoRA.
    pub fn with_lora(self, lora: Option<&Lora>) -> Cx {
        self.but(|inner| inner.lora = lora.cloned().map(Rc::new))
    }

    /// Gives these parameters the values of their averages; see [`UpdateRule::ema`](crate::optimizer::UpdateRule::ema).
    pub fn with_averages(self, names: &BTreeSet<String>) -> Cx {
        self.but(|inner| inner.averaged = Rc::new(names.clone()))
    }

    /// Sets the criterion of the cross entropy of models.
    ///
    /// # Panics
    /// If [`Criterion::check`] refuses it.
    #[track_caller]
    pub fn with_criterion(self, criterion: &Criterion) -> Cx {
        if let Err(error) = criterion.check() {
            self.trace.fail(error.to_string());
        }
        self.but(|inner| inner.criterion = Rc::new(criterion.clone()))
    }

    /// The adapters of linear layers.
    pub(crate) fn lora(self) -> Option<Rc<Lora>> {
        self.inner().lora.clone()
    }

    /// Criterion of the cross entropy.
    pub(crate) fn criterion(self) -> Rc<Criterion> {
        self.inner().criterion.clone()
    }

    /// Prefix of the names of parameters.
    pub(crate) fn prefix(self) -> String {
        self.inner().prefix.clone()
    }

    /// Returns the trace.
    pub fn trace(self) -> TraceRef {
        self.trace
    }

    /// Whether the graph is for training, with dropout.
    pub fn training(self) -> bool {
        self.inner().training
    }

    /// Returns the data input of this name, declared at first use.
    ///
    /// # Panics
    /// If it was declared with another type, or its name is one of training; see [`names`](crate::names).
    #[track_caller]
    pub fn input(self, name: &str, dtype: DType, shape: &[usize]) -> Tensor {
        if is_reserved(name) {
            self.trace.fail(names::refusal(name));
        }
        self.declare_input(name, dtype, shape)
    }

    /// [`Cx::input`] of a name of training.
    #[track_caller]
    pub(crate) fn reserved_input(self, name: &str, dtype: DType, shape: &[usize]) -> Tensor {
        let input = self.declare_input(name, dtype, shape);
        self.declared(|declared| declared.reserved.insert(name.to_string()));
        input
    }

    #[track_caller]
    fn declare_input(self, name: &str, dtype: DType, shape: &[usize]) -> Tensor {
        let wanted = Type::new(dtype, shape);
        let found = self.declared(|declared| declared.inputs.get(name).copied());
        if let Some(tensor) = found {
            let first = tensor.ty();
            if first != wanted {
                let sentence = format!("the input `{name}` is declared with two types, {first} and {wanted}");
                self.trace.fail(sentence);
            }
            return tensor;
        }
        let tensor = self.trace.input(name, dtype, shape);
        self.declared(|declared| declared.inputs.insert(name.to_string(), tensor));
        tensor
    }

    /// Whether a data input of this name is declared.
    pub fn has_input(self, name: &str) -> bool {
        self.declared(|declared| declared.inputs.contains_key(name))
    }

    /// Returns the parameter `PREFIX.name` as `f32`; its states, see [`ParamStorage`], are declared at first use. The
    /// same full name with the same shape and initial values gives the same parameter, which ties weights.
    ///
    /// # Panics
    /// If it was declared with another shape or other initial values, or as a buffer; if its name is one of training,
    /// see [`names`](crate::names); if there are no such initial values, or an extent is 0.
    #[track_caller]
    pub fn param(self, name: &str, shape: &[usize], init: Init) -> Tensor {
        self.declare(name, shape, false, init, false)
    }

    /// Returns the parameter `PREFIX.name` as [`Cx::param`] does, which is a matrix `[in, out]`: products of rows
    /// add up its rows.
    ///
    /// # Panics
    /// As [`Cx::param`].
    #[track_caller]
    pub fn turned_param(self, name: &str, shape: &[usize], init: Init) -> Tensor {
        self.declare(name, shape, true, init, false)
    }

    /// Returns the buffer `PREFIX.name`: an `f32` state that is declared, drawn, saved and loaded as a parameter is,
    /// but has no gradient, no optimizer state and no average. The model itself assigns it in a training step, if at
    /// all.
    ///
    /// # Panics
    /// As [`Cx::param`], and if it was declared as a parameter.
    #[track_caller]
    pub fn buffer(self, name: &str, shape: &[usize], init: Init) -> Tensor {
        self.declare(name, shape, false, init, true)
    }

    #[track_caller]
    fn declare(self, name: &str, shape: &[usize], is_turned: bool, init: Init, is_buffer: bool) -> Tensor {
        let inner = self.inner();
        let name = join(&inner.prefix, name);
        let stored = Stored {
            name: &name,
            shape,
            is_turned,
        };
        if let Some(value) = self.value_of(&name, shape) {
            return value;
        }
        let found = self.declared(|declared| declared.param(&name).cloned());
        if let Some(param) = found {
            self.check_same(&param, shape, init, is_buffer);
            let value = self.trace.tensor(param.value);
            return self.read(stored, value);
        }
        if is_reserved(&name) {
            self.trace.fail(names::refusal(&name));
        }
        if let Err(error) = init.check() {
            self.trace.fail(format!("the parameter `{name}`: {error}"));
        }
        if shape.contains(&0) {
            self.trace.fail(format!(
                "the parameter `{name}` of shape {shape:?} has no numbers; choose extents from 1"
            ));
        }
        let value = if inner.averaged.contains(&name) {
            self.state(&average_of(&name), &Type::f32(shape))
        } else {
            // A closure would hide the caller's line from errors.
            let mut states = Vec::new();
            for spec in inner.storage.specs(stored) {
                states.push(self.state(&spec.name, &spec.ty()));
            }
            match states[..] {
                [state] => state,
                _ => inner.storage.value(stored, &states),
            }
        };
        let spec = ParamSpec {
            name: name.clone(),
            shape: shape.to_vec(),
            init,
            value: value.id(),
            is_turned,
            is_buffer,
        };
        let place = Location::caller();
        self.declared(|declared| {
            declared.places.insert(name.clone(), place);
            declared.push_param(spec);
        });
        self.read(stored, value)
    }

    /// The value of a parameter, `f32`, from [`ParamSpec::value`].
    #[track_caller]
    fn read(self, stored: Stored<'_>, value: Tensor) -> Tensor {
        let inner = self.inner();
        let is_state = inner.storage.states(stored).len() == 1 && !inner.averaged.contains(stored.name);
        if is_state {
            inner.storage.value(stored, &[value])
        } else {
            value
        }
    }

    /// Declares a state, whose name may be one of training.
    #[track_caller]
    pub(crate) fn state(self, name: &str, ty: &Type) -> Tensor {
        if is_reserved(name) {
            self.declared(|declared| declared.reserved.insert(name.to_string()));
        }
        self.trace.state(name, ty.dtype, &ty.shape)
    }

    /// Refuses a second declaration of a parameter that differs from the first one.
    #[track_caller]
    fn check_same(self, first: &ParamSpec, shape: &[usize], init: Init, is_buffer: bool) {
        let name = &first.name;
        let place = self.declared(|declared| declared.places.get(name).copied());
        let place = place.map_or(String::new(), |place| format!(" ({}:{})", place.file(), place.line()));
        let what = if first.shape != shape {
            format!("two shapes, {:?}{place} and {shape:?}", first.shape)
        } else if first.is_buffer != is_buffer {
            let role = |is_buffer| if is_buffer { "a buffer" } else { "a parameter" };
            format!(
                "two roles, as {}{place} and as {}",
                role(first.is_buffer),
                role(is_buffer)
            )
        } else if first.init != init {
            format!("two initial values, {:?}{place} and {init:?}", first.init)
        } else {
            return;
        };
        self.trace.fail(format!(
            "the parameter `{name}` is declared with {what}; declare it alike in both places to share it, or give one of \
             them another name"
        ));
    }

    /// Refuses names of inputs, states and outputs of the trace that belong to training but were not given by it.
    ///
    /// # Errors
    /// Such a name.
    pub fn check_names(self) -> Result<()> {
        let inner = self.inner();
        let declared = inner.declared.borrow();
        let refused = self.trace.with_graph(|graph| {
            let inputs = graph.inputs.iter().map(|input| &input.name);
            let foreign = |name: &&String| is_reserved(name) && !declared.reserved.contains(*name);
            let outputs = graph.outputs.iter().map(|output| &output.name);
            let mut all = inputs.filter(foreign).chain(outputs.filter(|name| is_reserved(name)));
            all.next().cloned()
        });
        refused.map_or(Ok(()), |name| Err(Error::user(names::refusal(&name))))
    }

    /// Returns all parameters and buffers in order of first use.
    pub fn params(self) -> Vec<ParamSpec> {
        self.declared(|declared| declared.params.clone())
    }

    /// Returns a context with `prefix` appended to the prefix of parameter names.
    pub fn at(self, prefix: &str) -> Cx {
        self.but(|inner| inner.prefix = join(&inner.prefix, prefix))
    }

    /// Runs `f` with `name` appended to the prefix of parameter names and to the scope of the graph's nodes, by which
    /// plans and reports name values.
    pub fn scope<R>(self, name: &str, f: impl FnOnce(Cx) -> R) -> R {
        f(*self.enter(name))
    }

    /// [`Cx::scope`] until the result is dropped, for functions that are to name their callers' lines in errors.
    pub(crate) fn enter(self, name: &str) -> Inside {
        Inside {
            _scope: self.trace.enter_scope(name),
            cx: self.at(name),
        }
    }

    /// Returns the random key of this graph, `u32[2]`, another one at every step and run: a data input, which trainer
    /// and session provide under the name [`KEY`](crate::names::KEY).
    #[track_caller]
    pub fn key(self) -> Tensor {
        self.reserved_input(names::KEY, DType::U32, &[2])
    }

    /// Dropout (Srivastava et al. 2014): zeroes each element with probability `p` and scales the others by
    /// `1 / (1 - p)`. Returns `x` itself outside of training and for `p = 0`.
    ///
    /// # Panics
    /// If `p` is not in `[0, 1)`.
    #[track_caller]
    pub fn dropout(self, x: Tensor, p: f64) -> Tensor {
        if self.drops(p) { x.dropout(p, self.key()) } else { x }
    }

    /// Whether values are dropped with probability `p`: in training, if it is above 0.
    ///
    /// # Panics
    /// If `p` is not in `[0, 1)`.
    #[track_caller]
    pub fn drops(self, p: f64) -> bool {
        if !(0.0..1.0).contains(&p) {
            self.trace.fail(format!(
                "dropout with the probability {p}; choose one from 0 to below 1"
            ));
        }
        self.training() && p > 0.0
    }
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() {
        name.to_string()
    } else {
        format!("{prefix}.{name}")
    }
}
