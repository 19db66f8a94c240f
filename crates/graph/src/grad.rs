//! Reverse-mode differentiation of any order: derivative rules append nodes, which can be differentiated again.

use std::collections::{HashMap, HashSet};

use lessen_base::Result;

use crate::builder::GraphBuilder;
use crate::graph::{Phase, ValueId};
use crate::op::{Op, Vjp};
use crate::tensor::Tensor;
use crate::trace::Trace;
use crate::types::Type;

impl Tensor {
    /// The gradients of this scalar with respect to `wrt`, as new tensors of the same trace. A tensor without influence
    /// has a gradient of zeros. Where one tensor of `wrt` is computed from another, the gradient of the other includes
    /// its influence through the first, as for `torch.autograd.grad`.
    ///
    /// # Panics
    /// If this is no scalar of a float type, or a tensor of `wrt` belongs to another trace.
    #[track_caller]
    pub fn grad(self, wrt: &[Tensor]) -> Vec<Tensor> {
        let ty = self.ty();
        let trace = self.trace();
        if ty.numel() != 1 || !ty.dtype.is_float() {
            trace.fail(format!("grad needs a float scalar, not {ty}"));
        }
        trace.check_own(format_args!("the derivative for"), wrt);
        let before = trace.set_phase(Phase::Backward);
        let seed = self.full_like(1.0);
        let found = vjp(&[self], &[Some(seed)], wrt).into_iter().zip(wrt);
        let gradients = found.map(|(g, x)| g.unwrap_or_else(|| x.full_like(0.0))).collect();
        trace.set_phase(before);
        gradients
    }
}

/// Vector-Jacobian product: the cotangents of `wrt` from the cotangents of `outputs`; none where there is no influence.
/// Where one tensor of `wrt` is computed from another, the other's cotangent includes its influence through the first.
/// Nodes before the first definition of `wrt` are not visited.
///
/// # Panics
/// If a tensor belongs to another trace, or a cotangent has another type than its output.
#[track_caller]
pub fn vjp(outputs: &[Tensor], cotangents: &[Option<Tensor>], wrt: &[Tensor]) -> Vec<Option<Tensor>> {
    let Some(first) = outputs.first() else {
        return vec![None; wrt.len()];
    };
    let trace = first.trace();
    let given: Vec<Tensor> = cotangents.iter().copied().flatten().collect();
    for tensors in [outputs, &given, wrt] {
        trace.check_own(format_args!("the derivative for"), tensors);
    }
    let end = trace.with_graph(|g| g.nodes.len());

    // Nothing before the first definition of `wrt` depends on it.
    let start = trace.with_graph(|g| {
        let first = |x: &Tensor| g.producer(x.id()).map_or(0, |node| node.index() + 1);
        wrt.iter().map(first).min().unwrap_or(end)
    });
    // Values that depend on `wrt` through float values: only these carry cotangents.
    let depends = trace.with_graph(|g| {
        let mut depends: HashSet<ValueId> = wrt.iter().map(|x| x.id()).collect();
        for node in &g.nodes[start..] {
            if node.inputs.iter().any(|v| depends.contains(v)) {
                let floats = node.outputs.iter().filter(|&&v| g.ty(v).dtype.is_float());
                depends.extend(floats);
            }
        }
        depends
    });

    let mut sums: HashMap<ValueId, Tensor> = HashMap::new();
    let accumulate = |sums: &mut HashMap<ValueId, Tensor>, value: ValueId, cotangent: Tensor| {
        let sum = match sums.get(&value) {
            Some(&sum) => sum + cotangent,
            None => cotangent,
        };
        sums.insert(value, sum);
    };
    for (output, cotangent) in outputs.iter().zip(cotangents) {
        if let Some(cotangent) = cotangent {
            let (given, expected) = (cotangent.ty(), output.ty());
            if given != expected {
                trace.fail(format!("the cotangent of a tensor of type {expected} has type {given}"));
            }
            accumulate(&mut sums, output.id(), *cotangent);
        }
    }

    for index in (start..end).rev() {
        let node = trace.with_graph(|g| g.nodes[index].clone());
        let wanted: Vec<bool> = node.inputs.iter().map(|v| depends.contains(v)).collect();
        if !wanted.contains(&true) {
            continue;
        }
        let given: Vec<Option<Tensor>> = node.outputs.iter().map(|v| sums.get(v).copied()).collect();
        if given.iter().all(Option::is_none) {
            continue;
        }
        let inputs: Vec<Tensor> = node.inputs.iter().map(|&v| trace.tensor(v)).collect();
        let node_outputs: Vec<Tensor> = node.outputs.iter().map(|&v| trace.tensor(v)).collect();
        let before = trace.set_scope(node.scope.clone());
        let cx = Vjp {
            inputs: &inputs,
            outputs: &node_outputs,
            cotangents: &given,
            wanted: &wanted,
        };
        let mut results = node.op.vjp(&cx);
        if results.is_empty() {
            results = vjp_of_decomposition(node.op.as_ref(), &cx);
        }
        let name = node.op.name();
        if results.len() != inputs.len() {
            let (given, expected) = (results.len(), inputs.len());
            trace.fail_at(
                node_outputs[0],
                format!("the derivative of `{name}` gives {given} cotangents for {expected} inputs"),
            );
        }
        for ((input, result), wanted) in inputs.iter().zip(results).zip(&wanted) {
            if let (Some(cotangent), true) = (result, *wanted) {
                trace.check_own(format_args!("the derivative of `{name}` gives"), &[cotangent]);
                if cotangent.ty() != input.ty() {
                    let (given, expected) = (cotangent.ty(), input.ty());
                    trace.fail_at(
                        node_outputs[0],
                        format!("the derivative of `{name}` gives a cotangent {given} for an input {expected}"),
                    );
                }
                accumulate(&mut sums, input.id(), cotangent);
            }
        }
        trace.set_scope(before);
    }
    wrt.iter().map(|x| sums.get(&x.id()).copied()).collect()
}

impl GraphBuilder {
    /// The gradients of a scalar with respect to `wrt`, in the phase [`Phase::Backward`]; see [`Tensor::grad`].
    ///
    /// # Errors
    /// If the value is no scalar of a float type, an operation between has no derivative, or there is no such value.
    pub fn grad(&mut self, loss: ValueId, wrt: &[ValueId]) -> Result<Vec<ValueId>> {
        self.graph().check_defined(&[&[loss], wrt].concat())?;
        let mark = self.mark();
        let trace = Trace::building(std::mem::take(self));
        let found = trace.attempt_described(|| {
            let wrt: Vec<Tensor> = wrt.iter().map(|&x| trace.tensor(x)).collect();
            let gradients = trace.tensor(loss).grad(&wrt);
            gradients.into_iter().map(Tensor::id).collect()
        });
        *self = trace.into_builder();
        if found.is_err() {
            self.take_back(mark);
        }
        found
    }
}

/// The derivative of an operation without a derivative rule: appends its decomposition and differentiates that.
#[track_caller]
fn vjp_of_decomposition(op: &dyn Op, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
    // The same tensor may be given twice; identities keep the two uses apart.
    let inputs: Vec<Tensor> = cx.inputs.iter().map(|x| x.identity()).collect();
    let trace = inputs[0].trace();
    let fail = |sentence: String| -> ! { trace.fail_at(cx.outputs[0], sentence) };
    let before = trace.streams();
    let Some(outputs) = op.decompose(&inputs) else {
        fail(format!(
            "the operation `{}` has neither a derivative nor a decomposition",
            op.name()
        ));
    };
    let (given, expected): (Vec<Type>, Vec<Type>) = (
        outputs.iter().map(|y| y.ty()).collect(),
        cx.outputs.iter().map(|y| y.ty()).collect(),
    );
    if given != expected {
        let name = op.name();
        fail(format!(
            "the decomposition of `{name}` gives {given:?}, its type rule {expected:?}"
        ));
    }
    // A second decomposition would draw other random numbers than the forward pass did.
    if trace.streams() != before {
        fail(format!(
            "the operation `{}` needs a derivative of its own, since its decomposition draws random numbers",
            op.name()
        ));
    }
    let wanted: Vec<Tensor> = inputs
        .iter()
        .zip(cx.wanted)
        .filter(|(_, wanted)| **wanted)
        .map(|(x, _)| *x)
        .collect();
    let mut found = vjp(&outputs, cx.cotangents, &wanted).into_iter();
    cx.wanted
        .iter()
        .map(|&wanted| if wanted { found.next().flatten() } else { None })
        .collect()
}
