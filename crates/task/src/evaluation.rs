//! Evaluation: a pass over a split without dropout, and its scores.

pub use crate::batch_shape::{inputs_of, shape_of};
pub use crate::goal::scores::Scores;

use crate::batch_shape::packed_shape;
use crate::goal::{Goal, LOSS};
use lessen_base::Result;
use lessen_data::Source;
use lessen_graph::Tensor;
use lessen_nn::{BatchShape, Cx, Model};
use lessen_train::{Function, Inputs, Session};
use std::collections::HashMap;

/// The name of the output with the logits.
const LOGITS: &str = "logits";

/// The outputs of an evaluation: the loss, and the logits where scores need them.
pub fn trace(cx: Cx, model: &Model, goal: &dyn Goal, shape: BatchShape) -> Vec<(&'static str, Tensor)> {
    let outputs = model.forward(cx, shape);
    let mut traced = vec![(LOSS, outputs.loss)];
    if goal.reads_logits() {
        traced.push((LOGITS, outputs.logits));
    }
    traced
}

/// The functions of an evaluation, by batch layout.
pub type Functions = HashMap<BatchShape, Function>;

/// Evaluates a model on a source. `functions` are made from [`trace`]; missing ones are added, that of the largest
/// batch first.
///
/// # Errors
/// Data that does not fit the model.
pub fn evaluate(
    session: &mut Session,
    functions: &mut Functions,
    (model, goal): (&Model, &dyn Goal),
    source: &dyn Source,
) -> Result<Scores> {
    let mut function_for = |session: &mut Session, shape: BatchShape| -> Result<Function> {
        if let Some(function) = functions.get(&shape) {
            return Ok(*function);
        }
        let function = session.function(|cx| trace(cx, model, goal, shape))?;
        functions.insert(shape, function);
        Ok(function)
    };
    if let Some((size, tokens)) = source.largest_eval_layout(0..source.eval_batches()) {
        function_for(session, packed_shape(source, size, tokens))?;
    }
    let (mut loss, mut weight, mut examples) = (0.0, 0.0, 0);
    let mut scorer = goal.scorer(model, source);
    for index in 0..source.eval_batches() {
        let batch = source.eval_batch(index)?;
        let function = function_for(session, shape_of(&batch))?;
        let inputs: &Inputs<'_> = &inputs_of(&batch);
        let results = session.run(function, inputs)?;
        let own = goal.weight_of(&batch);
        if own > 0.0 {
            loss += own * results.scalar(LOSS)?;
        }
        weight += own;
        examples += batch.examples;
        let logits = if goal.reads_logits() { results.f32(LOGITS)? } else { &[] };
        scorer.add(index, &batch, logits);
    }
    let found = scorer.finish();
    let loss = loss / weight.max(1.0);
    Ok(Scores {
        loss,
        named: found.named,
        examples: found.examples.unwrap_or(examples),
        perplexity: found.has_perplexity.then(|| loss.exp()),
        table: found.table,
        majority: found.majority,
        cut_texts: source.cut_texts(),
    })
}
