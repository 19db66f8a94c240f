//! Evaluation: a pass over a split without dropout, and its scores.

pub use crate::batch_shape::{inputs_of, shape_of};
pub use crate::goal::scores::Scores;

use crate::batch_shape::packed_shape;
use crate::goal::{Goal, LOSS};
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_data::{Batch, Source};
use lessen_graph::Tensor;
use lessen_nn::{BatchShape, Cx, Model};
use lessen_train::{Function, Inputs, Results, Session};
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
/// batch first. The processes of a group run one batch each at a time, and have the same scores.
///
/// # Errors
/// Data that does not fit the model; a process that does not answer.
pub fn evaluate(
    session: &mut Session,
    functions: &mut Functions,
    (model, goal): (&Model, &dyn Goal),
    source: &dyn Source,
    group: &Group,
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
    let mut add = |index: u64, batch: &Batch, of_batch: f64, logits: &[f32]| {
        let own = goal.weight_of(batch);
        if own > 0.0 {
            loss += own * of_batch;
        }
        weight += own;
        examples += batch.examples;
        scorer.add(index, batch, logits);
    };
    let mut run = |session: &mut Session, batch: &Batch| {
        let function = function_for(session, shape_of(batch))?;
        let inputs: &Inputs<'_> = &inputs_of(batch);
        session.run(function, inputs)
    };
    let (count, together) = (source.eval_batches(), group.size() as u64);
    for first in (0..count).step_by(group.size()) {
        if together == 1 {
            let batch = source.eval_batch(first)?;
            let results = run(session, &batch)?;
            add(first, &batch, results.scalar(LOSS)?, logits_of(goal, &results)?);
            continue;
        }
        let batches = (first..count.min(first + together)).map(|index| source.eval_batch(index));
        let batches: Result<Vec<Batch>> = batches.collect();
        let told = batches.as_ref().map_err(Error::clone).and_then(|batches| {
            let own = batches.get(group.rank());
            // The function may exchange messages, so that a process without a batch computes another one's.
            let Some(batch) = own.or(batches.last()) else {
                return Ok(Vec::new());
            };
            let results = run(session, batch)?;
            if own.is_none() {
                return Ok(Vec::new());
            }
            let mut told = results.scalar(LOSS)?.to_le_bytes().to_vec();
            told.extend(logits_of(goal, &results)?.iter().flat_map(|logit| logit.to_le_bytes()));
            Ok(told)
        });
        let told = group.agree("the evaluation", told)?;
        for ((index, batch), told) in (first..).zip(&batches?).zip(&told) {
            let told = told.split_first_chunk();
            let (loss, logits) = told.ok_or_else(|| Error::internal("a process evaluates nothing"))?;
            let logits = logits.as_chunks().0.iter().map(|logit| f32::from_le_bytes(*logit));
            add(index, batch, f64::from_le_bytes(*loss), &logits.collect::<Vec<f32>>());
        }
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

/// The logits of a batch, where scores need them.
fn logits_of<'r>(goal: &dyn Goal, results: &'r Results) -> Result<&'r [f32]> {
    if goal.reads_logits() {
        results.f32(LOGITS)
    } else {
        Ok(&[])
    }
}
