//! The argument of model functions: the trace, data inputs, parameters and the random key.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use lessen_graph::{DType, Tensor, Trace, Type, ValueId};

use crate::init::Init;

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

/// Inputs and parameters, shared by all contexts of one trace.
#[derive(Default)]
struct Declared<'g> {
    inputs: HashMap<String, Tensor<'g>>,
    params: Vec<ParamSpec>,
}

/// The argument of a model function. Contexts derived by [`Context::at`] and [`Context::scope`] share inputs and
/// parameters, and differ in the prefix of parameter names.
#[derive(Clone)]
pub struct Context<'g> {
    trace: &'g Trace,
    training: bool,
    prefix: String,
    declared: Rc<RefCell<Declared<'g>>>,
}

impl<'g> Context<'g> {
    /// Makes a context without a prefix; `training` enables dropout.
    pub fn new(trace: &'g Trace, training: bool) -> Context<'g> {
        Context {
            trace,
            training,
            prefix: String::new(),
            declared: Rc::default(),
        }
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
            assert_eq!(tensor.ty(), wanted, "the input `{name}` is declared with two types");
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

    /// Returns the parameter `PREFIX.name`, an `f32` state that is declared at first use. The same full name gives the
    /// same tensor, which ties weights; the `init` of the first use counts.
    ///
    /// # Panics
    /// If it was declared with another shape.
    #[track_caller]
    pub fn param(&self, name: &str, shape: &[usize], init: Init) -> Tensor<'g> {
        let name = join(&self.prefix, name);
        let found = self.declared.borrow().params.iter().find(|p| p.name == name).cloned();
        if let Some(param) = found {
            assert_eq!(param.shape, shape, "the parameter `{name}` is declared with two shapes");
            return self.trace.tensor(param.value);
        }
        let tensor = self.trace.state(&name, DType::F32, shape);
        let param = ParamSpec {
            name,
            shape: shape.to_vec(),
            init,
            value: tensor.id(),
        };
        self.declared.borrow_mut().params.push(param);
        tensor
    }

    /// Returns all parameters in order of first use.
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
        self.trace.in_scope(name, || f(&self.at(name)))
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
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() {
        name.to_string()
    } else {
        format!("{prefix}.{name}")
    }
}
