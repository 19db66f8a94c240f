//! Batches made ahead on a thread while the device runs the previous step.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};

use lessen_base::{Error, Result};

use crate::batch::Batch;
use crate::source::Source;

/// The training batches of a source from one step on, made ahead on a thread. Dropping this stops the thread.
pub struct Prefetch {
    // `None` while dropping: the closed channel stops the thread.
    batches: Option<Receiver<Result<Batch>>>,
    thread: Option<JoinHandle<()>>,
    /// The step whose batch the thread makes.
    making: Arc<AtomicU64>,
    failure: Option<Error>,
}

impl Prefetch {
    /// Starts with the batch of step `from_step` and keeps up to `depth` (at least 1) batches ready.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(source: Arc<dyn Source>, from_step: u64, depth: usize) -> Result<Prefetch> {
        Prefetch::of(source, from_step.., depth)
    }

    /// Makes the batches of these steps, in their order, and keeps up to `depth` (at least 1) batches ready.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn of(
        source: Arc<dyn Source>,
        steps: impl Iterator<Item = u64> + Send + 'static,
        depth: usize,
    ) -> Result<Prefetch> {
        let (sender, batches) = sync_channel(depth.max(1));
        let making = Arc::new(AtomicU64::new(0));
        let now = making.clone();
        let make = move || {
            for step in steps {
                now.store(step, Ordering::Relaxed);
                let batch = source.batch(step);
                let is_last = batch.is_err();
                if sender.send(batch).is_err() || is_last {
                    break;
                }
            }
        };
        let thread = Builder::new().name("lessen-data".into()).spawn(make).map_err(|error| {
            Error::user(format!(
                "no thread can be started for making batches ({error}); free some memory"
            ))
        })?;
        Ok(Prefetch {
            batches: Some(batches),
            thread: Some(thread),
            making,
            failure: None,
        })
    }

    /// Returns the next batch, waiting for it if needed.
    ///
    /// # Errors
    /// That of the source for this batch, or its panic; later calls return the same error.
    pub fn next_batch(&mut self) -> Result<Batch> {
        match self.batches.as_ref().and_then(|batches| batches.recv().ok()) {
            Some(Ok(batch)) => return Ok(batch),
            Some(Err(error)) => self.failure = Some(error),
            None => {}
        }
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let reason = match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => message_of(panic),
            _ => "its thread ended".to_string(),
        };
        let step = self.making.load(Ordering::Relaxed);
        let failure = self
            .failure
            .get_or_insert_with(|| Error::user(format!("the batch of step {step} could not be made: {reason}")));
        Err(failure.clone())
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            // Nobody waits for the result, so a panic is ignored.
            let _ = thread.join();
        }
    }
}

fn message_of(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic
            .downcast_ref::<&str>()
            .unwrap_or(&"an unknown failure")
            .to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the batches made; the batch of step `fails` panics.
    struct Counting {
        made: AtomicU64,
        fails: u64,
    }

    impl Source for Counting {
        fn batch(&self, step: u64) -> Result<Batch> {
            assert!(step != self.fails, "no such example");
            self.made.fetch_add(1, Ordering::SeqCst);
            Ok(Batch {
                fields: vec![],
                examples: step as usize,
                tokens: 0,
            })
        }
        fn batches_per_epoch(&self) -> u64 {
            1
        }
        fn eval_batches(&self) -> u64 {
            1
        }
        fn eval_batch(&self, _: u64) -> Result<Batch> {
            unreachable!("only the training side is prefetched")
        }
    }

    fn counting(fails: u64) -> Arc<Counting> {
        Arc::new(Counting {
            made: AtomicU64::new(0),
            fails,
        })
    }

    #[test]
    fn batches_come_in_order_from_the_step_asked_for() {
        let mut prefetch = Prefetch::start(counting(u64::MAX), 5, 2).unwrap();
        for step in 5..25 {
            assert_eq!(prefetch.next_batch().unwrap().examples, step);
        }
        let mut odd = Prefetch::of(counting(u64::MAX), (5..).step_by(2), 2).unwrap();
        for step in (5..25).step_by(2) {
            assert_eq!(odd.next_batch().unwrap().examples, step);
        }
    }

    #[test]
    fn the_thread_runs_only_so_far_ahead_and_ends_with_its_reader() {
        let source = counting(u64::MAX);
        let mut prefetch = Prefetch::start(source.clone(), 0, 3).unwrap();
        for _ in 0..10 {
            prefetch.next_batch().unwrap();
        }
        drop(prefetch);
        // 10 taken, 3 ready, 1 in the making.
        assert!(source.made.load(Ordering::SeqCst) <= 14);
        // The thread has dropped the source.
        assert_eq!(Arc::strong_count(&source), 1);
    }

    #[test]
    fn a_panic_reaches_the_reader_as_an_error_after_the_good_batches() {
        let mut prefetch = Prefetch::start(counting(2), 0, 4).unwrap();
        assert_eq!(prefetch.next_batch().unwrap().examples, 0);
        assert_eq!(prefetch.next_batch().unwrap().examples, 1);
        for _ in 0..2 {
            let error = prefetch.next_batch().unwrap_err().to_string();
            assert_eq!(error, "the batch of step 2 could not be made: no such example");
        }
    }
}
