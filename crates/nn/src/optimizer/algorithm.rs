//! Update algorithms from outside of this crate, written with tensors.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use lessen_base::Result;
use lessen_graph::{DType, Tensor};

use super::changed::{Changed, steps_since};
use crate::context::Cx;
use crate::params::{ParamSpec, StateSpec};

/// An optimizer: how one parameter changes in a step. Clipping, accumulation, placement of updates, parameter groups,
/// averages, budgets and checkpoints are those of every optimizer.
///
/// ```
/// use lessen_graph::Tensor;
/// use lessen_nn::{ParamUpdate, UpdateAlgorithm};
///
/// /// Gradient descent along the signs of the gradient.
/// #[derive(Debug)]
/// struct SignDescent;
///
/// impl UpdateAlgorithm for SignDescent {
///     fn updated(&self, of: &mut ParamUpdate<'_>) -> Tensor {
///         let zero = of.gradient().scalar_like(0.0);
///         let step = of.gradient().gt(zero).select(of.lr(), -of.lr());
///         of.parameter() - step
///     }
/// }
/// ```
pub trait UpdateAlgorithm: fmt::Debug + Send + Sync {
    /// The new value of a parameter, of its type. States are declared and given new values on the way. The operations
    /// belong to the graph of the update and run at every step.
    fn updated(&self, of: &mut ParamUpdate<'_>) -> Tensor;

    /// Checks the settings, before anything is traced.
    ///
    /// # Errors
    /// A setting out of range.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// A shared [`UpdateAlgorithm`]. It equals its clones alone.
#[derive(Clone)]
pub struct Algorithm(Arc<dyn UpdateAlgorithm>);

impl Algorithm {
    /// Shares an algorithm.
    pub fn new(algorithm: impl UpdateAlgorithm + 'static) -> Algorithm {
        Algorithm(Arc::new(algorithm))
    }

    /// The new value of a parameter; `changed` gets its states.
    #[track_caller]
    pub(super) fn updated(&self, mut of: ParamUpdate<'_>, changed: &mut Changed) -> Tensor {
        let (trace, param) = (of.cx.trace(), of.parameter());
        let new = self.0.updated(&mut of);
        if new.ty() != param.ty() {
            let (name, given, expected) = (of.name(), new.ty(), param.ty());
            trace.fail_at(
                new,
                format!("the optimizer gives the parameter `{name}` of type {expected} a value of type {given}"),
            );
        }
        for state in of.states {
            changed.values.extend(state.new.map(|new| (state.old, new)));
            changed.states.push(state.spec);
        }
        new
    }
}

impl Deref for Algorithm {
    type Target = dyn UpdateAlgorithm;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref()
    }
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Algorithm) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A state of a parameter's optimizer.
pub(super) struct State {
    /// The name that the algorithm gave it.
    name: String,
    spec: StateSpec,
    old: Tensor,
    new: Option<Tensor>,
}

/// The update of one parameter in a step.
pub struct ParamUpdate<'a> {
    pub(super) cx: Cx,
    pub(super) param: &'a ParamSpec,
    /// The full name of a state that the algorithm names.
    pub(super) state_name: &'a dyn Fn(&str) -> String,
    /// Steps after which the parameter joined.
    pub(super) joined: u64,
    pub(super) gradient: Tensor,
    pub(super) lr: Tensor,
    pub(super) decays: bool,
    pub(super) states: Vec<State>,
}

impl ParamUpdate<'_> {
    /// The parameter's name.
    pub fn name(&self) -> &str {
        &self.param.name
    }

    /// The parameter before the step, `f32`.
    pub fn parameter(&self) -> Tensor {
        self.cx.trace().tensor(self.param.value)
    }

    /// The gradient of the loss, of the parameter's shape, after clipping.
    pub fn gradient(&self) -> Tensor {
        self.gradient
    }

    /// The learning rate of the parameter in this step, `f32[]`.
    pub fn lr(&self) -> Tensor {
        self.lr
    }

    /// Whether weight decay is meant for the parameter: its rank is 2 or more, and `no_decay` does not name it.
    pub fn decays(&self) -> bool {
        self.decays
    }

    /// The number of the step, from 1, since the parameter joined, `f32[]`.
    pub fn step(&self) -> Tensor {
        steps_since(self.cx, self.joined)
    }

    /// A state of this parameter, `f32` of this shape, before the step; it is zero before the first one. The same name
    /// gives the same state.
    ///
    /// # Panics
    /// If it was declared with another shape, or its name is empty or has a `.`, a `:` or an `@`.
    #[track_caller]
    pub fn state(&mut self, name: &str, shape: &[usize]) -> Tensor {
        let trace = self.cx.trace();
        if let Some(known) = self.states.iter().find(|state| state.name == name) {
            if known.spec.shape != shape {
                let first = &known.spec.shape;
                trace.fail(format!(
                    "the state `{name}` of an optimizer is declared with two shapes, {first:?} and {shape:?}"
                ));
            }
            return known.old;
        }
        if name.is_empty() || name.contains(['.', ':', '@']) {
            trace.fail(format!(
                "`{name}` is no name of an optimizer's state; take one without `.`, `:` and `@`"
            ));
        }
        let spec = StateSpec {
            name: (self.state_name)(name),
            dtype: DType::F32,
            shape: shape.to_vec(),
        };
        let old = self.cx.state(&spec.name, &spec.ty());
        self.states.push(State {
            name: name.to_string(),
            spec,
            old,
            new: None,
        });
        old
    }

    /// Gives a state the value that it has after the step; without this it stays what it is.
    ///
    /// # Panics
    /// If [`ParamUpdate::state`] was not called with this name, or the value has another type.
    #[track_caller]
    pub fn set(&mut self, name: &str, value: Tensor) {
        let trace = self.cx.trace();
        let Some(state) = self.states.iter_mut().find(|state| state.name == name) else {
            trace.fail(format!(
                "an optimizer has no state `{name}`; declare it with `state` first"
            ));
        };
        if value.ty() != state.old.ty() {
            let (given, expected) = (value.ty(), state.old.ty());
            trace.fail(format!(
                "the state `{name}` of an optimizer is {expected} and cannot hold a {given}"
            ));
        }
        state.new = Some(value);
    }
}
