//! Checked answers: what an operation says of itself is compared with the types of its node before anything relies on
//! it, whoever wrote the operation.
//!
//! A hook of [`Op`] that an answer of fits no types counts as not implemented. The graph keeps the first such fault,
//! with the names of operation and hook, for [`Graph::check_answers`]: [`verify`](crate::verify) and the compiler
//! return it.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::along::{Along, AlongQuery, Contraction, WhenCentred};
use crate::graph::{Graph, Node};
use crate::inverse::{FromOutput, Inverse, Operand};
use crate::layout::Layout;
use crate::op::{Cost, Filling, Fold, IndexInput, OnRows, OnSlices, Op, OutRole, Role, RowWise};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// The hooks of an operation on inputs and outputs of these types. Each method asks the hook of its name.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    graph: &'a Graph,
    op: &'a dyn Op,
    inputs: &'a [Type],
    outputs: &'a [Type],
}

/// The fault of an answer, as the end of a sentence.
type Checked = std::result::Result<(), String>;

/// An error with this sentence, unless the condition holds.
fn ensure(holds: bool, fault: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(fault()) }
}

/// The types with this dtype.
fn in_dtype(types: &[Type], dtype: DType) -> Vec<Type> {
    types.iter().map(|ty| Type::new(dtype, &ty.shape)).collect()
}

/// The type with another extent of an axis, which it has.
fn with_extent(ty: &Type, axis: usize, extent: usize) -> Type {
    let mut ty = ty.clone();
    ty.shape[axis] = extent;
    ty
}

impl Graph {
    /// Asks an operation of this graph about inputs and outputs of these types.
    pub fn ask<'a>(&'a self, node: &'a Node, inputs: &'a [Type], outputs: &'a [Type]) -> Asked<'a> {
        Asked {
            graph: self,
            op: node.op.as_ref(),
            inputs,
            outputs,
        }
    }

    /// Keeps the fault of an answer, unless there is an earlier one.
    pub(crate) fn note_fault(&self, op: &dyn Op, hook: &str, fault: &str) {
        let _ = self.faults.set(Error::user(format!(
            "the operation `{}` breaks the contract of `{hook}`: {fault}; correct the operation",
            op.name()
        )));
    }

    /// Checks that no operation of this graph, of the graphs that it was made of and of those that were made of it gave
    /// an answer that does not fit its types.
    ///
    /// # Errors
    /// The first such answer, with the names of operation and hook.
    pub fn check_answers(&self) -> Result<()> {
        self.faults.get().map_or(Ok(()), |fault| Err(fault.clone()))
    }
}

impl<'a> Asked<'a> {
    /// The answer of a hook, or the neutral one if it does not pass the check.
    fn checked<T>(&self, hook: &str, answer: T, neutral: T, check: impl FnOnce(&T) -> Checked) -> T {
        match check(&answer) {
            Ok(()) => answer,
            Err(fault) => {
                self.graph.note_fault(self.op, hook, &fault);
                neutral
            }
        }
    }

    /// The answer of a hook that may have none, or none if it does not pass the check.
    fn optional<T>(&self, hook: &str, answer: Option<T>, check: impl FnOnce(&T) -> Checked) -> Option<T> {
        self.checked(hook, answer, None, |answer| answer.as_ref().map_or(Ok(()), check))
    }

    /// The input of this number.
    fn input(&self, input: usize) -> std::result::Result<&'a Type, String> {
        let count = self.inputs.len();
        self.inputs
            .get(input)
            .ok_or_else(|| format!("it names the input {input} of {count}"))
    }

    fn check_axis(ty: &Type, axis: usize) -> Checked {
        ensure(axis < ty.rank(), || format!("{ty} has no axis {axis}"))
    }

    /// The only output.
    fn only_output(&self) -> std::result::Result<&'a Type, String> {
        match self.outputs {
            [only] => Ok(only),
            _ => Err(format!("there are {} results, not one", self.outputs.len())),
        }
    }

    /// Checks that another operation makes these types of inputs.
    fn check_makes(op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Checked {
        let made = op.infer_checked(inputs).map_err(|e| format!("{}: {e}", op.name()))?;
        ensure(made == outputs, || {
            format!("`{}` gives {made:?} of {inputs:?}, not {outputs:?}", op.name())
        })
    }

    /// Checks that output 0 of another operation has this type.
    fn check_makes_first(op: &dyn Op, inputs: &[Type], output: &Type) -> Checked {
        let made = op.infer_checked(inputs).map_err(|e| format!("{}: {e}", op.name()))?;
        ensure(made[0] == *output, || {
            format!("`{}` gives {} of {inputs:?}, not {output}", op.name(), made[0])
        })
    }

    /// The types of the operands of a rule of this operation, whose own inputs stand for those of both operations.
    fn operands(&self, operands: &[Operand]) -> std::result::Result<Vec<Type>, String> {
        let of = |operand: &Operand| match *operand {
            Operand::Own(input) | Operand::ForwardInput(input) => self.input(input).cloned(),
            Operand::ForwardOutput(output) => {
                let ty = self.outputs.get(output).cloned();
                ty.ok_or_else(|| format!("it names the result {output}"))
            }
            Operand::Side => Err("a side is no operand of it".to_owned()),
        };
        operands.iter().map(of).collect()
    }

    /// What [`Op::fold`] knows of the result.
    pub fn fold(&self, known: &[Option<f64>]) -> Fold {
        let fold = self.op.fold(known, self.inputs, self.outputs);
        self.checked("fold", fold, Fold::No, |fold| match *fold {
            Fold::No => Ok(()),
            Fold::Splat(value) => {
                let ty = self.only_output()?;
                let is_exact = ty.dtype.round(value) == value || (value.is_nan() && ty.dtype.is_float());
                ensure(is_exact, || format!("{ty} does not hold {value}"))
            }
            Fold::Input(input) => {
                let (from, ty) = (self.input(input)?, self.only_output()?);
                ensure(from == ty, || format!("it returns an input {from} as a result {ty}"))
            }
        })
    }

    /// The row-wise structure that [`Op::row_wise`] declares.
    pub fn row_wise(&self) -> RowWise {
        let row_wise = self.op.row_wise(self.inputs, self.outputs);
        self.checked("row_wise", row_wise, RowWise::No, |row_wise| match row_wise {
            RowWise::No => Ok(()),
            RowWise::Elementwise => {
                let Some(first) = self.outputs.first() else {
                    return Err("there is no result".to_owned());
                };
                let inputs = self.inputs.iter().filter(|ty| ty.rank() > 0);
                let other = inputs.chain(self.outputs).find(|ty| ty.numel() != first.numel());
                other.map_or(Ok(()), |other| Err(format!("{other} has other elements than {first}")))
            }
            RowWise::Rows { rows, inputs, outputs } => {
                self.check_roles(inputs.len(), outputs.len())?;
                let is_cut = |(ty, is_by_rows): (&Type, bool)| {
                    ensure(!is_by_rows || ty.numel().is_multiple_of(*rows), || {
                        format!("{ty} has no {rows} equal rows")
                    })
                };
                let read = inputs.iter().map(|role| *role == Role::Rows);
                let written = outputs.iter().map(|role| *role == OutRole::Rows);
                self.inputs.iter().zip(read).try_for_each(is_cut)?;
                self.outputs.iter().zip(written).try_for_each(is_cut)
            }
        })
    }

    fn check_roles(&self, inputs: usize, outputs: usize) -> Checked {
        ensure((inputs, outputs) == (self.inputs.len(), self.outputs.len()), || {
            format!(
                "it names {inputs} and {outputs} roles of {} inputs and {} results",
                self.inputs.len(),
                self.outputs.len()
            )
        })
    }

    /// The layouts of [`Op::view`] within a base array of `base` elements, where input 0 has this layout.
    pub fn view(&self, layout: &Layout, base: usize) -> Option<Vec<Layout>> {
        let first = self.inputs.first()?;
        let layouts = self.op.view(layout, self.inputs, self.outputs);
        self.optional("view", layouts, |layouts| {
            ensure(layouts.len() == self.outputs.len(), || {
                format!("it gives {} layouts of {} results", layouts.len(), self.outputs.len())
            })?;
            self.outputs.iter().zip(layouts).try_for_each(|(ty, layout)| {
                ensure(ty.dtype == first.dtype && layout.fits(&ty.shape, base), || {
                    format!(
                        "{ty} with strides {:?} from {} leaves {first}",
                        layout.strides, layout.offset
                    )
                })
            })
        })
    }

    /// Whether output `output` may overwrite input `input`; see [`Op::in_place`]. A kernel in safe Rust overwrites
    /// none.
    pub fn in_place(&self, input: usize, output: usize) -> bool {
        let may = self.op.row_kernel().is_none() && self.op.in_place(input, output, self.inputs, self.outputs);
        self.checked("in_place", may, false, |may| {
            let (from, ty) = (&self.inputs[input], &self.outputs[output]);
            ensure(!may || from == ty, || {
                format!("a result {ty} does not fit an input {from}")
            })
        })
    }

    /// Whether the result is the input in another dtype; see [`Op::is_cast`].
    pub fn is_cast(&self) -> bool {
        self.checked("is_cast", self.op.is_cast(), false, |is_cast| {
            let fits = matches!((self.inputs, self.outputs), ([x], [y]) if x.shape == y.shape);
            ensure(!is_cast || fits, || {
                "a cast has an input and a result of one shape".to_owned()
            })
        })
    }

    /// Whether the result is the sum of the two inputs; see [`Op::is_sum`].
    pub fn is_sum(&self) -> bool {
        self.checked("is_sum", self.op.is_sum(), false, |is_sum| {
            let fits = matches!((self.inputs, self.outputs), ([a, b], [y]) if a == y && b == y);
            ensure(!is_sum || fits, || {
                "a sum has two inputs of the result's type".to_owned()
            })
        })
    }

    /// The input whose elements the result copies; see [`Op::copies`].
    pub fn copies(&self) -> Option<usize> {
        self.optional("copies", self.op.copies(), |&input| {
            let (from, ty) = (self.input(input)?, self.only_output()?);
            ensure(from.dtype == ty.dtype, || format!("{ty} holds no copies of {from}"))
        })
    }

    /// The operation that takes `bf16`; see [`Op::of_bf16`].
    pub fn of_bf16(&self, is_narrow: &[bool]) -> Option<Arc<dyn Op>> {
        self.optional("of_bf16", self.op.of_bf16(self.inputs, is_narrow), |op| {
            Self::check_makes(op.as_ref(), &in_dtype(self.inputs, DType::BF16), self.outputs)
        })
    }

    /// The input of indices; see [`Op::index_input`].
    pub fn index_input(&self) -> Option<IndexInput> {
        self.optional("index_input", self.op.index_input(self.inputs), |index| {
            let ty = self.input(index.input)?;
            ensure(!ty.dtype.is_float(), || format!("{ty} holds no indices"))
        })
    }

    /// The operation that computes the rows that are not zeros; see [`Op::sparse_rows`].
    pub fn sparse_rows(&self) -> Option<Arc<dyn Op>> {
        self.optional("sparse_rows", self.op.sparse_rows(), |op| {
            let (ids, ty) = (self.input(0)?, self.only_output()?);
            Self::check_axis(ty, 0)?;
            let rows = with_extent(ty, 0, ids.numel());
            Self::check_makes(op.as_ref(), self.inputs, &[rows])
        })
    }

    /// The rule for sparse inputs; see [`Op::on_rows`].
    pub fn on_rows(&self, sparse: &[bool]) -> OnRows {
        let on_rows = self.op.on_rows(sparse, self.inputs);
        self.checked("on_rows", on_rows, OnRows::No, |on_rows| {
            if matches!(on_rows, OnRows::No) || !sparse.contains(&true) {
                return Ok(());
            }
            let ids = Type::new(DType::I32, &[1]);
            let mut types = Vec::with_capacity(self.inputs.len() + 1);
            for (ty, &is_sparse) in self.inputs.iter().zip(sparse) {
                if is_sparse || matches!(on_rows, OnRows::Rows) {
                    Self::check_axis(ty, 0)?;
                    if matches!(on_rows, OnRows::By(_)) {
                        types.push(ids.clone());
                    }
                    types.push(with_extent(ty, 0, 1));
                } else {
                    types.push(ty.clone());
                }
            }
            match on_rows {
                OnRows::By(op) => Self::check_makes(op.as_ref(), &types, self.outputs),
                OnRows::Rows => {
                    let ty = self.only_output()?;
                    Self::check_axis(ty, 0)?;
                    Self::check_makes(self.op, &types, &[with_extent(ty, 0, 1)])
                }
                _ => Self::check_makes(self.op, &types, &[self.only_output()?.clone()]),
            }
        })
    }

    /// The rule for a slice; see [`Op::on_slices`]. Types of slices are for the caller to check.
    pub fn on_slices(&self, slice: (usize, usize)) -> OnSlices {
        let on_slices = self.op.on_slices(slice, self.inputs, self.outputs);
        self.checked("on_slices", on_slices, OnSlices::No, |on_slices| match on_slices {
            OnSlices::Roles(_, inputs, outputs) => self.check_roles(inputs.len(), outputs.len()),
            OnSlices::No | OnSlices::Same | OnSlices::By(_) => Ok(()),
        })
    }

    /// The operation that adds further rows to a sum; see [`Op::accumulating`].
    pub fn accumulating(&self) -> Option<Arc<dyn Op>> {
        self.optional("accumulating", self.op.accumulating(self.inputs), |op| {
            let sum = self.only_output()?;
            let rows = self.input(0)?.shape.first();
            let all = rows.is_some() && self.inputs.iter().all(|ty| ty.shape.first() == rows);
            ensure(all, || format!("the inputs {:?} have not the same rows", self.inputs))?;
            let types = [self.inputs, std::slice::from_ref(sum)].concat();
            Self::check_makes(op.as_ref(), &types, self.outputs)
        })
    }

    /// The elements that pad inputs; see [`Op::fillings`].
    pub fn fillings(&self, word: usize) -> Vec<Filling> {
        let fillings = self.op.fillings(self.inputs, word);
        self.checked("fillings", fillings, Vec::new(), |fillings| {
            if fillings.is_empty() {
                return Ok(());
            }
            let mut types = self.inputs.to_vec();
            for filling in fillings {
                let ty = self.input(filling.input)?;
                Self::check_axis(ty, filling.axis)?;
                let holds = ty.dtype.round(filling.value) == filling.value;
                ensure(holds, || format!("{ty} does not hold {}", filling.value))?;
                let extent = &mut types[filling.input].shape[filling.axis];
                *extent = extent.checked_add(filling.count).ok_or("it fills too much")?;
            }
            Self::check_makes(self.op, &types, self.outputs)
        })
    }

    /// How results follow without an input; see [`Op::from_output`].
    pub fn from_output(&self) -> Option<FromOutput> {
        self.optional("from_output", self.op.from_output(self.inputs), |rule| {
            self.input(rule.input)?;
            let own = rule.operands.iter().filter_map(|operand| match operand {
                Operand::Own(input) => Some(*input),
                _ => None,
            });
            let same = rule.same.iter().map(|(own, _)| *own);
            own.chain(same).try_for_each(|input| self.input(input).map(|_| ()))
        })
    }

    /// How an input follows from output 0; see [`Op::inverse`].
    pub fn inverse(&self, input: usize) -> Option<Inverse> {
        self.optional("inverse", self.op.inverse(input, self.inputs), |rule| {
            let needs_itself = rule.operands.contains(&Operand::ForwardInput(input));
            ensure(!needs_itself, || format!("the input {input} follows from itself"))?;
            let operands = self.operands(&rule.operands)?;
            Self::check_makes_first(rule.op.as_ref(), &operands, self.input(input)?)
        })
    }

    /// The structure of an output along an axis; see [`Op::along`]. `constant` and `known` are those of [`AlongQuery`].
    pub fn along(&self, output: usize, axis: usize, (constant, known): (&[bool], &[Option<f64>])) -> Along {
        let along = self.op.along(AlongQuery {
            output,
            axis,
            constant,
            known,
            inputs: self.inputs,
            outputs: self.outputs,
        });
        self.checked("along", along, Along::Unknown, |along| {
            let extent = self.outputs[output].shape[axis];
            match along {
                Along::Linear(terms) => terms.iter().try_for_each(|&(input, axis)| {
                    let ty = self.input(input)?;
                    ensure(ty.shape.get(axis) == Some(&extent), || {
                        format!("{ty} has no axis {axis} of {extent} elements")
                    })
                }),
                Along::Product => {
                    let fits = |ty: &Type| ty.shape == self.outputs[output].shape;
                    let is_product = self.inputs.len() == 2 && self.inputs.iter().all(fits);
                    ensure(is_product, || {
                        "a product has two inputs of the result's shape".to_owned()
                    })
                }
                Along::Unknown | Along::Constant | Along::Centred => Ok(()),
            }
        })
    }

    /// How an input is added up with factors; see [`Op::contraction`].
    pub fn contraction(&self, input: usize) -> Option<Contraction> {
        self.optional("contraction", self.op.contraction(input, self.inputs), |contraction| {
            let (other, inner) = contraction.other;
            let (ty, factors) = (self.input(input)?, self.input(other)?);
            Self::check_axis(ty, contraction.axis)?;
            Self::check_axis(factors, inner)?;
            Self::check_axis(factors, contraction.results)?;
            let result = self.only_output()?;
            let is_inner = ty.shape[contraction.axis] == factors.shape[inner];
            let is_last = result.shape.last() == Some(&factors.shape[contraction.results]);
            ensure(is_inner && is_last, || format!("{ty} and {factors} give no {result}"))
        })
    }

    /// The norm without a mean; see [`Op::when_centred`].
    pub fn when_centred(&self) -> Option<WhenCentred> {
        self.optional("when_centred", self.op.when_centred(), |centred| {
            let (x, scale) = (self.input(0)?, self.input(centred.scale)?);
            self.input(centred.shift)?;
            let Some(y) = self.outputs.first().filter(|y| *y == x) else {
                return Err("the result of a norm has the type of input 0".to_owned());
            };
            let row = Type::new(x.dtype, &[x.last()]);
            let fits = x.rank() > 0 && *scale == row && self.inputs[centred.shift] == row;
            ensure(fits, || format!("a norm of {x} has scale and shift {row}"))?;
            Self::check_makes_first(centred.norm.as_ref(), &[x.clone(), row], y)
        })
    }

    /// The cost; see [`Op::cost`].
    pub fn cost(&self) -> Cost {
        let cost = self.op.cost(self.inputs, self.outputs);
        self.checked("cost", cost, Cost::default(), |cost| {
            let all = [cost.product_flops, cost.vector_flops, cost.bytes];
            let counts = all.iter().all(|x| x.is_finite() && *x >= 0.0);
            ensure(counts, || format!("{all:?} are no costs"))
        })
    }

    /// The outputs of [`Op::decompose`] on tensors of the inputs' types. What a decomposition that is refused appended
    /// is taken back.
    pub(crate) fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let trace = inputs.first()?.trace();
        let mark = trace.mark();
        let built = trace.attempt_described(|| self.op.decompose(inputs));
        let checked = built.map_err(|e| e.message().to_owned()).and_then(|outputs| {
            let Some(outputs) = outputs else { return Ok(None) };
            let is_own = outputs.iter().all(|y| y.trace() == trace);
            ensure(is_own, || "a result belongs to another trace".to_owned())?;
            let types: Vec<Type> = outputs.iter().map(|y| y.ty()).collect();
            ensure(types == self.outputs, || {
                format!("it gives {types:?}, not {:?}", self.outputs)
            })?;
            Ok(Some(outputs))
        });
        checked.unwrap_or_else(|fault| {
            self.graph.note_fault(self.op, "decompose", &fault);
            trace.take_back(mark);
            None
        })
    }
}
