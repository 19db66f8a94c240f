//! Elementwise operations: a function of numbers, its derivative, and nothing that all of them share.

use std::any::Any;
use std::fmt::Debug;

use lessen_base::Result;

use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::inverse::{FromOutput, Inverse};
use crate::named::Named;
use crate::op::{Cost, Fold, Op, RowWise, Vjp};
use crate::ops::rules::{arity, equal, float, fold_exactly, map};
use crate::tensor::Tensor;
use crate::types::Type;

/// An operation with one output, each of whose elements is a function of the input elements at the same index. It is an
/// [`Op`]; a device without a kernel for it runs the decomposition.
///
/// An activation with a derivative of its own:
///
/// ```
/// use lessen_graph::{DType, Elementwise, Tensor, Trace, Vjp, named};
///
/// /// `y = max(x, 0)`, whose derivative is 1 also a little below 0.
/// #[derive(PartialEq, Debug)]
/// struct Leaky {
///     below: f64,
/// }
///
/// named!("leaky": Leaky { below });
///
/// impl Elementwise for Leaky {
///     const INPUTS: usize = 1;
///
///     fn element(&self, x: &[f64]) -> f64 {
///         x[0].max(0.0)
///     }
///
///     fn decompose(&self, x: &[Tensor]) -> Option<Tensor> {
///         Some(x[0].relu())
///     }
///
///     fn vjp(&self, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
///         let passes = cx.inputs[0].gt(cx.inputs[0].scalar_like(-self.below));
///         vec![Some(passes.select(dy, dy.scalar_like(0.0)))]
///     }
/// }
///
/// let trace = Trace::new();
/// let x = trace.input("x", DType::F32, &[8]);
/// let loss = trace.apply1(Leaky { below: 0.1 }, &[x]).sum();
/// trace.output("gradient", loss.grad(&[x])[0]);
/// ```
pub trait Elementwise: Named + Any + PartialEq + Debug + Send + Sync {
    /// Number of inputs.
    const INPUTS: usize;

    /// The type rule. By default the inputs are of one float type, and so is the output.
    ///
    /// # Errors
    /// A sentence in the user's terms that names the types. The number of inputs is checked before.
    fn output(&self, inputs: &[Type]) -> Result<Type> {
        float(&inputs[0])?;
        inputs.iter().try_for_each(|ty| equal(&inputs[0], ty))?;
        Ok(inputs[0].clone())
    }

    /// The function in `f64`, of one element of each input.
    fn element(&self, x: &[f64]) -> f64;

    /// Floating-point operations per element.
    fn flops(&self) -> f64 {
        1.0
    }

    /// Whether every device computes it exactly or correctly rounded, so that it may be folded.
    fn is_exact(&self) -> bool {
        false
    }

    /// See [`Op::vjp`]: the cotangents of the inputs from the cotangent of the output. By default by the derivative of
    /// the decomposition.
    fn vjp(&self, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
        let _ = (cx, dy);
        Vec::new()
    }

    /// See [`Op::decompose`].
    fn decompose(&self, inputs: &[Tensor]) -> Option<Tensor> {
        let _ = inputs;
        None
    }

    /// See [`Op::from_output`].
    #[allow(clippy::wrong_self_convention)]
    fn from_output(&self, inputs: &[Type]) -> Option<FromOutput> {
        let _ = inputs;
        None
    }

    /// See [`Op::inverse`].
    fn inverse(&self, input: usize, inputs: &[Type]) -> Option<Inverse> {
        let _ = (input, inputs);
        None
    }

    /// See [`Op::along`].
    fn along(&self, query: AlongQuery<'_>) -> Along {
        let _ = query;
        Along::Unknown
    }
}

impl<T: Elementwise> Op for T {
    crate::named!();

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, T::INPUTS)?;
        Ok(vec![self.output(inputs)?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        map(inputs, &outputs[0], |x| self.element(x))
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let dy = cx.cotangents[0].expect("one output, which is differentiated");
        Elementwise::vjp(self, cx, dy)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(vec![Elementwise::decompose(self, inputs)?])
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }

    fn from_output(&self, inputs: &[Type]) -> Option<FromOutput> {
        Elementwise::from_output(self, inputs)
    }

    fn inverse(&self, input: usize, inputs: &[Type]) -> Option<Inverse> {
        Elementwise::inverse(self, input, inputs)
    }

    /// A function of numbers that are equal along an axis is.
    fn along(&self, query: AlongQuery<'_>) -> Along {
        if query.constant.iter().all(|&is| is) {
            Along::Constant
        } else {
            Elementwise::along(self, query)
        }
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Cost::vector(self.flops() * outputs[0].numel() as f64, inputs, outputs)
    }

    fn fold(&self, known: &[Option<f64>], inputs: &[Type], outputs: &[Type]) -> Fold {
        if self.is_exact() {
            fold_exactly(self, known, inputs, outputs)
        } else {
            Fold::No
        }
    }
}
