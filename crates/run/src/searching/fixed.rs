//! Bits for a network that is there: it is trained with 8 bits, and then bits are chosen. A process that is killed
//! begins anew, with the same numbers.

use super::course::Course;
use super::outcome::Outcome;
use super::report::Report;
use super::settings::{Job, SearchMethod};
use crate::device::NewBackend;
use crate::folder::metrics::Metrics;
use crate::training::interrupt;
use crate::training::progress::Progress;
use lessen_base::{Error, Result, SplitMix64};
use lessen_condense::{ImageSource, LabelledImages};
use lessen_search::{AnyBits, Choice, allocate, haq};
use serde_json::{Value, json};

/// An error once Ctrl-C was pressed.
fn stop() -> Result<()> {
    if interrupt::asked() {
        return Err(Error::user(
            "the search was interrupted before its bits were chosen; the same command with --resume begins it anew",
        ));
    }
    Ok(())
}

impl Course<'_> {
    /// Trains the network and chooses its bits.
    ///
    /// # Errors
    /// A device that fails, a loss that is not finite, a folder that cannot be written to, Ctrl-C.
    pub(super) fn fixed(&mut self, new_backend: NewBackend<'_>) -> Result<Report> {
        let (job, images) = (self.job, self.images);
        let source = &images.train;
        let mut random = SplitMix64::named(job.settings.seed, "search.parts");
        let mut parts = [Vec::new(), Vec::new()];
        for mut class in source.by_class() {
            random.shuffle(&mut class);
            let kept = (class.len() as f64 * job.settings.validation).round() as usize;
            parts[1].extend_from_slice(&class[..kept]);
            parts[0].extend_from_slice(&class[kept..]);
        }
        let training = LabelledImages::part_of(source, &parts[0])?;
        let budget = self.config.run.budget;
        let mut network = job.any_bits(&training, images, budget, (&mut *self.watch, new_backend))?;
        self.manifest.write(&self.folder.manifest())?;
        let mut metrics = Metrics::open(&self.folder.metrics(), 0)?;
        let epochs = job.settings.epochs;
        let mut progress = Progress::new("epoch", epochs as u64, 0);
        let eight = vec![[8; 2]; job.space.blocks.len()];
        network.train(&eight, (epochs, job.settings.weight_rate), &mut |epoch, loss| {
            progress.step(epoch as u64 + 1, format!("loss {loss:.4}"));
            metrics.write(&json!({ "step": epoch + 1, "loss": loss }))?;
            stop()
        })?;
        if let Some(guard) = self.guard.take() {
            guard.keep();
        }
        let [loss, accuracy] = network.test(source, &parts[1], &eight)?;
        progress.report(&format!(
            "8 bits: validation loss {loss:.4}, accuracy {:.2} %",
            100.0 * accuracy
        ));
        let limit = (job.settings.limit.unwrap_or(f64::INFINITY), job.settings.cost.unit());
        let bits_of = |choices: &[Choice]| -> Vec<[u32; 2]> {
            let blocks = job.space.blocks.iter().zip(choices);
            blocks
                .filter_map(|(block, choice)| block.block(*choice))
                .map(|block| block.bits)
                .collect()
        };
        let (choices, mut more) = match job.method {
            SearchMethod::Haq => self.haq(&mut network, (&parts[1][..], accuracy), limit, &mut metrics)?,
            _ => {
                let found = network.sensitivities(source, &parts[1], &job.space.blocks[0].bits[0])?;
                let choices = allocate(&job.space, &job.table, &found, limit)?;
                (choices, json!({ "sensitivities": found }))
            }
        };
        let [loss, changed] = network.test(source, &parts[1], &bits_of(&choices))?;
        progress.report(&format!(
            "its bits: validation loss {loss:.4}, accuracy {:.2} % without more training",
            100.0 * changed
        ));
        if let Some(more) = more.as_object_mut() {
            more.insert("epochs".to_string(), json!(epochs));
            more.insert("accuracy_of_8_bits".to_string(), json!(accuracy));
            more.insert("accuracy_of_its_bits".to_string(), json!(changed));
        }
        progress.finish();
        metrics.sync()?;
        let outcome = Outcome::new(job, self.config, images, choices, more)?;
        outcome.write(&self.folder, job, self.config)?;
        outcome.write_report(&self.folder)?;
        let spent = self.spent(network.session().memory().used.total());
        spent.write(&self.folder.sessions())?;
        Ok(Report::new(self.folder.root(), outcome.numbers, &spent))
    }

    /// Chooses bits by HAQ's agent.
    fn haq(
        &self,
        network: &mut AnyBits<'_>,
        (judges, before): (&[usize], f64),
        limit: (f64, &str),
        metrics: &mut Metrics,
    ) -> Result<(Vec<Choice>, Value)> {
        let Job {
            space,
            table,
            haq: settings,
            tuning,
            ..
        } = self.job;
        let trained = network.weights()?;
        let device = network.session().device().clone();
        let mut progress = Progress::new("episode", settings.episodes as u64, 0);
        let epochs = self.job.settings.epochs;
        let source = &self.images.train;
        let found = haq(
            device,
            (space, table),
            limit,
            (settings, before),
            &mut |choices| {
                let blocks = space.blocks.iter().zip(choices);
                let bits: Vec<[u32; 2]> = blocks
                    .filter_map(|(block, choice)| block.block(*choice))
                    .map(|block| block.bits)
                    .collect();
                network.set_weights(&trained)?;
                network.train(&bits, *tuning, &mut |_, _| stop())?;
                Ok(network.test(source, judges, &bits)?[1])
            },
            &mut |episode| {
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
                stop()
            },
        )?;
        progress.finish();
        network.set_weights(&trained)?;
        let (choices, best) = found;
        Ok((
            choices,
            json!({ "episodes": settings.episodes, "tuned_accuracy": best }),
        ))
    }
}
