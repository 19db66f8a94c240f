//! Bits for a network that is there: it is trained with 8 bits, and then bits are chosen, by tests or by the episodes
//! of HAQ's agent. Epochs, tests and episodes are the units of the job.

mod kept;

use self::kept::Kept;
use super::frame::Frame;
use super::outcome::Outcome;
use super::report::Report;
use crate::job::{Checkpoint, Driver, Job, Log, Unit, Unsaved};
use crate::planning::memory_watch::MemoryWatch;
use crate::schema::SearchMethod;
use lessen_base::{Error, Result};
use lessen_data::images::LabelledImages;
use lessen_nn::models::vision::MixedArchitecture;
use lessen_search::{AnyBits, BlockBits, Choice, Haq, allocate, parted};
use lessen_task::device::NewBackend;
use lessen_task::wording::{report, tell};
use lessen_train::{Peak, Progress};
use serde_json::{Map, Value, json};

/// A search for bits under way.
struct Bits<'a, 'n> {
    frame: Frame<'a>,
    network: AnyBits<'n>,
    /// The images that judge bits.
    judges: Vec<usize>,
    kept: Kept,
    /// The choice of bits, once the network is trained.
    choosing: Option<Choosing<'a>>,
    /// The numbers of the unit that is done.
    newest: Vec<(&'static str, f64)>,
}

/// A choice of bits under way.
struct Choosing<'a> {
    /// Loss and accuracy with 8 bits.
    before: [f64; 2],
    way: Way<'a>,
}

/// How bits are chosen.
enum Way<'a> {
    /// Exactly, by tests of these bits.
    Tests(Vec<BlockBits>),
    /// By episodes of an agent.
    Episodes(Box<Haq<'a>>),
}

/// Trains the network and chooses its bits.
///
/// # Errors
/// A device that fails, a loss that is not finite, a folder that cannot be written to.
pub(super) fn search(
    mut frame: Frame<'_>,
    checkpoint: Option<Checkpoint>,
    (watch, new_backend): (&mut MemoryWatch, &NewBackend),
) -> Result<Report> {
    let (job, images) = (frame.job, frame.images);
    if job.space.networks() == 1.0 {
        tell("every block has one choice of bits, so that nothing is trained");
        let mut driver = frame.driver(*watch, (0, false), ("epoch", 0, 0))?;
        let choices = vec![[0; 5]; job.space.blocks.len()];
        return ended(&frame, &mut driver, choices, json!({ "epochs": 0 }));
    }
    let [training, judges] = parted(&images.train, &job.settings)?;
    if judges.len() < job.settings.batch {
        return Err(Error::user(format!(
            "{} images are left to judge bits by, and a batch has {}; choose a greater search.validation or a smaller \
             search.batch",
            judges.len(),
            job.settings.batch
        )));
    }
    let training = LabelledImages::part_of(&images.train, &training)?;
    let budget = frame.config.run.budget;
    let network = job.any_bits(&training, images, budget, (&mut *watch, new_backend))?;
    let has_one = checkpoint.is_some();
    let kept = match checkpoint {
        Some(checkpoint) => Kept::of(checkpoint),
        None => Kept {
            network: network.state()?,
            epochs: 0,
            numbers: Vec::new(),
        },
    };
    let [all, done] = [job.settings.epochs, kept.epochs].map(|epochs| (epochs * network.steps()) as u64);
    let mut driver = frame.driver(*watch, (kept.done() as u64, has_one), ("step", all, done))?;
    let mut bits = Bits {
        frame,
        network,
        judges,
        kept,
        choosing: None,
        newest: Vec::new(),
    };
    let has_ended = driver.go(&mut bits)?;
    driver.check_saved()?;
    driver.measure(bits.peak());
    if !has_ended {
        return bits.frame.interrupted(&driver, bits.kept.done());
    }
    let (choices, more) = bits.result(&mut driver.log)?;
    driver.measure(bits.peak());
    ended(&bits.frame, &mut driver, choices, more)
}

/// Writes what was found.
fn ended(frame: &Frame<'_>, driver: &mut Driver, choices: Vec<Choice>, more: Value) -> Result<Report> {
    let outcome = Outcome::new(frame.job, frame.config, frame.images, choices, more)?;
    outcome.write(&frame.folder, frame.job, frame.config)?;
    frame.ended(driver, outcome)
}

impl Job for Bits<'_, '_> {
    type State = ();

    fn is_over(&self) -> bool {
        self.kept.epochs >= self.frame.job.settings.epochs && self.kept.numbers.len() >= self.tests()
    }

    fn prepare(&mut self, _: &mut Unit<'_>) -> Result<()> {
        self.restore(())
    }

    /// What is kept has the state already.
    fn state(&self) -> Result<()> {
        Ok(())
    }

    fn advance(&mut self, unit: &mut Unit<'_>) -> Result<()> {
        if self.kept.epochs < self.frame.job.settings.epochs {
            return self.train(unit);
        }
        self.begin_choosing(unit.log)?;
        self.judge(unit)
    }

    fn restore(&mut self, (): ()) -> Result<()> {
        self.choosing = None;
        let steps = self.kept.epochs * self.network.steps();
        self.network.resume(steps as u64, &self.kept.network)
    }

    fn record(&mut self, driver: &mut Driver) -> Result<()> {
        let step = self.kept.done() as u64;
        let mut line = Map::from_iter([("step".to_string(), json!(step))]);
        line.extend(self.newest.iter().map(|(name, value)| (name.to_string(), json!(value))));
        driver.log.metrics.write(&line.into())?;
        driver.log.events.scalars(step, &self.newest)
    }

    fn save(&mut self) -> Result<()> {
        let Frame { folder, manifest, .. } = &mut self.frame;
        self.kept.write(&folder.checkpoint())?;
        manifest.done = self.kept.done();
        manifest.write(&folder.manifest_file())
    }

    fn unsaved(&self) -> Unsaved {
        self.frame.unsaved(self.kept.done())
    }

    fn peak(&self) -> Peak {
        Peak {
            planned: 0,
            measured: self.network.session().memory().used.total(),
        }
    }
}

impl Bits<'_, '_> {
    /// Tests or episodes in all.
    fn tests(&self) -> usize {
        let job = self.frame.job;
        match job.method {
            SearchMethod::Haq => job.haq.episodes,
            _ => self.network.tests(&job.space.blocks[0].bits[0]).len(),
        }
    }

    /// 8 bits for every block.
    fn eight(&self) -> BlockBits {
        vec![[8; 2]; self.frame.job.space.blocks.len()]
    }

    /// Trains the network with 8 bits for an epoch.
    fn train(&mut self, unit: &mut Unit<'_>) -> Result<()> {
        let settings = &self.frame.job.settings;
        let (epoch, epochs, steps) = (self.kept.epochs, settings.epochs, self.network.steps());
        let (eight, rate) = (self.eight(), settings.weight_rate);
        let loss = self.network.epoch(&eight, (epoch, epochs, rate), &mut |step, loss| {
            unit.log.progress.step(
                (epoch * steps + step + 1) as u64,
                format!("epoch {}/{epochs}  loss {loss:.3}", epoch + 1),
            );
            if step + 1 < steps { unit.part() } else { Ok(()) }
        })?;
        self.kept.network = self.network.state()?;
        self.kept.epochs += 1;
        self.newest = vec![("loss", loss)];
        Ok(())
    }

    /// Tests the trained network, and begins to choose bits, unless that has begun. Episodes whose accuracy is known
    /// are gone through again without a test, so that the agent has learned the same.
    fn begin_choosing(&mut self, log: &mut Log) -> Result<()> {
        if self.choosing.is_some() {
            return Ok(());
        }
        let (job, eight) = (self.frame.job, self.eight());
        log.progress.finish();
        let before = self.network.test(&self.frame.images.train, &self.judges, &eight)?;
        let [loss, accuracy] = before;
        report(&format!(
            "8 bits: validation loss {loss:.4}, accuracy {:.2} %",
            100.0 * accuracy
        ));
        let (known, tests) = (self.kept.numbers.len() as u64, self.tests() as u64);
        let way = if job.method == SearchMethod::Haq {
            let limit = (job.settings.limit.unwrap_or(f64::INFINITY), job.settings.cost.unit());
            let device = self.network.session().device().clone();
            let mut haq = Haq::new(device, (&job.space, &job.table), limit, (&job.haq, accuracy))?;
            for accuracy in &self.kept.numbers {
                haq.propose()?;
                haq.judge(*accuracy)?;
            }
            log.progress = Progress::new("episode", tests, known);
            Way::Episodes(Box::new(haq))
        } else {
            log.progress = Progress::new("test", tests, known);
            Way::Tests(self.network.tests(&job.space.blocks[0].bits[0]))
        };
        self.choosing = Some(Choosing { before, way });
        Ok(())
    }

    /// Makes the next test or episode.
    fn judge(&mut self, unit: &mut Unit<'_>) -> Result<()> {
        let (job, source) = (self.frame.job, &self.frame.images.train);
        let (network, known) = (&mut self.network, &mut self.kept.numbers);
        let said = match self.choosing.as_mut().map(|choosing| &mut choosing.way) {
            None => return Err(Error::internal("bits are judged before they are chosen")),
            Some(Way::Tests(tests)) => {
                let [loss, _] = network.test(source, &self.judges, &tests[known.len()])?;
                known.push(loss);
                self.newest = vec![("validation_loss", loss)];
                format!("loss {loss:.4}")
            }
            Some(Way::Episodes(haq)) => {
                let bits = bits_of(job.space.architecture(haq.propose()?));
                let (tunings, rate) = job.tuning;
                let done = job.settings.epochs + known.len() * tunings;
                network.begin_from((done * network.steps()) as u64, &self.kept.network)?;
                for epoch in 0..tunings {
                    network.epoch(&bits, (epoch, tunings, rate), &mut |_, _| unit.part())?;
                }
                let [_, accuracy] = network.test(source, &self.judges, &bits)?;
                let episode = haq.judge(accuracy)?;
                known.push(accuracy);
                self.newest = vec![("accuracy", accuracy), ("cost", episode.cost), ("best", episode.best)];
                format!("accuracy {accuracy:.4}, best {:.4}", episode.best)
            }
        };
        unit.log.progress.step(known.len() as u64, said);
        Ok(())
    }

    /// The bits that were chosen, tested without more training.
    fn result(&mut self, log: &mut Log) -> Result<(Vec<Choice>, Value)> {
        self.begin_choosing(log)?;
        log.progress.finish();
        let (job, source) = (self.frame.job, &self.frame.images.train);
        let Some(Choosing { before, way }) = &self.choosing else {
            return Err(Error::internal("no bits were chosen"));
        };
        let [loss, accuracy] = *before;
        let (choices, mut more) = match way {
            Way::Tests(_) => {
                let found = self
                    .network
                    .rises(&job.space.blocks[0].bits[0], loss, &self.kept.numbers);
                let limit = (job.settings.limit.unwrap_or(f64::INFINITY), job.settings.cost.unit());
                let choices = allocate(&job.space, &job.table, &found, limit)?;
                (choices, Map::from_iter([("sensitivities".to_string(), json!(found))]))
            }
            Way::Episodes(haq) => {
                let (choices, best) = haq.best();
                let more = [("episodes", json!(haq.done())), ("tuned_accuracy", json!(best))];
                (
                    choices,
                    more.map(|(name, value)| (name.to_string(), value))
                        .into_iter()
                        .collect(),
                )
            }
        };
        let steps = job.settings.epochs * self.network.steps();
        self.network.begin_from(steps as u64, &self.kept.network)?;
        let bits = bits_of(job.space.architecture(&choices));
        let [loss, changed] = self.network.test(source, &self.judges, &bits)?;
        report(&format!(
            "its bits: validation loss {loss:.4}, accuracy {:.2} % without more training",
            100.0 * changed
        ));
        more.insert("epochs".to_string(), json!(job.settings.epochs));
        more.insert("accuracy_of_8_bits".to_string(), json!(accuracy));
        more.insert("accuracy_of_its_bits".to_string(), json!(changed));
        Ok((choices, more.into()))
    }
}

/// The bits of each block of a network.
fn bits_of(network: MixedArchitecture) -> BlockBits {
    network.blocks.into_iter().map(|block| block.bits).collect()
}
