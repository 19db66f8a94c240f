//! Evaluation of single operations on the host: for operations without a kernel, and for constants.

use lessen_base::{Error, Result};
use lessen_compile::{IndexSource, Plan, aligned};
use lessen_graph::{Array, Op, Type, ValueId, evaluate_op};

use crate::checks::rounded_array;
use crate::host_array::HostArray;
use crate::index_checks::check_indices;

/// The results of an operation's evaluation, of the types that it promised. An operation from outside with a kernel of
/// rows is evaluated through its decomposition, where it has one: it is here for types that the kernel does not take.
///
/// # Panics
/// If the operation breaks its promise.
pub fn evaluated(op: &dyn Op, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
    let results = if op.is_standard() || op.row_kernel().is_none() {
        op.eval(inputs, outputs)
    } else {
        evaluate_op(op, inputs).unwrap_or_else(|error| panic!("{error}"))
    };
    let kept = results.len() == outputs.len()
        && results
            .iter()
            .zip(outputs)
            .all(|(array, ty)| array.ty == *ty && array.data.len() == ty.numel());
    assert!(
        kept,
        "the evaluation of `{}` must return what its `infer` promises",
        op.name()
    );
    results
}

/// Places of a plan's constants in one allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConstantLayout {
    /// Byte of each constant of the plan.
    pub offsets: Vec<usize>,
    /// Bytes of all constants.
    pub bytes: usize,
}

impl ConstantLayout {
    /// The places of a plan's constants, each aligned as values in the arena are.
    ///
    /// # Errors
    /// Constants whose sizes cannot be added.
    pub fn of(plan: &Plan) -> Result<ConstantLayout> {
        let (mut offsets, mut bytes) = (Vec::with_capacity(plan.constants().len()), 0usize);
        for &value in plan.constants() {
            offsets.push(bytes);
            let own = plan.graph().ty(value).checked_bytes().map(aligned);
            bytes = own
                .and_then(|own| bytes.checked_add(own))
                .ok_or_else(|| Error::user("the constants of the plan are too large; choose smaller ones"))?;
        }
        Ok(ConstantLayout { offsets, bytes })
    }
}

/// The value of a plan's constant.
///
/// # Panics
/// If the value is no constant of the plan.
pub fn constant(plan: &Plan, value: ValueId) -> HostArray {
    let graph = plan.graph();
    let node = &graph.nodes[graph.producer(value).expect("a constant's node").index()];
    let k = node.outputs.iter().position(|&v| v == value).expect("its output");
    rounded_array(&evaluated(node.op.as_ref(), &[], &graph.output_types(node))[k])
}

/// Checks the constants of a plan that are indices.
///
/// # Errors
/// An index that is not valid.
pub fn check_constant_indices(plan: &Plan) -> Result<()> {
    for index in plan.indices() {
        if let IndexSource::Constant(value) = index.source {
            let shape = &plan.graph().ty(value).shape;
            check_indices("a constant", shape, index, constant(plan, value).host())?;
        }
    }
    Ok(())
}
