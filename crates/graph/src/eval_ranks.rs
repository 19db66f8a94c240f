//! The reference evaluator for graphs of several ranks, which it runs together.

use std::collections::HashMap;

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::eval::{Evaluation, round};
use crate::graph::Graph;

/// Runs the graphs of all ranks together, each on inputs of its own, as [`evaluate`](crate::evaluate) runs one: where
/// all of them have come to an operation of several ranks, it is evaluated for all.
///
/// # Errors
/// Those of [`evaluate`](crate::evaluate); graphs that do not have the same operations of several ranks in one order.
pub fn evaluate_ranks(graphs: &[Graph], inputs: &[HashMap<String, Array>]) -> Result<Vec<HashMap<String, Array>>> {
    let all = graphs.iter().zip(inputs);
    let all = all.map(|(graph, inputs)| Evaluation::new(graph, inputs, round));
    let mut all: Vec<Evaluation<'_>> = all.collect::<Result<_>>()?;
    loop {
        let mut ops = Vec::with_capacity(all.len());
        for evaluation in &mut all {
            ops.push(evaluation.run()?.map(|op| (op.name(), op.ranks())));
        }
        if ops.iter().all(Option::is_none) {
            return Ok(all.iter().map(Evaluation::results).collect());
        }
        let of_rank = |(rank, op): (usize, &Option<(&str, _)>)| {
            let first = ops[0].as_ref()?;
            let (name, ranks): &(&str, Option<crate::Ranks>) = op.as_ref()?;
            let fits = ranks.is_some_and(|own| own.rank == rank && own.count == all.len());
            (fits && *name == first.0).then_some(())
        };
        if ops.iter().enumerate().any(|own| of_rank(own).is_none()) {
            return Err(Error::user(format!(
                "the graphs of {} ranks do not have the same operations of several ranks in one order: {ops:?} come next",
                all.len()
            )));
        }
        let inputs: Vec<Vec<&Array>> = all.iter().map(Evaluation::arguments).collect();
        let types: Vec<_> = all.iter().map(Evaluation::types).collect();
        let Some(op) = all[0].op() else {
            return Err(Error::internal("an operation that is gone"));
        };
        let outputs = op.eval_ranks(&inputs, &types);
        for (evaluation, outputs) in all.iter_mut().zip(outputs) {
            evaluation.set(outputs);
        }
    }
}
