//! The operation trait: the facts about an operation that the evaluator, the compiler and devices ask for.

use lessen_base::{Error, Result};
use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::along::{Along, AlongQuery, Contraction, WhenCentred};
use crate::array::Array;
use crate::attrs::Attrs;
use crate::inverse::{FromOutput, Inverse};
use crate::layout::Layout;
use crate::products::Products;
use crate::ranks::Ranks;
use crate::tensor::Tensor;
use crate::types::Type;

mod row_kernel;
mod rows;

pub use row_kernel::{Row, RowKernel, RowMut};
pub use rows::{OnRows, OnSlices, OutRole, Role, RowWise};

/// The cost of an operation in each resource, on any machine.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// Floating-point operations of matrix products, a fused multiply-add counting two.
    pub product_flops: f64,
    /// All other floating-point operations.
    pub vector_flops: f64,
    /// Bytes read and written, every input and output once.
    pub bytes: f64,
}

impl Cost {
    /// The cost of vector operations that read every input and write every output once; with 0 of them, of a copy.
    pub fn vector(flops: f64, inputs: &[Type], outputs: &[Type]) -> Cost {
        Cost {
            vector_flops: flops,
            bytes: inputs.iter().chain(outputs).map(|ty| ty.bytes() as f64).sum(),
            ..Cost::default()
        }
    }

    /// All floating-point operations.
    pub fn flops(&self) -> f64 {
        self.product_flops + self.vector_flops
    }
}

/// Result of an operation as far as it is known before the operation runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fold {
    /// Nothing.
    No,
    /// All elements of the only output equal this number, which the output's dtype represents exactly.
    Splat(f64),
    /// The only output equals this input, bit for bit.
    Input(usize),
}

/// Elements that pad an axis of an input at its end. The fillings of all inputs of an operation change no result.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Filling {
    /// The position of the input.
    pub input: usize,
    /// The axis.
    pub axis: usize,
    /// Number of elements.
    pub count: usize,
    /// Value of the elements.
    pub value: f64,
}

/// The input of an operation that holds indices, and which values are valid there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexInput {
    /// The position of the input.
    pub input: usize,
    /// Indices are valid from 0 up to and excluding this number.
    pub limit: usize,
    /// A further valid value, which stands for no index.
    pub ignored: Option<i64>,
}

impl IndexInput {
    /// Whether an index is valid.
    pub fn admits(&self, index: i64) -> bool {
        let is_below = usize::try_from(index).is_ok_and(|index| index < self.limit);
        is_below || self.ignored == Some(index)
    }
}

/// The arguments of a derivative rule.
pub struct Vjp<'a> {
    /// The operation's inputs.
    pub inputs: &'a [Tensor],
    /// The operation's outputs.
    pub outputs: &'a [Tensor],
    /// The cotangent of each output, the derivative of the final scalar with respect to it; none where it is zero. At
    /// least one is given.
    pub cotangents: &'a [Option<Tensor>],
    /// For each input, whether its cotangent is wanted.
    pub wanted: &'a [bool],
}

/// Equality of operations through `dyn Op`. Every type with `PartialEq` implements it.
pub trait SameFields {
    /// Whether the other value has the same type and equal fields.
    fn same_fields(&self, other: &dyn Any) -> bool;
}

impl<T: Any + PartialEq> SameFields for T {
    fn same_fields(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>().is_some_and(|other| self == other)
    }
}

/// An operation: a pure function from values to values.
///
/// Two operations are the same if they have the same type, equal fields and equal [`Op::attrs`]; see [`<dyn
/// Op>::same`](trait.Op.html#method.same). An operation from outside this crate needs [`Op::name`], [`Op::infer`] and
/// [`Op::decompose`] at least: by default its evaluation and its derivative follow from the decomposition, and a device
/// without a kernel for it runs the decomposition. [`Op::row_kernel`] gives it a kernel.
pub trait Op: Any + SameFields + Debug + Send + Sync {
    /// Name in the text form, of letters, digits, underscores and dots. No two types of operation share one.
    fn name(&self) -> &'static str;

    /// Attributes, in the order of the text form.
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    /// The type rule: output types from input types.
    ///
    /// # Errors
    /// A sentence in the user's terms that names the shapes.
    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>>;

    /// Reference evaluation in plain `f64` loops, without rounding to the outputs' dtypes. Every standard operation has
    /// one. An operation from outside needs one only if it has no decomposition: [`evaluate`](crate::evaluate) runs a
    /// decomposition where there is one, as a device does.
    ///
    /// # Panics
    /// In the default implementation.
    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let _ = (inputs, outputs);
        panic!(
            "the operation `{}` has neither an evaluation nor a decomposition",
            self.name()
        )
    }

    /// The ranks that compute it together, for a collective; none for every other operation.
    fn ranks(&self) -> Option<Ranks> {
        None
    }

    /// For a collective: the outputs on all ranks, of these types, from the inputs on all of them. This is the
    /// operation of any of the ranks.
    ///
    /// # Panics
    /// If the operation is no collective.
    fn eval_ranks(&self, inputs: &[Vec<&Array>], outputs: &[Vec<Type>]) -> Vec<Vec<Array>> {
        let _ = (inputs, outputs);
        panic!("the operation `{}` is of one rank", self.name())
    }

    /// For a collective whose ranks have one leaf each: the outputs of the leaves of the rank `ranks`, from the inputs
    /// of each of them, by operations of this rank. This is the operation of the first of these leaves. See
    /// [`side_by_side`](crate::side_by_side).
    ///
    /// # Panics
    /// If the operation is no collective.
    fn of_leaves(&self, inputs: &[Vec<Tensor>], ranks: Ranks) -> Vec<Vec<Tensor>> {
        let _ = (inputs, ranks);
        panic!("the operation `{}` is of one rank", self.name())
    }

    /// The derivative: for each input its cotangent, written with operations, so that it can be differentiated again;
    /// none where an input has no influence or its cotangent is not wanted. An empty list, the default, stands for the
    /// derivative of the decomposition.
    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let _ = cx;
        Vec::new()
    }

    /// The same outputs from simpler operations; none if there is no decomposition. The outputs have the types of the
    /// type rule.
    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let _ = inputs;
        None
    }

    /// The row-wise structure.
    fn row_wise(&self, inputs: &[Type], outputs: &[Type]) -> RowWise {
        let _ = (inputs, outputs);
        RowWise::No
    }

    /// A kernel in safe Rust, for an operation that works row by row; by default none. A device calls it for every
    /// row, from many threads, with the rows that [`Op::row_wise`] names, where all inputs and outputs are `f32` or
    /// `i32` and sums over rows are `f32`; for other types it evaluates the operation on the host. The device has
    /// checked the indices of [`Op::index_input`]. No output lies where an input does, whatever [`Op::in_place`] says.
    fn row_kernel(&self) -> Option<RowKernel> {
        None
    }

    /// For a view of the first input (reshape, transpose, slice, broadcast): the layouts of the outputs in that input's
    /// base array. None where a copy is needed, and for every other operation.
    fn view(&self, input: &Layout, inputs: &[Type], outputs: &[Type]) -> Option<Vec<Layout>> {
        let _ = (input, inputs, outputs);
        None
    }

    /// Whether output `output` may overwrite input `input`, row by row (or element by element), when both have the same
    /// type and the input is not read afterwards. By default true for elementwise operations.
    fn in_place(&self, input: usize, output: usize, inputs: &[Type], outputs: &[Type]) -> bool {
        self.row_wise(inputs, outputs) == RowWise::Elementwise && inputs[input] == outputs[output]
    }

    /// Whether it sums products over an axis that the output does not have, as a matrix product and attention do.
    fn is_contraction(&self) -> bool {
        false
    }

    /// Whether its result is its input in another dtype.
    fn is_cast(&self) -> bool {
        false
    }

    /// The input whose elements the result copies unchanged, if there is one, so that converting the input equals
    /// converting the result; it may have any dtype.
    fn copies(&self) -> Option<usize> {
        None
    }

    /// The operation that takes all its inputs in `bf16` and gives the same results in `f32`, where inputs of the types
    /// `inputs` can be rounded that far in mixed precision; none by default. `is_narrow` says which inputs need not be
    /// rounded, since they were widened from `bf16`.
    fn of_bf16(&self, inputs: &[Type], is_narrow: &[bool]) -> Option<Arc<dyn Op>> {
        let _ = (inputs, is_narrow);
        None
    }

    /// Folds constants: `known` holds, for each input, the number that all its elements equal (none where they differ
    /// or are not known). A folded result must equal the result of every device, so only exactly rounded functions
    /// fold. By default none does.
    fn fold(&self, known: &[Option<f64>], inputs: &[Type], outputs: &[Type]) -> Fold {
        let _ = (known, inputs, outputs);
        Fold::No
    }

    /// The input that holds indices, where one does. Such an input has an integer dtype.
    fn index_input(&self, inputs: &[Type]) -> Option<IndexInput> {
        let _ = inputs;
        None
    }

    /// For an operation whose only output is zeros but for the rows that input 0 numbers: the operation that computes
    /// these rows from the same inputs, one for each number; see [`CombineRows`](crate::ops::CombineRows).
    fn sparse_rows(&self) -> Option<Arc<dyn Op>> {
        None
    }

    /// The rule for the sparse inputs, which `sparse` marks. It may take 0 times any number as 0; see [`OnRows`].
    fn on_rows(&self, sparse: &[bool], inputs: &[Type]) -> OnRows {
        let _ = (sparse, inputs);
        OnRows::No
    }

    /// The rule for slice `number` of `slices` equal slices of the inputs that are read by rows. By default the
    /// operation itself, if it works row by row; an operation whose result depends on the number of a row overrides it.
    fn on_slices(&self, (number, slices): (usize, usize), inputs: &[Type], outputs: &[Type]) -> OnSlices {
        let _ = (number, slices);
        match self.row_wise(inputs, outputs) {
            RowWise::No => OnSlices::No,
            RowWise::Elementwise | RowWise::Rows { .. } => OnSlices::Same,
        }
    }

    /// The elements that pad runs of codes to whole words of `word` codes, which a kernel reads at once. By default
    /// none.
    fn fillings(&self, inputs: &[Type], word: usize) -> Vec<Filling> {
        let _ = (inputs, word);
        Vec::new()
    }

    /// The operation without the numbers that tell its random bits apart, where it has any: it takes as long.
    fn without_stream(&self) -> Option<Arc<dyn Op>> {
        None
    }

    /// For an operation whose only output is a sum over the first axis of all its inputs: the operation that adds the
    /// result for further rows to a sum, its last input.
    fn accumulating(&self, inputs: &[Type]) -> Option<Arc<dyn Op>> {
        let _ = inputs;
        None
    }

    /// For a backward operation: how its results follow without one of its inputs, from the output of a forward
    /// operation that read the same value. By default none do.
    #[allow(clippy::wrong_self_convention)]
    fn from_output(&self, inputs: &[Type]) -> Option<FromOutput> {
        let _ = inputs;
        None
    }

    /// For a forward operation: how input `input` follows from output 0 and the other inputs, where these are other
    /// values. By default it does not.
    fn inverse(&self, input: usize, inputs: &[Type]) -> Option<Inverse> {
        let _ = (input, inputs);
        None
    }

    /// The structure of an output along an axis; see [`Along`]. By default nothing is known.
    fn along(&self, query: AlongQuery<'_>) -> Along {
        let _ = query;
        Along::Unknown
    }

    /// Whether output 0 does not change where a number is added to all elements of each run of input `input` along
    /// `axis`, a number for each run. By default it does.
    fn ignores_shift(&self, input: usize, axis: usize, inputs: &[Type]) -> bool {
        let _ = (input, axis, inputs);
        false
    }

    /// For an input that is added up along an axis with factors of another input: how. By default it is not.
    fn contraction(&self, input: usize, inputs: &[Type]) -> Option<Contraction> {
        let _ = (input, inputs);
        None
    }

    /// Whether its only output is the sum of its two inputs.
    fn is_sum(&self) -> bool {
        false
    }

    /// For a norm that subtracts the mean along the last axis: its replacement where that mean is zero, for output 0
    /// alone.
    fn when_centred(&self) -> Option<WhenCentred> {
        None
    }

    /// The operation whose output 0 has another extent along an axis, where its inputs have; none where it is the same
    /// operation, because no attribute says the extent.
    fn with_extent(&self, axis: usize, extent: usize) -> Option<Arc<dyn Op>> {
        let _ = (axis, extent);
        None
    }

    /// Cost. By default one vector operation per output element.
    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Cost::vector(outputs.iter().map(|ty| ty.numel() as f64).sum(), inputs, outputs)
    }

    /// Its products, as hardware that multiplies matrices computes them. None by default: where its cost counts
    /// products, they are those of its decomposition.
    fn products(&self, inputs: &[Type], outputs: &[Type]) -> Vec<Products> {
        let _ = (inputs, outputs);
        Vec::new()
    }

    /// A hash that is equal for equal operations; the type counts separately. By default the hash of the attributes.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.attrs().hash(&mut hasher);
        hasher.finish()
    }
}

impl dyn Op {
    /// Whether the operation has the type `T`.
    pub fn is<T: Op>(&self) -> bool {
        (self as &dyn Any).is::<T>()
    }

    /// The operation as a `T`, if it has that type.
    pub fn downcast_ref<T: Op>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref::<T>()
    }

    /// The types of the outputs for inputs of the types `inputs`: [`Op::infer`], with every size checked.
    ///
    /// # Errors
    /// The operation's own sentence when the inputs do not fit it; a sentence when it has no outputs, or a type has a
    /// size that cannot be counted.
    pub fn infer_checked(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        inputs.iter().try_for_each(Type::check_size)?;
        let outputs = self.infer(inputs)?;
        if outputs.is_empty() {
            return Err(Error::user("there is no result"));
        }
        match outputs.iter().find(|ty| !ty.fits()) {
            Some(ty) => Err(Error::user(format!("the result {ty} is too large"))),
            None => Ok(outputs),
        }
    }

    /// The concrete type of the operation.
    pub(crate) fn concrete_type(&self) -> TypeId {
        (self as &dyn Any).type_id()
    }

    /// Whether two operations are the same: type, fields and attributes, floats of the latter by their bits.
    pub fn same(&self, other: &dyn Op) -> bool {
        self.same_fields(other) && self.attrs() == other.attrs()
    }
}
