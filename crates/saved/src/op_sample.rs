//! The inputs of an operation of a saved language model on real text, for a benchmark with trained weights.

use crate::saved_run::SavedRun;
use lessen_base::{Error, Result};
use lessen_graph::{Node, Op, Tensor};
use lessen_nn::{BatchShape, Task};
use lessen_task::batch_shape::inputs_of;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::value::SettingValue;
use std::cell::RefCell;

/// An operation with values of its inputs.
#[derive(Clone, Debug)]
pub struct OpSample<O> {
    /// The operation.
    pub op: O,
    /// Shape and elements of every input, in order.
    pub inputs: Vec<(Vec<usize>, Vec<f32>)>,
}

impl SavedRun {
    /// Operation number `index`, counted from 0, among the operations of type `O` in the model's forward pass, and its
    /// inputs on the first `tokens` tokens of the validation text. `None` where the model has fewer operations of this
    /// type.
    ///
    /// # Errors
    /// A model that is no language model or does not reach so far, and data that is missing.
    pub fn op_sample<O: Op + Clone>(&self, index: usize, tokens: usize) -> Result<Option<OpSample<O>>> {
        let (config, saved) = (self.config(), self.saved());
        if saved.model.task() != Task::LanguageModelling {
            return Err(Error::user(format!(
                "{} is no language model; name the run of one",
                self.source().display()
            )));
        }
        saved.model.check_length(tokens)?;
        let mut settings = config.settings.clone();
        for (key, count) in [("data.max_length", tokens), ("train.batch", 1), ("train.tokens", 0)] {
            settings.set_named(key, SettingValue::Count(count as u64), format!("{tokens} tokens"))?;
        }
        let off = SettingValue::Text("off".to_string());
        settings.set_named("data.documents", off, format!("{tokens} tokens"))?;
        let config = Config::of(settings, config.phase.as_deref())?;
        let task = self.assembled(config)?;
        let source = task.evaluation("dev")?;
        let batch = source.eval_batch(0)?;
        let shape = BatchShape::Padded {
            size: 1,
            length: tokens,
        };
        let mut session = self.session()?;
        let found = RefCell::new(None);
        let function = session.function(|cx| {
            task.model().logits(cx, shape);
            let trace = cx.trace();
            let node = trace.with_graph(|graph| {
                let of_type = |node: &&Node| node.op.is::<O>();
                let node = graph.nodes.iter().filter(of_type).nth(index)?;
                Some((node.op.downcast_ref::<O>()?.clone(), node.inputs.clone()))
            });
            if let Some((op, inputs)) = node {
                let inputs = inputs.into_iter().map(|id| trace.tensor(id)).enumerate();
                let shapes: Vec<Vec<usize>> = inputs
                    .map(|(number, input)| {
                        trace.output(&number.to_string(), input);
                        input.shape()
                    })
                    .collect();
                *found.borrow_mut() = Some((op, shapes));
            }
            Vec::<(String, Tensor)>::new()
        })?;
        let Some((op, shapes)) = found.into_inner() else {
            return Ok(None);
        };
        let results = session.run(function, &inputs_of(&batch))?;
        let values = shapes.into_iter().enumerate().map(|(number, shape)| {
            let values = results.f32(&number.to_string());
            (shape, values.map(<[f32]>::to_vec).unwrap_or_default())
        });
        Ok(Some(OpSample {
            op,
            inputs: values.collect(),
        }))
    }
}
