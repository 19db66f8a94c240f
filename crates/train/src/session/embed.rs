//! Embeddings: the states of a text's tokens as one vector.

use super::{Inputs, Results, Session};
use lessen_base::{Error, Result};
use lessen_device::{Host, ProgramId};
use lessen_graph::{DType, Tensor};
use lessen_nn::{BatchShape, Cx, Model};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How the states of a text's tokens become one vector.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pooling {
    /// The state of the first token.
    First,
    /// The state of the last token.
    Last,
    /// The mean of the states.
    Mean,
    /// The sum of the states, divided by the square root of their number.
    MeanSqrtLength,
    /// The mean of the states by their positions, counted from 1.
    WeightedMean,
    /// The largest element of all states.
    Max,
}

impl Pooling {
    /// Sets the weights of the states of a text, of which the first `skipped` are 0. The maximum is no weighted sum:
    /// its weights stay 0.
    fn weights(self, weights: &mut [f32], skipped: usize) {
        let all = weights.len();
        let own = all.saturating_sub(skipped);
        let Some(first) = (own > 0).then_some(skipped) else {
            return;
        };
        match self {
            Pooling::First => weights[first] = 1.0,
            Pooling::Last => weights[all - 1] = 1.0,
            Pooling::Mean => weights[first..].fill((1.0 / own as f64) as f32),
            Pooling::MeanSqrtLength => weights[first..].fill((1.0 / (own as f64).sqrt()) as f32),
            Pooling::WeightedMean => {
                let sum: f64 = (first..all).map(|place| (place + 1) as f64).sum();
                let places = weights.iter_mut().enumerate().skip(first);
                places.for_each(|(place, weight)| *weight = ((place + 1) as f64 / sum) as f32);
            }
            Pooling::Max => {}
        }
    }
}

/// The function by which a session embeds texts of a batch layout. Who runs it holds it.
pub(super) struct Embedding {
    model: Model,
    /// Width of the model's states.
    width: usize,
    batch: BatchShape,
    pooling: Vec<Pooling>,
    program: ProgramId,
}

/// The functions by which a session embeds texts. No thread waits for the device while it has locked them.
#[derive(Default)]
pub(super) struct Embeddings {
    functions: Mutex<Vec<Arc<Embedding>>>,
}

impl Embedding {
    pub(super) fn program(&self) -> ProgramId {
        self.program
    }

    fn is_of(&self, model: &Model, batch: BatchShape, pooling: &[Pooling]) -> bool {
        self.batch == batch && self.pooling == pooling && self.model == *model
    }
}

impl Embeddings {
    fn locked(&self) -> MutexGuard<'_, Vec<Arc<Embedding>>> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All functions; none is freed while it is held.
    pub(super) fn all(&self) -> Vec<Arc<Embedding>> {
        self.locked().clone()
    }

    /// Takes out all functions, and returns their programs.
    pub(super) fn take(&mut self) -> Vec<ProgramId> {
        let functions = std::mem::take(&mut *self.locked());
        functions.iter().map(|embedding| embedding.program).collect()
    }

    fn find(&self, model: &Model, batch: BatchShape, pooling: &[Pooling]) -> Option<Arc<Embedding>> {
        let functions = self.locked();
        functions.iter().find(|own| own.is_of(model, batch, pooling)).cloned()
    }

    /// Adds a function, unless another thread has added the same one meanwhile. Returns the one that is kept.
    fn add(&self, new: Embedding) -> Arc<Embedding> {
        let mut functions = self.locked();
        let same = functions
            .iter()
            .find(|own| own.is_of(&new.model, new.batch, &new.pooling));
        if let Some(same) = same {
            return Arc::clone(same);
        }
        let new = Arc::new(new);
        functions.push(Arc::clone(&new));
        new
    }

    /// Takes out the functions of other models that nobody holds.
    fn take_others(&self, model: &Model) -> Vec<Arc<Embedding>> {
        let is_free = |own: &mut Arc<Embedding>| own.model != *model && Arc::strong_count(own) == 1;
        self.locked().extract_if(.., is_free).collect()
    }
}

impl Session {
    /// Embeds the texts of a batch without padding: the last hidden states of `model`, which has the session's
    /// parameters, pooled in each of these ways, one after another. Returns a row of `W · pooling.len()` numbers for
    /// each of the `B` texts for which the batch has room; that of an empty text is zeros. The first `skipped` tokens
    /// of every text, those of a prompt, are read by the model but not pooled. A layout that is new is compiled, and
    /// the functions of other models are freed then. Threads may ask one session, as with [`Session::run`].
    ///
    /// # Errors
    /// A model of images, a batch with padding, and inputs that do not fit the model.
    pub fn embed(
        &self,
        model: &Model,
        batch: BatchShape,
        inputs: &Inputs<'_>,
        pooling: &[Pooling],
        skipped: usize,
    ) -> Result<Vec<Vec<f32>>> {
        let BatchShape::Packed { size, tokens } = batch else {
            return Err(Error::user(
                "only texts in a batch without padding are embedded; make it with packed_batch",
            ));
        };
        let starts = inputs.iter().find_map(|(name, host)| match host {
            Host::I32(starts) if *name == "starts" && starts.len() == size + 1 => Some(*starts),
            _ => None,
        });
        let starts = starts.ok_or_else(|| Error::user(format!("the input starts is no i32[{}]", size + 1)))?;
        let places = |text: usize| -> Option<std::ops::Range<usize>> {
            let places = usize::try_from(starts[text]).ok()?..usize::try_from(starts[text + 1]).ok()?;
            (places.start <= places.end && places.end <= tokens).then_some(places)
        };
        let texts: Option<Vec<_>> = (0..size).map(places).collect();
        let texts =
            texts.ok_or_else(|| Error::user("the input starts does not rise from 0 to the tokens of the row"))?;
        let distinct = distinct(pooling);
        let weights: Vec<(String, Vec<f32>)> = distinct
            .iter()
            .filter(|pooling| **pooling != Pooling::Max)
            .map(|pooling| {
                let mut weights = vec![0.0; tokens];
                for places in &texts {
                    pooling.weights(&mut weights[places.clone()], skipped);
                }
                (format!("{pooling:?}"), weights)
            })
            .collect();
        let embedding = self.embedding(model, batch, distinct)?;
        let width = embedding.width;
        let own = weights
            .iter()
            .map(|(name, weights)| (name.as_str(), Host::F32(weights)));
        let inputs: Vec<(&str, Host<'_>)> = inputs.iter().copied().chain(own).collect();
        let results = Results::new(self.model.run(embedding.program, &inputs)?);
        let mut rows = vec![Vec::with_capacity(width * pooling.len()); size];
        for pooling in pooling {
            let found = results.f32(&format!("{pooling:?}"))?;
            for (text, row) in rows.iter_mut().enumerate() {
                match pooling {
                    Pooling::Max => row.extend(largest(found, width, skip(&texts[text], skipped))),
                    _ => row.extend_from_slice(&found[text * width..(text + 1) * width]),
                }
            }
        }
        Ok(rows)
    }

    /// Compiles what [`Session::embed`] needs for batches of this layout.
    ///
    /// # Errors
    /// A model of images, and a graph that the device's memory cannot hold.
    pub fn prepare_to_embed(&self, model: &Model, batch: BatchShape, pooling: &[Pooling]) -> Result<()> {
        self.embedding(model, batch, distinct(pooling)).map(drop)
    }

    /// The function of a batch layout.
    fn embedding(&self, model: &Model, batch: BatchShape, pooling: Vec<Pooling>) -> Result<Arc<Embedding>> {
        if let Some(found) = self.embeddings.find(model, batch, &pooling) {
            return Ok(found);
        }
        let width = model.width();
        let width =
            width.ok_or_else(|| Error::user("a model of images has no states of texts; name a model of texts"))?;
        let mut device = self.model.device().hold()?;
        for other in self.embeddings.take_others(model) {
            device.unload(other.program);
        }
        drop(device);
        let graph = self.graph(|cx| trace(cx, model, batch, &pooling))?;
        let program = self.model.load(self.planned(&graph, &self.options())?)?;
        let kept = self.embeddings.add(Embedding {
            model: model.clone(),
            width,
            batch,
            pooling,
            program,
        });
        if kept.program != program {
            self.model.unload(program);
        }
        Ok(kept)
    }
}

/// Each pooling once, in order.
fn distinct(pooling: &[Pooling]) -> Vec<Pooling> {
    let mut distinct = pooling.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

/// Pooled states by the names of their poolings; for the maximum, the states themselves.
fn trace(cx: Cx, model: &Model, batch: BatchShape, pooling: &[Pooling]) -> Vec<(String, Tensor)> {
    let states = model.states(cx, batch);
    let states = states.unwrap_or_else(|| cx.trace().fail("a model of images has no states of texts"));
    let pooled = pooling.iter().map(|pooling| {
        let name = format!("{pooling:?}");
        let pooled = match pooling {
            Pooling::Max => states,
            _ => batch.weighted_sum(cx, states, cx.input(&name, DType::F32, &batch.tokens())),
        };
        (name, pooled)
    });
    pooled.collect()
}

/// The places of a text without its first tokens.
fn skip(places: &std::ops::Range<usize>, skipped: usize) -> std::ops::Range<usize> {
    places.start.saturating_add(skipped).min(places.end)..places.end
}

/// The larger of two numbers; NaN where one of them is NaN.
fn larger(a: f32, b: f32) -> f32 {
    if a >= b || a.is_nan() { a } else { b }
}

/// The largest elements of the states at these places; zeros where there are none.
fn largest(states: &[f32], width: usize, places: std::ops::Range<usize>) -> Vec<f32> {
    let rows = states[places.start * width..places.end * width].chunks_exact(width);
    rows.fold(None, |largest: Option<Vec<f32>>, row| {
        Some(match largest {
            None => row.to_vec(),
            Some(largest) => largest.iter().zip(row).map(|(a, b)| larger(*a, *b)).collect(),
        })
    })
    .unwrap_or_else(|| vec![0.0; width])
}
