//! The logits of a saved model on batches of any layout.

use crate::locked::locked;
use lessen_base::Result;
use lessen_data::{Batch, Field};
use lessen_device::DeviceMemory;
use lessen_nn::{BatchShape, Model};
use lessen_task::batch_shape::{inputs_of, shape_of};
use lessen_train::{Function, Session};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Mutex;

/// A model with its parameters on a device. Threads that ask it wait for each other.
pub(super) struct Logits {
    model: Model,
    loaded: Mutex<Loaded>,
}

/// The parameters on the device.
struct Loaded {
    session: Session,
    /// Functions by the layout of the batches that they are for.
    functions: HashMap<BatchShape, Function>,
}

impl Logits {
    /// Nothing is compiled yet.
    pub(super) fn new(session: Session, model: &Model) -> Logits {
        Logits {
            model: model.clone(),
            loaded: Mutex::new(Loaded {
                session,
                functions: HashMap::new(),
            }),
        }
    }

    /// The memory on the device.
    pub(super) fn memory(&self) -> DeviceMemory {
        locked(&self.loaded).session.memory()
    }

    /// Compiles what batches of a layout need, if it is new.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub(super) fn prepare(&self, shape: BatchShape) -> Result<()> {
        locked(&self.loaded).function(&self.model, shape).map(drop)
    }

    /// The extent of the last axis of the logits of a batch.
    ///
    /// # Errors
    /// As [`Logits::prepare`].
    pub(super) fn width(&self, batch: &Batch) -> Result<usize> {
        let mut loaded = locked(&self.loaded);
        let function = loaded.function(&self.model, shape_of(batch))?;
        let plan = loaded.session.plan(function)?;
        let graph = plan.graph();
        let output = graph.outputs.iter().find(|output| output.name == "logits");
        Ok(output.map_or(1, |output| graph.ty(output.value).last()))
    }

    /// The logits of a batch. A layout that is new is compiled.
    ///
    /// # Errors
    /// A batch that does not fit the model.
    pub(super) fn of(&self, batch: &Batch) -> Result<Vec<f32>> {
        let mut loaded = locked(&self.loaded);
        let function = loaded.function(&self.model, shape_of(batch))?;
        let results = loaded.session.run(function, &inputs_of(batch))?;
        Ok(results.f32("logits")?.to_vec())
    }

    /// The logits of each of some arrays of a shape, of which a batch has room for `size`. All batches have the same
    /// layout, so that one program is compiled.
    ///
    /// # Errors
    /// Those of the arrays, and as [`Logits::of`].
    pub(super) fn of_arrays<'a>(
        &self,
        size: usize,
        [rows, columns, channels]: [usize; 3],
        arrays: impl ExactSizeIterator<Item = Result<Cow<'a, [f32]>>>,
    ) -> Result<Vec<Vec<f32>>> {
        let (examples, all) = (arrays.len(), size * rows * columns * channels);
        let mut numbers = Vec::with_capacity(all);
        for array in arrays {
            numbers.extend_from_slice(&array?);
        }
        numbers.resize(all, 0.0);
        let numbers = Field::f32([size, rows, columns, channels], numbers);
        let batch = Batch {
            fields: vec![("images".to_string(), numbers)],
            examples,
            tokens: examples,
        };
        let logits = self.of(&batch)?;
        let logits = logits.chunks_exact((logits.len() / size).max(1)).take(examples);
        Ok(logits.map(<[f32]>::to_vec).collect())
    }
}

impl Loaded {
    /// The function for batches of a layout.
    fn function(&mut self, model: &Model, shape: BatchShape) -> Result<Function> {
        if let Some(function) = self.functions.get(&shape) {
            return Ok(*function);
        }
        let function = self.session.function(|cx| vec![("logits", model.logits(cx, shape))])?;
        self.functions.insert(shape, function);
        Ok(function)
    }
}
