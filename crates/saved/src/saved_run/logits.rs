//! The logits of a saved model on batches of any layout.

use lessen_base::Result;
use lessen_data::{Batch, Field};
use lessen_device::DeviceMemory;
use lessen_nn::{BatchShape, Model};
use lessen_task::batch_shape::{inputs_of, shape_of};
use lessen_train::{Function, Session};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// A model with its parameters on a device. Threads that ask it take turns on the device; while a layout is compiled,
/// all others wait.
pub(super) struct Logits {
    model: Model,
    loaded: RwLock<Loaded>,
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
            loaded: RwLock::new(Loaded {
                session,
                functions: HashMap::new(),
            }),
        }
    }

    /// The memory on the device.
    pub(super) fn memory(&self) -> DeviceMemory {
        self.loaded().session.memory()
    }

    /// Compiles what batches of a layout need, if it is new.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub(super) fn prepare(&self, shape: BatchShape) -> Result<()> {
        self.function(shape).map(drop)
    }

    /// The extent of the last axis of the logits of a batch.
    ///
    /// # Errors
    /// As [`Logits::prepare`].
    pub(super) fn width(&self, batch: &Batch) -> Result<usize> {
        let function = self.function(shape_of(batch))?;
        let plan = self.loaded().session.plan(function)?;
        let graph = plan.graph();
        let output = graph.outputs.iter().find(|output| output.name == "logits");
        Ok(output.map_or(1, |output| graph.ty(output.value).last()))
    }

    /// The logits of a batch. A layout that is new is compiled.
    ///
    /// # Errors
    /// A batch that does not fit the model.
    pub(super) fn of(&self, batch: &Batch) -> Result<Vec<f32>> {
        let function = self.function(shape_of(batch))?;
        let results = self.loaded().session.run(function, &inputs_of(batch))?;
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

    /// The parameters and the functions, for as many readers as there are. A session is consistent between its calls,
    /// so that a use that panicked counts as one that failed.
    fn loaded(&self) -> RwLockReadGuard<'_, Loaded> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The function for batches of a layout.
    fn function(&self, shape: BatchShape) -> Result<Function> {
        let known = self.loaded().functions.get(&shape).copied();
        if let Some(function) = known {
            return Ok(function);
        }
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        let Loaded { session, functions } = &mut *loaded;
        if let Some(function) = functions.get(&shape) {
            return Ok(*function);
        }
        let function = session.function(|cx| vec![("logits", self.model.logits(cx, shape))])?;
        functions.insert(shape, function);
        Ok(function)
    }
}
