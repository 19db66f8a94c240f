//! A condensation under way: iterations, pictures, checkpoints.

use super::folder::CondensedFolder;
use super::log::{Distances, Log};
use super::manifest::Manifest;
use super::pace::{Left, Pace};
use super::settings::Iterations;
use super::{arrays, pictures};
use crate::job::Checkpoint;
use crate::planning::memory_watch::MemoryWatch;
use crate::training::checkpoint_clock::CheckpointClock;
use crate::training::interrupt;
use lessen_base::{Error, Result};
use lessen_condense::{Condensation, ImageSource, LabelledImages};
use lessen_data::images::Preprocessing;
use lessen_task::folder::NewFolderGuard;
use lessen_task::folder::spent::Spent;
use lessen_task::wording::counted;
use lessen_train::Peak;
use std::time::Instant;

/// Root mean square of the images' values above which a warning is due; that of normalized data is about 1.
const FAR: f64 = 30.0;

/// A condensation under way.
pub(super) struct Course<'a> {
    pub condensation: Box<dyn Condensation + 'a>,
    pub folder: CondensedFolder,
    /// Removes the folder of a new condensation that fails before its first iteration.
    pub guard: Option<NewFolderGuard>,
    pub manifest: Manifest,
    pub iterations: Iterations,
    /// How numbers become what is seen.
    pub preprocessing: &'a Preprocessing,
    pub log: Log,
    pub clock: CheckpointClock,
    pub watch: MemoryWatch,
    pub begun: Instant,
    /// Time and memory of the sessions before.
    pub before: Spent,
    /// The error of the newest save, if it failed.
    pub unsaved: Option<Error>,
    /// Whether the warning about large values of the images was given.
    pub is_far: bool,
}

/// How a condensation ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ending {
    /// Whether Ctrl-C stopped it.
    pub interrupted: bool,
    /// The mean distance in the first iteration of this process and in the last one; none where there was none.
    pub distances: Option<[f64; 2]>,
}

impl Course<'_> {
    /// Goes through all iterations that are left.
    ///
    /// # Errors
    /// A device that fails, images that become infinite or NaN, a folder that cannot be written to.
    pub(super) fn run(&mut self) -> Result<Ending> {
        let mut found: Option<[f64; 2]> = None;
        if !self.prepare()? {
            return self.ending(true, found);
        }
        self.picture()?;
        let mut pace = match self.iterations {
            Iterations::Minutes(minutes) => Some(Pace::new(60.0 * minutes - self.before.seconds)),
            Iterations::Count(_) => None,
        };
        while self
            .manifest
            .iterations
            .is_none_or(|all| self.condensation.done() < all)
        {
            let begun = Instant::now();
            let Some(distances) = self.iterate()? else {
                return self.ending(true, found);
            };
            if let Some(guard) = self.guard.take() {
                guard.keep();
            }
            let time = begun.elapsed();
            self.log.iteration(self.condensation.done(), &distances, time)?;
            found = Some([found.map_or(distances.total(), |[first, _]| first), distances.total()]);
            let done = self.condensation.done();
            match pace.as_mut().map(|pace| pace.add(time)) {
                None => {}
                Some(Left::About(more)) => self.log.expect_about(done.saturating_add(more)),
                Some(Left::Exactly(more)) => {
                    pace = None;
                    self.decide(done.saturating_add(more))?;
                }
            }
            self.picture()?;
            if interrupt::asked() {
                self.save()?;
                return self.ending(true, found);
            }
            if self.clock.is_due() {
                self.save()?;
            }
        }
        self.save()?;
        self.ending(false, found)
    }

    /// Does what precedes the first iteration; false if Ctrl-C stopped it.
    fn prepare(&mut self) -> Result<bool> {
        let (mut stopped, log) = (false, &mut self.log);
        let prepared = self.condensation.prepare(&mut |part| {
            log.preparation(part);
            stop(&mut stopped)
        });
        match prepared {
            Err(_) if stopped => Ok(false),
            prepared => prepared.map(|()| true),
        }
    }

    /// One iteration; none if Ctrl-C stopped it. It is then as if it had not begun.
    fn iterate(&mut self) -> Result<Option<Distances>> {
        let (done, before) = (self.condensation.done(), self.condensation.state()?);
        let updates = self.condensation.settings().updates;
        let (mut distances, mut stopped, mut broken) = (Distances::default(), false, false);
        let log = &mut self.log;
        let iterated = self.condensation.iterate(&mut |update| {
            broken = update.distances.iter().any(|distance| !distance.is_finite());
            if broken {
                return Err(Error::internal("a distance that is not finite"));
            }
            log.update(update);
            distances.add(update);
            if update.update + 1 < updates {
                stop(&mut stopped)
            } else {
                Ok(())
            }
        });
        match iterated {
            Ok(()) => Ok(Some(distances)),
            Err(_) if broken => {
                let error = self.diverged(done);
                self.folder.write_divergence(&error.to_string())?;
                Err(error)
            }
            Err(_) if stopped => {
                self.condensation.resume(done, &before)?;
                self.save()?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The error of a distance that is not finite in the iteration after `done`.
    fn diverged(&self, done: usize) -> Error {
        Error::user(format!(
            "in iteration {} a distance of gradients is not finite, so the images in {} stay those of the last checkpoint; \
             choose a smaller condense.image_rate or condense.network_rate",
            done + 1,
            self.folder.root().display()
        ))
    }

    /// Decides the number of iterations.
    fn decide(&mut self, count: usize) -> Result<()> {
        self.manifest.iterations = Some(count);
        self.manifest.write(&self.folder.manifest_file())?;
        self.log.expect(count);
        self.log.report(&format!(
            "{} fill the time; the same images are made everywhere by --iterations {count} --set condense.real_batch={}",
            counted(count as u64, "iteration"),
            self.condensation.settings().real_batch
        ));
        Ok(())
    }

    /// Keeps the images as a picture, if the iterations that are done are among those that are kept.
    fn picture(&mut self) -> Result<()> {
        let done = self.condensation.done();
        if !pictures::is_kept(done) && Some(done) != self.manifest.iterations {
            return Ok(());
        }
        let images = self.condensation.images()?;
        self.warn_of_far(&images);
        let picture = pictures::png_of(&images, self.preprocessing);
        self.folder.write_picture(done, &picture)
    }

    /// Warns once if the values of the images are far larger than those of data.
    fn warn_of_far(&mut self, images: &LabelledImages) {
        let pixels = images.pixels();
        let squares = pixels.iter().map(|pixel| f64::from(*pixel).powi(2)).sum::<f64>();
        let size = (squares / pixels.len().max(1) as f64).sqrt();
        if size < FAR || self.is_far {
            return;
        }
        self.is_far = true;
        self.log.note(&format!(
            "warning: after iteration {} the values of the images have a root mean square of {size:.0}, and those of data \
             about 1, so networks will hardly learn from them; choose a smaller condense.image_rate",
            self.condensation.done()
        ));
    }

    /// Saves state, images and manifest. Where saving fails, the condensation goes on; it ends with the error unless it
    /// is saved later.
    fn save(&mut self) -> Result<()> {
        let begun = Instant::now();
        self.unsaved = self.save_all().err();
        self.clock.tried(begun.elapsed());
        if let Some(error) = &self.unsaved {
            self.log.note(&format!(
                "warning: the images after iteration {} are not saved, the condensation goes on: {error}",
                self.condensation.done()
            ));
        }
        Ok(())
    }

    fn save_all(&mut self) -> Result<()> {
        self.log.sync()?;
        let done = self.condensation.done();
        let images = self.condensation.images()?;
        let checkpoint = Checkpoint {
            done,
            state: self.condensation.state()?,
        };
        checkpoint.write(&self.folder.checkpoint())?;
        drop(checkpoint);
        self.manifest.done = done;
        self.manifest.learned_rate = images.learned_rate();
        self.folder
            .write_image(&pictures::png_of(&images, self.preprocessing))?;
        arrays::write(self.folder.root(), &images, self.preprocessing)?;
        self.manifest.write(&self.folder.manifest_file())?;
        self.spent().write(&self.folder.sessions())
    }

    /// Time and memory of all sessions up to now.
    pub(super) fn spent(&self) -> Spent {
        let peak = self.watch.peak(Peak {
            planned: 0,
            measured: self.condensation.session().memory().used.total(),
        });
        self.before.with_session(self.begun, &peak, self.watch.resident())
    }

    fn ending(&mut self, interrupted: bool, distances: Option<[f64; 2]>) -> Result<Ending> {
        self.log.finish();
        if let Some(error) = self.unsaved.take() {
            return Err(error.at(format!(
                "the images after iteration {} are not saved",
                self.condensation.done()
            )));
        }
        if let Some(guard) = self.guard.take() {
            guard.keep();
        }
        Ok(Ending { interrupted, distances })
    }
}

/// An error once Ctrl-C was pressed.
fn stop(stopped: &mut bool) -> Result<()> {
    *stopped = interrupt::asked();
    if *stopped {
        Err(Error::internal("interrupted"))
    } else {
        Ok(())
    }
}
