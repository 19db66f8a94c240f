//! The argument of model functions: the trace, data inputs, parameters and the random key.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Deref;
use std::rc::Rc;

use lessen_base::Result;
use lessen_graph::{DType, InputKind, Scope, Tensor, Trace, Type, ValueId};

use crate::held::Held;
use crate::init::Init;
use crate::lora::Lora;
use crate::loss::Criterion;
use crate::optimizer::average_of;
use crate::statistics::{Selection, Statistic, statistics_of};

/// A parameter of a model without its values.
#[derive(Clone, PartialEq, Debug)]
pub struct ParamSpec {
    /// Full name, as in a checkpoint: `transformer.h.0.ln_1.weight`.
    pub name: String,
    /// Shape.
    pub shape: Vec<usize>,
    /// Distribution of its initial values.
    pub init: Init,
    /// The state input of the trace that declares it.
    pub value: ValueId,
    /// Whether it is a buffer: a value of the model that no optimizer changes, such as a running statistic.
    pub is_buffer: bool,
}

/// A state other than a parameter: an optimizer state, a summed gradient, or a key/value cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateSpec {
    /// Full name: `optimizer.m.transformer.h.0.ln_1.weight`.
    pub name: String,
    /// Dtype of the elements, as a checkpoint stores them.
    pub dtype: DType,
    /// Shape.
    pub shape: Vec<usize>,
}

impl StateSpec {
    /// Returns the dtype and shape as one type.
    pub fn ty(&self) -> Type {
        Type::new(self.dtype, &self.shape)
    }

    /// Declares this state in a trace and returns its value before the step.
    ///
    /// # Panics
    /// If the trace has an input of this name.
    #[track_caller]
    pub fn declare<'g>(&self, trace: &'g Trace) -> Tensor<'g> {
        trace.state(&self.name, self.dtype, &self.shape)
    }
}

/// Inputs, parameters and recorded statistics, shared by all contexts of one trace.
#[derive(Default)]
struct Declared<'g> {
    inputs: HashMap<String, Tensor<'g>>,
    params: Vec<ParamSpec>,
    record: Option<Record<'g>>,
}

/// What a graph that records statistics has of them.
struct Record<'g> {
    selection: Selection,
    /// Names of all values that the model observes, recorded or not.
    names: Vec<String>,
    recorded: Vec<Recorded<'g>>,
}

/// A statistic of an observed value.
#[derive(Clone, Debug)]
pub struct Recorded<'g> {
    /// Name of the value, which is unique, and of the statistic: `transformer.h.0.mlp.pre_activation/mean`.
    pub name: String,
    /// The statistic, `f32[]`, or `f32[bins]` for a histogram.
    pub value: Tensor<'g>,
}

/// The argument of a model function. Contexts derived by [`Context::at`] and [`Context::scope`] share inputs and
/// parameters, and differ in the prefix of parameter names.
#[derive(Clone)]
pub struct Context<'g> {
    trace: &'g Trace,
    training: bool,
    prefix: String,
    declared: Rc<RefCell<Declared<'g>>>,
    lora: Option<Rc<Lora>>,
    averaged: Rc<BTreeSet<String>>,
    criterion: Rc<Criterion>,
    /// How parameters are held.
    held: Held,
}

/// A context in a scope that ends when this is dropped.
pub(crate) struct Inside<'g> {
    cx: Context<'g>,
    _scope: Scope<'g>,
}

impl<'g> Deref for Inside<'g> {
    type Target = Context<'g>;

    fn deref(&self) -> &Context<'g> {
        &self.cx
    }
}

impl<'g> Context<'g> {
    /// Makes a context without a prefix; `training` enables dropout.
    pub fn new(trace: &'g Trace, training: bool) -> Context<'g> {
        Context {
            trace,
            training,
            prefix: String::new(),
            declared: Rc::default(),
            lora: None,
            averaged: Rc::default(),
            criterion: Rc::default(),
            held: Held::default(),
        }
    }

    /// A context without a prefix over a graph that is to go on, which declares `params` and its data inputs.
    pub fn resumed(trace: &'g Trace, training: bool, params: Vec<ParamSpec>) -> Context<'g> {
        let cx = Context::new(trace, training);
        let mut declared = cx.declared.borrow_mut();
        declared.params = params;
        declared.inputs = trace.with_graph(|graph| {
            let data = graph.inputs.iter().filter(|input| input.kind == InputKind::Data);
            data.map(|input| (input.name.clone(), trace.tensor(input.value)))
                .collect()
        });
        drop(declared);
        cx
    }

    /// The same context, in which parameters are held so and widened where they are read.
    pub fn with_held(self, held: Held) -> Context<'g> {
        Context { held, ..self }
    }

    /// The same context, in which linear layers have the adapters of LoRA.
    pub fn with_lora(self, lora: Option<&Lora>) -> Context<'g> {
        let lora = lora.cloned().map(Rc::new);
        Context { lora, ..self }
    }

    /// The same context, in which these parameters have the values of their averages; see
    /// [`UpdateRule::ema`](crate::optimizer::UpdateRule::ema).
    pub fn with_averages(self, names: &BTreeSet<String>) -> Context<'g> {
        let averaged = Rc::new(names.clone());
        Context { averaged, ..self }
    }

    /// The same context, in which the cross entropy of models is this one.
    pub fn with_criterion(&self, criterion: &Criterion) -> Context<'g> {
        let criterion = Rc::new(criterion.clone());
        Context {
            criterion,
            ..self.clone()
        }
    }

    /// The adapters of linear layers.
    pub(crate) fn lora(&self) -> Option<&Lora> {
        self.lora.as_deref()
    }

    /// What the cross entropy does beside the logarithm.
    pub(crate) fn criterion(&self) -> &Criterion {
        &self.criterion
    }

    /// What the names of parameters begin with here.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Makes a context without a prefix for a graph that records statistics of the observed values that `selection`
    /// contains.
    pub fn recording(trace: &'g Trace, training: bool, selection: &Selection) -> Context<'g> {
        let cx = Context::new(trace, training);
        cx.declared.borrow_mut().record = Some(Record {
            selection: selection.clone(),
            names: Vec::new(),
            recorded: Vec::new(),
        });
        cx
    }

    /// Returns the trace.
    pub fn trace(&self) -> &'g Trace {
        self.trace
    }

    /// Whether the graph is for training, with dropout.
    pub fn training(&self) -> bool {
        self.training
    }

    /// Returns the data input of this name, declared at first use.
    ///
    /// # Panics
    /// If it was declared with another type.
    #[track_caller]
    pub fn input(&self, name: &str, dtype: DType, shape: &[usize]) -> Tensor<'g> {
        let wanted = Type::new(dtype, shape);
        let found = self.declared.borrow().inputs.get(name).copied();
        if let Some(tensor) = found {
            let first = tensor.ty();
            if first != wanted {
                let sentence = format!("the input `{name}` is declared with two types, {first} and {wanted}");
                self.trace.fail(sentence);
            }
            return tensor;
        }
        let tensor = self.trace.input(name, dtype, shape);
        self.declared.borrow_mut().inputs.insert(name.to_string(), tensor);
        tensor
    }

    /// Whether a data input of this name is declared.
    pub fn has_input(&self, name: &str) -> bool {
        self.declared.borrow().inputs.contains_key(name)
    }

    /// Returns the parameter `PREFIX.name` as `f32`; its state, see [`Held`], is declared at first use. The same full
    /// name gives the same tensor, which ties weights; the `init` of the first use counts.
    ///
    /// # Panics
    /// If it was declared with another shape.
    #[track_caller]
    pub fn param(&self, name: &str, shape: &[usize], init: Init) -> Tensor<'g> {
        self.declare(name, shape, init, false)
    }

    /// Returns the buffer `PREFIX.name`: an `f32` state that is declared, drawn, saved and loaded as a parameter is,
    /// but has no gradient, no optimizer state and no average. The model itself assigns it in a training step, if at
    /// all.
    ///
    /// # Panics
    /// If it was declared with another shape.
    #[track_caller]
    pub fn buffer(&self, name: &str, shape: &[usize], init: Init) -> Tensor<'g> {
        self.declare(name, shape, init, true)
    }

    #[track_caller]
    fn declare(&self, name: &str, shape: &[usize], init: Init, is_buffer: bool) -> Tensor<'g> {
        let name = join(&self.prefix, name);
        let found = self.declared.borrow().params.iter().find(|p| p.name == name).cloned();
        if let Some(param) = found {
            let first = &param.shape;
            if first != shape {
                let sentence = format!("the parameter `{name}` is declared with two shapes, {first:?} and {shape:?}");
                self.trace.fail(sentence);
            }
            return self.trace.tensor(param.value).cast(DType::F32);
        }
        let tensor = match self.averaged.contains(&name) {
            true => self.trace.state(&average_of(&name), DType::F32, shape),
            false => self.trace.state(&name, self.held.ty(shape).dtype, shape),
        };
        let param = ParamSpec {
            name,
            shape: shape.to_vec(),
            init,
            value: tensor.id(),
            is_buffer,
        };
        self.declared.borrow_mut().params.push(param);
        tensor.cast(DType::F32)
    }

    /// Returns all parameters and buffers in order of first use.
    pub fn params(&self) -> Vec<ParamSpec> {
        self.declared.borrow().params.clone()
    }

    /// Returns a context with `prefix` appended to the prefix of parameter names.
    pub fn at(&self, prefix: &str) -> Context<'g> {
        Context {
            prefix: join(&self.prefix, prefix),
            ..self.clone()
        }
    }

    /// Runs `f` with `name` appended to the prefix of parameter names and to the scope of the graph's nodes, by which
    /// plans and reports name values.
    pub fn scope<R>(&self, name: &str, f: impl FnOnce(&Context<'g>) -> R) -> R {
        f(&self.enter(name))
    }

    /// [`Context::scope`] until the result is dropped, for functions that are to name their callers' lines in errors.
    pub(crate) fn enter(&self, name: &str) -> Inside<'g> {
        Inside {
            _scope: self.trace.enter_scope(name),
            cx: self.at(name),
        }
    }

    /// Returns the random key of this graph: the data input `key`, `u32[2]`, another one at every step.
    pub fn key(&self) -> Tensor<'g> {
        self.input("key", DType::U32, &[2])
    }

    /// Dropout (Srivastava et al. 2014): zeroes each element with probability `p` and scales the others by
    /// `1 / (1 - p)`. Returns `x` itself outside of training and for `p = 0`.
    #[track_caller]
    pub fn dropout(&self, x: Tensor<'g>, p: f64) -> Tensor<'g> {
        if self.training && p > 0.0 {
            x.dropout(p, self.key())
        } else {
            x
        }
    }

    /// Names a value, `PREFIX.name`, of which statistics can be recorded. Outside of a graph that records this value it
    /// adds nothing to the graph. Values of the same name get numbers from the second one on: `NAME.2`.
    #[track_caller]
    pub fn observe(&self, name: &str, statistics: &[Statistic], x: Tensor<'g>) {
        self.observe_where(name, statistics, x, None);
    }

    /// [`Context::observe`] for the elements of `x` where `seen` is true, a `bool` tensor that broadcasts to the shape
    /// of `x`; all of them without one.
    #[track_caller]
    pub fn observe_where(&self, name: &str, statistics: &[Statistic], x: Tensor<'g>, seen: Option<Tensor<'g>>) {
        if !self.observes(name) || x.ty().numel() == 0 {
            return;
        }
        let base = join(&self.prefix, name);
        let computed = statistics_of(statistics, x, seen);
        let mut declared = self.declared.borrow_mut();
        let Some(record) = &mut declared.record else { return };
        let is_free = |name: &str| !record.recorded.iter().any(|r| r.name.starts_with(&format!("{name}/")));
        let numbered = (2..).map(|number| format!("{base}.{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| is_free(name));
        let name = name.unwrap_or(base);
        record
            .recorded
            .extend(computed.into_iter().map(|(statistic, value)| Recorded {
                name: format!("{name}/{statistic}"),
                value,
            }));
    }

    /// Whether statistics of the value `PREFIX.name` are recorded, for values that are computed only for that.
    pub fn observes(&self, name: &str) -> bool {
        let mut declared = self.declared.borrow_mut();
        let Some(record) = &mut declared.record else {
            return false;
        };
        let name = join(&self.prefix, name);
        let contained = record.selection.contains(&name);
        if !record.names.contains(&name) {
            record.names.push(name);
        }
        contained
    }

    /// Returns the statistics that were recorded.
    ///
    /// # Errors
    /// A part of the selection that is of no observed value.
    pub fn recorded(&self) -> Result<Vec<Recorded<'g>>> {
        match &self.declared.borrow().record {
            Some(record) => record.selection.check(&record.names).map(|()| record.recorded.clone()),
            None => Ok(Vec::new()),
        }
    }
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() {
        name.to_string()
    } else {
        format!("{prefix}.{name}")
    }
}
