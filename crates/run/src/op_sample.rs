//! What an attention layer of a saved language model reads on real text: the inputs for a benchmark of trained weights.

use crate::recipe::config::Config;
use crate::recipe::value::SettingValue;
use crate::saved_run::SavedRun;
use crate::task::RunTask;
use crate::task::evaluation::inputs_of;
use lessen_base::{Error, Result};
use lessen_graph::Tensor;
use lessen_graph::ops::Attention;
use lessen_nn::{BatchShape, Task};
use std::cell::RefCell;

/// An attention operation with values of its inputs.
#[derive(Clone, Debug)]
pub struct AttentionSample {
    /// The operation.
    pub op: Attention,
    /// Shape and elements of every input, `q`, `k` and `v` first.
    pub inputs: Vec<(Vec<usize>, Vec<f32>)>,
}

/// Names of the inputs while they are computed.
const NAMES: [&str; 10] = ["q", "k", "v", "3", "4", "5", "6", "7", "8", "9"];

impl SavedRun<'_> {
    /// The attention operation of layer number `layer`, from 0, and its inputs on the first `tokens` tokens of the
    /// validation text.
    ///
    /// # Errors
    /// A model that is no language model, has fewer layers or does not reach so far, and data that is missing.
    pub fn attention_sample(&self, layer: usize, tokens: usize) -> Result<AttentionSample> {
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
        let task = RunTask::assemble(config, Some(saved.clone()))?;
        let source = task.evaluation("dev")?;
        let batch = source.eval_batch(0);
        let shape = BatchShape::Padded {
            size: 1,
            length: tokens,
        };
        let mut session = self.session()?;
        let found = RefCell::new(None);
        let function = session.function(|cx| {
            task.model.logits(cx, shape);
            let trace = cx.trace();
            let node = trace.with_graph(|graph| {
                let of_attention = |node: &&lessen_graph::Node| node.op.is::<Attention>();
                let node = graph.nodes.iter().filter(of_attention).nth(layer)?;
                Some((*node.op.downcast_ref::<Attention>()?, node.inputs.clone()))
            });
            let Some((op, inputs)) = node else { return Vec::new() };
            let inputs: Vec<Tensor<'_>> = inputs.into_iter().map(|id| trace.tensor(id)).collect();
            *found.borrow_mut() = Some((op, inputs.iter().map(|x| x.shape()).collect::<Vec<_>>()));
            NAMES.into_iter().zip(inputs).collect()
        })?;
        let Some((op, shapes)) = found.into_inner() else {
            return Err(Error::user(format!(
                "{} has no attention layer {layer}; layers are numbered from 0",
                self.source().display()
            )));
        };
        let results = session.run(function, &inputs_of(&batch))?;
        let values = shapes.into_iter().zip(NAMES).map(|(shape, name)| {
            let values = results.f32(name).map(<[f32]>::to_vec).unwrap_or_default();
            (shape, values)
        });
        Ok(AttentionSample {
            op,
            inputs: values.collect(),
        })
    }
}
