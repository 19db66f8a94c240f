//! Bits for a network that is there: it is trained with 8 bits, and then bits are chosen. Epochs and tests of bits are
//! kept in checkpoints.

mod kept;

use self::kept::Kept;
use super::course::Course;
use super::keys::SearchMethod;
use super::outcome::Outcome;
use super::report::Report;
use super::settings::Job;
use crate::job::Checkpoint;
use crate::training::checkpoint_clock::CheckpointClock;
use crate::training::interrupt;
use crate::training::progress::Progress;
use lessen_base::{Error, Result};
use lessen_data::images::LabelledImages;
use lessen_search::{AnyBits, Choice, allocate, haq, parted};
use lessen_task::device::NewBackend;
use lessen_task::folder::metrics::Metrics;
use lessen_task::wording::tell;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::time::Instant;

/// An error once Ctrl-C was pressed, which `stopped` tells from others.
fn stop(stopped: &Cell<bool>) -> Result<()> {
    stopped.set(interrupt::asked());
    if stopped.get() {
        return Err(Error::internal("interrupted"));
    }
    Ok(())
}

/// A search for bits under way.
struct Bits<'a, 'b, 'n> {
    course: &'b mut Course<'a>,
    network: AnyBits<'n>,
    kept: Kept,
    metrics: Metrics,
    clock: CheckpointClock,
    /// Whether Ctrl-C is the reason of an error.
    stopped: Cell<bool>,
}

impl Course<'_> {
    /// Trains the network and chooses its bits.
    ///
    /// # Errors
    /// A device that fails, a loss that is not finite, a folder that cannot be written to.
    pub(super) fn fixed(&mut self, checkpoint: Option<Checkpoint>, new_backend: NewBackend<'_>) -> Result<Report> {
        let (job, images) = (self.job, self.images);
        let choices = vec![[0; 5]; job.space.blocks.len()];
        if job.space.networks() == 1.0 {
            tell("every block has one choice of bits, so that nothing is trained");
            self.manifest.write(&self.folder.manifest_file())?;
            Metrics::open(&self.folder.metrics(), 0)?.sync()?;
            return self.ended(choices, json!({ "epochs": 0 }), 0);
        }
        let parts = parted(&images.train, &job.settings)?;
        if parts[1].len() < job.settings.batch {
            return Err(Error::user(format!(
                "{} images are left to judge bits by, and a batch has {}; choose a greater search.validation or a smaller \
                 search.batch",
                parts[1].len(),
                job.settings.batch
            )));
        }
        let training = LabelledImages::part_of(&images.train, &parts[0])?;
        let budget = self.config.run.budget;
        let network = job.any_bits(&training, images, budget, (&mut *self.watch, new_backend))?;
        let has_one = checkpoint.is_some();
        let kept = match checkpoint {
            Some(checkpoint) => Kept::of(checkpoint),
            None => Kept {
                network: network.state()?,
                epochs: 0,
                numbers: Vec::new(),
            },
        };
        self.manifest.write(&self.folder.manifest_file())?;
        let metrics = Metrics::open(&self.folder.metrics(), kept.done() as u64)?;
        let clock = CheckpointClock::new(self.minutes, has_one);
        let mut bits = Bits {
            course: self,
            network,
            kept,
            metrics,
            clock,
            stopped: Cell::new(false),
        };
        match bits.run(&parts[1]) {
            Ok((choices, more)) => {
                bits.save()?;
                let allocated = bits.network.session().memory().used.total();
                drop(bits);
                self.ended(choices, more, allocated)
            }
            Err(_) if bits.stopped.get() => {
                bits.save()?;
                let done = bits.kept.done();
                drop(bits);
                self.interrupted(&Progress::new("epoch", 0, 0), done)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes what was found.
    fn ended(&mut self, choices: Vec<Choice>, more: Value, allocated: usize) -> Result<Report> {
        let outcome = Outcome::new(self.job, self.config, self.images, choices, more)?;
        outcome.write(&self.folder, self.job, self.config)?;
        outcome.write_report(&self.folder)?;
        if let Some(guard) = self.guard.take() {
            guard.keep();
        }
        let spent = self.spent(allocated);
        spent.write(&self.folder.sessions())?;
        Ok(Report::new(self.folder.root(), outcome.numbers, &spent))
    }
}

/// The bits of each block.
fn bits_of(job: &Job, choices: &[Choice]) -> Vec<[u32; 2]> {
    let blocks = job.space.blocks.iter().zip(choices);
    blocks
        .filter_map(|(block, choice)| block.block(*choice))
        .map(|block| block.bits)
        .collect()
}

impl Bits<'_, '_, '_> {
    /// Trains and chooses, judged by these images.
    fn run(&mut self, judges: &[usize]) -> Result<(Vec<Choice>, Value)> {
        let (job, source) = (self.course.job, &self.course.images.train);
        let eight = vec![[8; 2]; job.space.blocks.len()];
        let steps = (self.kept.epochs * self.network.steps()) as u64;
        self.network.resume(steps, &self.kept.network)?;
        self.train(&eight)?;
        let [loss, accuracy] = self.network.test(source, judges, &eight)?;
        let progress = Progress::new("test", 0, 0);
        progress.report(&format!(
            "8 bits: validation loss {loss:.4}, accuracy {:.2} %",
            100.0 * accuracy
        ));
        let (choices, mut more) = match job.method {
            SearchMethod::Haq => self.haq(judges, accuracy)?,
            _ => self.allocation(judges, loss)?,
        };
        let [loss, changed] = self.network.test(source, judges, &bits_of(job, &choices))?;
        progress.report(&format!(
            "its bits: validation loss {loss:.4}, accuracy {:.2} % without more training",
            100.0 * changed
        ));
        progress.finish();
        if let Some(more) = more.as_object_mut() {
            more.insert("epochs".to_string(), json!(job.settings.epochs));
            more.insert("accuracy_of_8_bits".to_string(), json!(accuracy));
            more.insert("accuracy_of_its_bits".to_string(), json!(changed));
        }
        Ok((choices, more))
    }

    /// Trains the network with 8 bits for the epochs that are left.
    fn train(&mut self, eight: &[[u32; 2]]) -> Result<()> {
        let (epochs, rate) = (self.course.job.settings.epochs, self.course.job.settings.weight_rate);
        let steps = self.network.steps();
        let done = (self.kept.epochs * steps) as u64;
        let mut progress = Progress::new("step", (epochs * steps) as u64, done);
        while self.kept.epochs < epochs {
            let (epoch, stopped) = (self.kept.epochs, &self.stopped);
            let loss = self.network.epoch(eight, (epoch, epochs, rate), &mut |step, loss| {
                progress.step(
                    (epoch * steps + step + 1) as u64,
                    format!("epoch {}/{epochs}  loss {loss:.3}", epoch + 1),
                );
                if step + 1 < steps { stop(stopped) } else { Ok(()) }
            })?;
            self.kept.network = self.network.state()?;
            self.kept.epochs += 1;
            self.metrics.write(&json!({ "step": epoch + 1, "loss": loss }))?;
            if let Some(guard) = self.course.guard.take() {
                guard.keep();
            }
            stop(&self.stopped)?;
            self.save_if_due()?;
        }
        progress.finish();
        Ok(())
    }

    /// Chooses bits by measured sensitivities.
    fn allocation(&mut self, judges: &[usize], before: f64) -> Result<(Vec<Choice>, Value)> {
        let (job, source) = (self.course.job, &self.course.images.train);
        let bits = &job.space.blocks[0].bits[0];
        let tests = 2 * job.space.blocks.len() * bits.iter().filter(|bits| **bits != 8).count();
        let mut progress = Progress::new("test", tests as u64, self.kept.numbers.len() as u64);
        let known = self.kept.numbers.clone();
        let Bits {
            course,
            network,
            kept,
            metrics,
            clock,
            stopped,
        } = self;
        let found = network.sensitivities((source, judges), bits, (before, &known), &mut |loss| {
            kept.numbers.push(loss);
            metrics.write(&json!({ "step": kept.done(), "validation_loss": loss }))?;
            progress.step(kept.numbers.len() as u64, format!("loss {loss:.4}"));
            stop(stopped)?;
            save_if_due(course, kept, metrics, clock)
        })?;
        progress.finish();
        let limit = (job.settings.limit.unwrap_or(f64::INFINITY), job.settings.cost.unit());
        let choices = allocate(&job.space, &job.table, &found, limit)?;
        Ok((choices, json!({ "sensitivities": found })))
    }

    /// Chooses bits by HAQ's agent. Episodes whose accuracy is known are gone through again without a test, so that
    /// the agent has learned the same.
    fn haq(&mut self, judges: &[usize], before: f64) -> Result<(Vec<Choice>, Value)> {
        let Job {
            space,
            table,
            haq: settings,
            tuning: (tunings, rate),
            ..
        } = self.course.job;
        let (job, source) = (self.course.job, &self.course.images.train);
        let known = self.kept.numbers.clone();
        let limit = (job.settings.limit.unwrap_or(f64::INFINITY), job.settings.cost.unit());
        let device = self.network.session().device().clone();
        let mut progress = Progress::new("episode", settings.episodes as u64, known.len() as u64);
        let (epochs, steps) = (job.settings.epochs, self.network.steps());
        let Bits {
            course,
            network,
            kept,
            metrics,
            clock,
            stopped,
        } = self;
        let (kept, mut judged) = (RefCell::new(kept), 0);
        let found = haq(
            device,
            (space, table),
            limit,
            (settings, before),
            &mut |choices| {
                judged += 1;
                if let Some(accuracy) = known.get(judged - 1) {
                    return Ok(*accuracy);
                }
                let bits = bits_of(job, choices);
                let done = epochs + (judged - 1) * tunings;
                network.begin_from((done * steps) as u64, &kept.borrow().network)?;
                for epoch in 0..*tunings {
                    network.epoch(&bits, (epoch, *tunings, *rate), &mut |_, _| stop(stopped))?;
                }
                let [_, accuracy] = network.test(source, judges, &bits)?;
                kept.borrow_mut().numbers.push(accuracy);
                Ok(accuracy)
            },
            &mut |episode| {
                if episode.number < known.len() {
                    return Ok(());
                }
                progress.step(
                    episode.number as u64 + 1,
                    format!("accuracy {:.4}, best {:.4}", episode.accuracy, episode.best),
                );
                metrics.write(&json!({
                    "step": epochs + episode.number + 1,
                    "accuracy": episode.accuracy,
                    "cost": episode.cost,
                    "best": episode.best,
                }))?;
                stop(stopped)?;
                save_if_due(course, &mut kept.borrow_mut(), metrics, clock)
            },
        )?;
        progress.finish();
        let kept = kept.into_inner();
        network.begin_from((epochs * steps) as u64, &kept.network)?;
        let (choices, best) = found;
        Ok((
            choices,
            json!({ "episodes": settings.episodes, "tuned_accuracy": best }),
        ))
    }

    fn save(&mut self) -> Result<()> {
        save(self.course, &mut self.kept, &self.metrics)
    }

    fn save_if_due(&mut self) -> Result<()> {
        save_if_due(self.course, &mut self.kept, &self.metrics, &mut self.clock)
    }
}

/// Saves the state and the manifest.
fn save(course: &mut Course<'_>, kept: &mut Kept, metrics: &Metrics) -> Result<()> {
    metrics.sync()?;
    kept.write(&course.folder.checkpoint())?;
    course.manifest.done = kept.done();
    course.manifest.write(&course.folder.manifest_file())?;
    course.spent(0).write(&course.folder.sessions())?;
    if let Some(guard) = course.guard.take() {
        guard.keep();
    }
    Ok(())
}

/// Saves where a checkpoint is due.
fn save_if_due(course: &mut Course<'_>, kept: &mut Kept, metrics: &Metrics, clock: &mut CheckpointClock) -> Result<()> {
    if clock.is_due() {
        let begun = Instant::now();
        save(course, kept, metrics)?;
        clock.tried(begun.elapsed());
    }
    Ok(())
}
