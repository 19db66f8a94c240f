//! What a model function is given: the trace it writes to, its inputs, its parameters and the random key.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use lessen_graph::{DType, Tensor, Trace, Type, ValueId};

use crate::init::Init;

/// A parameter of a model: what there is to know of it without its values.
#[derive(Clone, PartialEq, Debug)]
pub struct ParamSpec {
    /// Full name, as in a checkpoint: `transformer.h.0.ln_1.weight`.
    pub name: String,
    /// Shape.
    pub shape: Vec<usize>,
    /// How its first value is made.
    pub init: Init,
    /// The state input of the trace that it was declared in.
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

/// What contexts of one trace share.
#[derive(Default)]
struct Inside<'g> {
    inputs: HashMap<String, Tensor<'g>>,
    params: Vec<ParamSpec>,
}

/// The surroundings of a model function. Contexts made from one by [`Context::at`] and [`Context::scope`]
/// share its inputs and parameters and differ in the prefix of parameter names.
#[derive(Clone)]
pub struct Context<'g> {
    trace: &'g Trace,
    training: bool,
    prefix: String,
    inside: Rc<RefCell<Inside<'g>>>,
}

impl<'g> Context<'g> {
    /// A context with no prefix; `training` turns dropout on.
    pub fn new(trace: &'g Trace, training: bool) -> Context<'g> {
        Context {
            trace,
            training,
            prefix: String::new(),
            inside: Rc::default(),
        }
    }

    /// The trace that the model is written to.
    pub fn trace(&self) -> &'g Trace {
        self.trace
    }

    /// Whether the graph is for training, so that dropout drops.
    pub fn training(&self) -> bool {
        self.training
    }

    /// The data input of this name: declared at first use, the same tensor afterwards.
    ///
    /// # Panics
    /// If it is declared already with another type.
    #[track_caller]
    pub fn input(&self, name: &str, dtype: DType, shape: &[usize]) -> Tensor<'g> {
        let wanted = Type::new(dtype, shape);
        let found = self.inside.borrow().inputs.get(name).copied();
        if let Some(tensor) = found {
            assert_eq!(
                tensor.ty(),
                wanted,
                "the input `{name}` is declared with two types"
            );
            return tensor;
        }
        let tensor = self.trace.input(name, dtype, shape);
        self.inside.borrow_mut().inputs.insert(name.to_string(), tensor);
        tensor
    }

    /// Whether a data input of this name is declared.
    pub fn has_input(&self, name: &str) -> bool {
        self.inside.borrow().inputs.contains_key(name)
    }

    /// The parameter `name` (after the present prefix): an `f32` state, declared at first use. The same full
    /// name gives the same tensor, so that weights are tied by naming them twice; the first `init` counts.
    ///
    /// # Panics
    /// If it is declared already with another shape.
    #[track_caller]
    pub fn param(&self, name: &str, shape: &[usize], init: Init) -> Tensor<'g> {
        let name = join(&self.prefix, name);
        let found = self
            .inside
            .borrow()
            .params
            .iter()
            .find(|p| p.name == name)
            .cloned();
        if let Some(param) = found {
            assert_eq!(
                param.shape, shape,
                "the parameter `{name}` is declared with two shapes"
            );
            return self.trace.tensor(param.value);
        }
        let tensor = self.trace.state(&name, DType::F32, shape);
        let param = ParamSpec {
            name,
            shape: shape.to_vec(),
            init,
            value: tensor.id(),
        };
        self.inside.borrow_mut().params.push(param);
        tensor
    }

    /// All parameters in order of first use.
    pub fn params(&self) -> Vec<ParamSpec> {
        self.inside.borrow().params.clone()
    }

    /// This context with `prefix` added to the names of parameters.
    pub fn at(&self, prefix: &str) -> Context<'g> {
        Context {
            prefix: join(&self.prefix, prefix),
            ..self.clone()
        }
    }

    /// Runs `f` with `name` added both to the names of parameters and to the scope of the graph's nodes, from
    /// which plans and reports take where a value comes from.
    pub fn scope<R>(&self, name: &str, f: impl FnOnce(&Context<'g>) -> R) -> R {
        self.trace.in_scope(name, || f(&self.at(name)))
    }

    /// The key of everything random in this graph: the data input `key` of type `u32[2]`, given anew at every
    /// step.
    pub fn key(&self) -> Tensor<'g> {
        self.input("key", DType::U32, &[2])
    }

    /// Drops each element with probability `p` and scales the others by `1 / (1 - p)`; outside of training,
    /// or with `p = 0`, it is `x` itself.
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
