//! The logits of a saved model on batches of any layout.

use lessen_base::Result;
use lessen_data::Batch;
use lessen_device::DeviceMemory;
use lessen_nn::{BatchShape, Model};
use lessen_task::batch_shape::{inputs_of, shape_of};
use lessen_train::{Function, Session};
use std::collections::HashMap;

/// A device with a model's parameters.
pub(super) struct Logits {
    session: Session,
    /// Functions by the layout of the batches that they are for.
    functions: HashMap<BatchShape, Function>,
}

impl Logits {
    /// Nothing is compiled yet.
    pub(super) fn new(session: Session) -> Logits {
        Logits {
            session,
            functions: HashMap::new(),
        }
    }

    /// The memory on the device.
    pub(super) fn memory(&self) -> DeviceMemory {
        self.session.memory()
    }

    /// Compiles what batches of a layout need, if it is new.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub(super) fn prepare(&mut self, model: &Model, shape: BatchShape) -> Result<Function> {
        if let Some(function) = self.functions.get(&shape) {
            return Ok(*function);
        }
        let function = self.session.function(|cx| vec![("logits", model.logits(cx, shape))])?;
        self.functions.insert(shape, function);
        Ok(function)
    }

    /// The extent of the last axis of the logits of a batch.
    ///
    /// # Errors
    /// As [`Logits::prepare`].
    pub(super) fn width(&mut self, model: &Model, batch: &Batch) -> Result<usize> {
        let function = self.prepare(model, shape_of(batch))?;
        let plan = self.session.plan(function)?;
        let graph = plan.graph();
        let output = graph.outputs.iter().find(|output| output.name == "logits");
        Ok(output.map_or(1, |output| graph.ty(output.value).last()))
    }

    /// The logits of a batch. A layout that is new is compiled.
    ///
    /// # Errors
    /// A batch that does not fit the model.
    pub(super) fn of(&mut self, model: &Model, batch: &Batch) -> Result<Vec<f32>> {
        let function = self.prepare(model, shape_of(batch))?;
        let results = self.session.run(function, &inputs_of(batch))?;
        Ok(results.f32("logits")?.to_vec())
    }
}
