//! The steps of a training phase as a job, with evaluations and checkpoints.

use super::Run;
use super::log::Lines;
use super::recording;
use crate::job::processes::{agreed, check_one_each};
use crate::job::{Driver, Feed, Job, Unit, Unsaved, Wish};
use lessen_base::{Error, Result};
use lessen_data::{Batch, Prefetch};
use lessen_task::evaluation::Scores;
use lessen_train::{Peak, StepReport};
use std::sync::Arc;

/// What a feed asks for next.
const STEP: &str = "a step";
const EVALUATION: &str = "an evaluation";
const END: &str = "the end";

/// Where batches come from.
enum Batches {
    Data(Prefetch),
    Feed(Arc<dyn Feed>),
}

/// The steps that are left of a training phase.
pub(super) struct Steps<'a> {
    run: &'a mut Run,
    batches: Batches,
    /// The step that is done, until it is recorded.
    newest: Option<StepReport>,
    /// The last evaluation, if there was one.
    pub scores: Option<Scores>,
}

impl<'a> Steps<'a> {
    /// The steps that are left of a run's training phase.
    ///
    /// # Errors
    /// Data that cannot be read; processes that would give fewer or more batches than a step has.
    pub(super) fn of(run: &'a mut Run) -> Result<Steps<'a>> {
        let phase = &run.phase;
        let batches = match &run.feed {
            Some(feed) => {
                let options = run.trainer.options();
                check_one_each(&options.group, options.accumulate)?;
                Batches::Feed(feed.clone())
            }
            None => Batches::Data(phase.batches_from(run.trainer.done())?),
        };
        Ok(Steps {
            batches,
            run,
            newest: None,
            scores: None,
        })
    }

    /// Whether something that is done after every so many steps, and after the last one, is due.
    fn is_due_every(&self, every: u64) -> bool {
        let step = self.run.trainer.done();
        step == self.run.phase.end() || (every > 0 && step.is_multiple_of(every))
    }

    /// The batches of the next step.
    fn batches(&mut self, unit: &mut Unit<'_>) -> Result<Vec<Batch>> {
        let run = &mut *self.run;
        let done = run.trainer.done();
        let feed = match &mut self.batches {
            Batches::Data(batches) => return run.phase.next_batches(done, batches),
            Batches::Feed(feed) => feed,
        };
        let group = run.trainer.options().group.clone();
        loop {
            group.set_place(&format!("step {}", done + 1));
            let mut given = Vec::new();
            let own = match feed.next() {
                None => Ok(END),
                Some(Wish::Evaluate) => Ok(EVALUATION),
                Some(Wish::Step(data)) => run.phase.task.batch_of(&data, done).map(|batch| {
                    given.push(batch);
                    STEP
                }),
            };
            match agreed(&group, own, END)? {
                Err(error) => feed.refused(error),
                Ok(END) => return Err(unit.stop()),
                Ok(STEP) => return Ok(given),
                Ok(_) => {
                    let scores = run.evaluate(done)?;
                    run.lines(unit.log).evaluation(done, &scores, false)?;
                    let named = scores.to_json("dev");
                    let named = named
                        .iter()
                        .filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
                    feed.scored(&named.collect::<Vec<_>>());
                }
            }
        }
    }

    /// Logs the memory of the process.
    fn log_memory(&self, driver: &mut Driver) -> Result<()> {
        driver.measure(self.peak());
        let (peak, resident) = (driver.peak(), driver.watch.resident());
        self.run
            .lines(&mut driver.log)
            .memory(self.run.trainer.done(), peak, resident)
    }
}

impl Job for Steps<'_> {
    type State = ();

    fn is_over(&self) -> bool {
        self.run.is_over()
    }

    fn is_last(&self) -> bool {
        self.run.phase.is_last
    }

    fn state(&self) -> Result<()> {
        Ok(())
    }

    /// Trains one step: on the batches that it accumulates, fewer at the end of the last epoch. It is not stopped
    /// midway.
    fn advance(&mut self, unit: &mut Unit<'_>) -> Result<()> {
        let made = self.batches(unit);
        let made = if unit.is_stopped { Ok(made?) } else { made };
        let run = &mut *self.run;
        let group = run.trainer.options().group.clone();
        if let Some(first) = made.iter().flatten().next() {
            recording::record(run, first, unit.log)?;
        }
        let of = |count: fn(&Batch) -> usize| made.iter().flatten().map(count).sum::<usize>() as f64;
        let counts = vec![of(|batch| batch.examples), of(|batch| batch.tokens)];
        let report = run
            .phase
            .step(&mut run.trainer, made.as_deref().map_err(Error::clone))?;
        let counts = group.agree_numbers("the examples of the step", Ok(counts))?;
        let sum = |number: usize| counts.iter().map(|own| own[number]).sum::<f64>() as usize;
        let (examples, tokens) = (sum(0), sum(1));
        run.timing.step(report.time, examples, tokens);
        let speed = run.timing.speed(run.phase.task.goal());
        run.lines(unit.log).step(&report, (examples, tokens), &speed)?;
        self.newest = Some(report);
        Ok(())
    }

    /// Nothing precedes a batch that is waited for.
    fn restore(&mut self, (): ()) -> Result<()> {
        Ok(())
    }

    fn record(&mut self, driver: &mut Driver) -> Result<()> {
        if let Some(report) = self.newest.take().filter(|report| !report.loss.is_finite()) {
            return Err(self.run.no_loss(&report));
        }
        let step = self.run.trainer.done();
        if step == self.run.start + 1 {
            self.log_memory(driver)?;
            // Not sooner, so that a run that fails before leaves its folder unchanged.
            self.run.folder.remove_after(self.run.start)?;
        }
        if self.is_due_every(self.run.phase.task.config().train.eval_every) {
            let new = self.run.evaluate(step)?;
            self.run.wait(&new);
            let ends_early = self.run.stopped;
            self.run.lines(&mut driver.log).evaluation(step, &new, ends_early)?;
            self.log_memory(driver)?;
            self.run.keep_best(step, &new);
            self.scores = Some(new);
        }
        Ok(())
    }

    fn is_due(&self) -> bool {
        self.is_due_every(self.run.phase.task.config().train.checkpoint_every)
    }

    fn check(&mut self) -> Result<()> {
        let (step, broken) = (
            self.run.trainer.done(),
            self.run.trainer.broken_parameter()?.map(str::to_string),
        );
        broken.map_or(Ok(()), |name| {
            Err(self
                .run
                .diverged(step, &format!("after step {step} the parameter {name} is not finite")))
        })
    }

    fn save(&mut self) -> Result<()> {
        self.run.save_checkpoint()
    }

    fn share(&mut self) -> Result<()> {
        self.run.share_checkpoint()
    }

    fn unsaved(&self) -> Unsaved {
        let step = self.run.trainer.done();
        let newest = self.run.folder.checkpoints().newest();
        let newest = newest.ok().and_then(|newest| newest.whole);
        Unsaved {
            goes_on: format!("the checkpoint after step {step} is not saved, training goes on"),
            kept: Some(newest.map_or("there is none".to_string(), |(path, _)| {
                format!("{} is the last good one", path.display())
            })),
            at_end: format!("the last checkpoint, after step {step}, is not saved"),
        }
    }

    fn peak(&self) -> Peak {
        self.run.trainer.peak()
    }
}

impl Run {
    /// The writer of a log's lines about the training phase.
    pub(super) fn lines<'a>(&'a self, log: &'a mut crate::job::Log) -> Lines<'a> {
        Lines::new(log, self.phase.task.config().phase.as_deref())
    }
}
