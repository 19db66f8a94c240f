//! The logits of a saved model on batches of any layout.

use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_data::{Batch, Field};
use lessen_device::DeviceMemory;
use lessen_nn::{BatchShape, Model};
use lessen_task::batch_shape::{inputs_of, shape_of};
use lessen_train::{Function, Session};
use std::borrow::{Borrow, Cow};
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// A model with its parameters on a device. Threads that ask it take turns on the device; while a layout is compiled,
/// all others wait.
pub(super) struct Logits {
    model: Model,
    group: Group,
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
            group: Group::alone(),
            loaded: RwLock::new(Loaded {
                session,
                functions: HashMap::new(),
            }),
        }
    }

    /// The logits, of which the processes of a group compute their parts where batches are asked for by
    /// [`Logits::each`].
    pub(super) fn shared_by(self, group: &Group) -> Logits {
        Logits {
            group: group.clone(),
            ..self
        }
    }

    /// Takes the logits of each of `count` batches, in their order. The processes of a group compute one batch each at
    /// a time.
    ///
    /// # Errors
    /// The errors of `batch` and `take`, as [`Logits::of`], and a process that does not answer.
    pub(super) fn each<B: Borrow<Batch>>(
        &self,
        count: usize,
        mut batch: impl FnMut(usize) -> Result<B>,
        mut take: impl FnMut(usize, &Batch, &[f32]) -> Result<()>,
    ) -> Result<()> {
        if self.group.size() == 1 {
            return (0..count).try_for_each(|index| {
                let batch = batch(index)?;
                take(index, batch.borrow(), &self.of(batch.borrow())?)
            });
        }
        for first in (0..count).step_by(self.group.size()) {
            let last = count.min(first + self.group.size());
            let batches: Result<Vec<B>> = (first..last).map(&mut batch).collect();
            let own = batches.as_ref().map_err(Error::clone).and_then(|batches| {
                let own = batches.get(self.group.rank());
                own.map_or(Ok(Vec::new()), |own| self.of(own.borrow()))
            });
            let all = self.group.agree_f32s("the answers", own)?;
            for ((index, batch), logits) in (first..).zip(&batches?).zip(&all) {
                take(index, batch.borrow(), logits)?;
            }
        }
        Ok(())
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

    /// The logits of arrays of a shape, in batches of `size`. All batches have the same layout, so that one program is
    /// compiled. `array` gives the elements of an array by its number.
    ///
    /// # Errors
    /// Those of the arrays, and as [`Logits::each`].
    pub(super) fn of_arrays<'a>(
        &self,
        (count, size): (usize, usize),
        [rows, columns, channels]: [usize; 3],
        array: impl Fn(usize) -> Result<Cow<'a, [f32]>>,
    ) -> Result<Vec<Vec<f32>>> {
        let mut found = Vec::with_capacity(count);
        let batch = |index: usize| {
            let own = index * size..count.min((index + 1) * size);
            let (examples, all) = (own.len(), size * rows * columns * channels);
            let mut numbers = Vec::with_capacity(all);
            for number in own {
                numbers.extend_from_slice(&array(number)?);
            }
            numbers.resize(all, 0.0);
            let numbers = Field::f32([size, rows, columns, channels], numbers);
            Ok(Batch {
                fields: vec![("images".to_string(), numbers)],
                examples,
                tokens: examples,
            })
        };
        self.each(count.div_ceil(size), batch, |_, batch, logits| {
            let logits = logits.chunks_exact((logits.len() / size).max(1)).take(batch.examples);
            found.extend(logits.map(<[f32]>::to_vec));
            Ok(())
        })?;
        Ok(found)
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
