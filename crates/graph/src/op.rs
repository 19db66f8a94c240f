//! The operation trait: everything the rest of Lessen asks of an operation.

use std::any::Any;
use std::fmt::Debug;

use crate::array::Array;
use crate::attrs::Attrs;
use crate::eval::evaluate_decomposition;
use crate::grad::vjp_of_decomposition;
use crate::layout::Layout;
use crate::tensor::Tensor;
use crate::types::Type;

/// How an input of a row-wise operation is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Row `r` of the outputs reads only row `r` of this input.
    Rows,
    /// Every row reads all of this input: a weight, a table, a scale.
    Whole,
}

/// How an output of a row-wise operation is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutRole {
    /// Row by row.
    Rows,
    /// A sum over all rows of what each row contributes: a bias gradient. Where the output has one element
    /// only, each row contributes one number: what the operation makes of the row's elements, such as their
    /// sum when all axes are reduced.
    Sum,
}

/// Whether an operation works row by row, so that a block of rows can pass through several operations while
/// it is in a cache. A value of `n` elements has `n / rows` of them in each row, in row-major order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowWise {
    /// It does not.
    No,
    /// Every output element depends on the input elements at the same index alone: any number of rows that
    /// divides the elements will do. Inputs of shape `[]` are read whole.
    Elementwise,
    /// It has this number of rows.
    Rows {
        /// Number of rows.
        rows: usize,
        /// How each input is read.
        inputs: Vec<Role>,
        /// How each output is written.
        outputs: Vec<OutRole>,
    },
}

/// What an operation costs on any machine.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// Floating-point operations, a fused multiply-add counting two.
    pub flops: f64,
    /// Bytes read and written, every input and output once.
    pub bytes: f64,
}

/// What a derivative rule is given.
pub struct Vjp<'a, 'g> {
    /// The operation's inputs.
    pub inputs: &'a [Tensor<'g>],
    /// The operation's outputs.
    pub outputs: &'a [Tensor<'g>],
    /// The cotangent of each output: the derivative of the final scalar with respect to it; none where it is
    /// zero.
    pub cotangents: &'a [Option<Tensor<'g>>],
    /// For each input, whether its cotangent is wanted.
    pub wanted: &'a [bool],
}

/// An operation: a pure function from values to values.
///
/// Two operations with the same [`Op::name`] and the same [`Op::attrs`] are the same operation. An operation
/// from outside needs [`Op::name`], [`Op::infer`] and [`Op::decompose`] at least: by default its evaluation
/// and its derivative are those of the decomposition, and devices without a kernel for it run the
/// decomposition.
pub trait Op: Debug + Send + Sync + 'static {
    /// Name in the text form; unique, of letters, digits and underscores.
    fn name(&self) -> &'static str;

    /// Attributes, in the order of the text form.
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    /// The type rule: output types from input types.
    ///
    /// # Errors
    /// A sentence in the user's terms that names the shapes.
    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>, String>;

    /// Reference evaluation in plain `f64` loops. By default that of the decomposition.
    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let _ = outputs;
        evaluate_decomposition(self.name(), |tensors| self.decompose(tensors), inputs)
    }

    /// The derivative: a cotangent for each wanted input, written with operations, so that it can be
    /// differentiated again. None where an input has no influence. By default that of the decomposition.
    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        vjp_of_decomposition(self.name(), |tensors| self.decompose(tensors), cx)
    }

    /// The same result from simpler operations, where there are any.
    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let _ = inputs;
        None
    }

    /// Whether it works row by row.
    fn row_wise(&self, inputs: &[Type], outputs: &[Type]) -> RowWise {
        let _ = (inputs, outputs);
        RowWise::No
    }

    /// For an operation that only looks at its first input differently (reshape, transpose, slice,
    /// broadcast): the layouts of its outputs in that input's base array. None when this needs a copy or is
    /// no view.
    fn view(&self, input: &Layout, inputs: &[Type], outputs: &[Type]) -> Option<Vec<Layout>> {
        let _ = (input, inputs, outputs);
        None
    }

    /// Whether output `output` may be written where input `input` lies, row by row (or element by element),
    /// when both have the same type and the input is not needed afterwards. By default for elementwise
    /// operations.
    fn in_place(&self, input: usize, output: usize, inputs: &[Type], outputs: &[Type]) -> bool {
        self.row_wise(inputs, outputs) == RowWise::Elementwise && inputs[input] == outputs[output]
    }

    /// Cost. By default one floating-point operation per output element.
    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        let bytes: usize = inputs.iter().chain(outputs).map(Type::bytes).sum();
        Cost {
            flops: outputs.iter().map(|t| t.numel()).sum::<usize>() as f64,
            bytes: bytes as f64,
        }
    }

    /// For a device to recognise the operations that it has kernels for.
    fn as_any(&self) -> &dyn Any;
}
