//! A condensation as a job: iterations, pictures, checkpoints.

use super::folder::CondensedFolder;
use super::log::{Distances, Lines};
use super::manifest::Manifest;
use super::pace::{Left, Pace};
use super::{arrays, pictures};
use crate::job::{Checkpoint, Driver, Job, Log, Unit, Unsaved};
use lessen_base::{Error, Result};
use lessen_condense::{Condensation, ImageSource, LabelledImages};
use lessen_data::images::Preprocessing;
use lessen_nn::Weights;
use lessen_task::wording::{counted, report, tell};
use lessen_train::Peak;
use std::time::{Duration, Instant};

/// Root mean square of the images' values above which a warning is due; that of normalized data is about 1.
const FAR: f64 = 30.0;

/// A condensation under way.
pub(super) struct CondensationUnderWay<'a> {
    pub condensation: Box<dyn Condensation + 'a>,
    pub folder: CondensedFolder,
    pub manifest: Manifest,
    /// The time to fill, until the number of iterations is settled.
    pub pace: Option<Pace>,
    /// How numbers become what is seen.
    pub preprocessing: &'a Preprocessing,
    pub lines: Lines,
    /// The distances of the iteration that is done, and its time.
    pub newest: (Distances, Duration),
    /// The mean distance in the first iteration of this process and in the last one; none where there was none.
    pub found: Option<[f64; 2]>,
    /// Whether the warning about large values of the images was given.
    pub is_far: bool,
}

impl Job for CondensationUnderWay<'_> {
    type State = (usize, Weights);

    fn is_over(&self) -> bool {
        self.manifest
            .own
            .iterations
            .is_some_and(|all| self.condensation.done() >= all)
    }

    fn prepare(&mut self, unit: &mut Unit<'_>) -> Result<()> {
        let lines = &mut self.lines;
        self.condensation.prepare(&mut |part| {
            lines.preparation(part);
            unit.part()
        })?;
        self.picture()
    }

    fn state(&self) -> Result<(usize, Weights)> {
        Ok((self.condensation.done(), self.condensation.state()?))
    }

    fn advance(&mut self, unit: &mut Unit<'_>) -> Result<()> {
        let (begun, done, lines) = (Instant::now(), self.condensation.done(), &self.lines);
        let updates = self.condensation.settings().updates;
        let (mut distances, mut broken) = (Distances::default(), false);
        let iterated = self.condensation.iterate(&mut |update| {
            broken = update.distances.iter().any(|distance| !distance.is_finite());
            if broken {
                return Err(Error::internal("a distance that is not finite"));
            }
            lines.update(update, unit.log);
            distances.add(update);
            if update.update + 1 < updates {
                unit.part()
            } else {
                Ok(())
            }
        });
        if broken {
            let error = self.diverged(done);
            self.folder.write_divergence(&error.to_string())?;
            return Err(error);
        }
        self.newest = (distances, begun.elapsed());
        iterated
    }

    fn restore(&mut self, (done, state): (usize, Weights)) -> Result<()> {
        self.condensation.resume(done, &state)
    }

    fn record(&mut self, driver: &mut Driver) -> Result<()> {
        let done = self.condensation.done();
        self.lines.iteration(done, &self.newest, &mut driver.log)?;
        let (distance, time) = (self.newest.0.total(), self.newest.1);
        self.found = Some([self.found.map_or(distance, |[first, _]| first), distance]);
        match self.pace.as_mut().map(|pace| pace.add(time)) {
            None => {}
            Some(Left::About(more)) => self.lines.expect_about(done.saturating_add(more), &mut driver.log),
            Some(Left::Exactly(more)) => {
                self.pace = None;
                self.decide(done.saturating_add(more), &mut driver.log)?;
            }
        }
        self.picture()
    }

    fn save(&mut self) -> Result<()> {
        let done = self.condensation.done();
        let images = self.condensation.images()?;
        Checkpoint::of(done, self.condensation.state()?).write(&self.folder.checkpoint())?;
        self.manifest.done = done;
        self.manifest.own.learned_rate = images.learned_rate();
        self.folder
            .write_image(&pictures::png_of(&images, self.preprocessing))?;
        arrays::write(self.folder.root(), &images, self.preprocessing)?;
        self.manifest.write(&self.folder.manifest_file())
    }

    fn unsaved(&self) -> Unsaved {
        let what = format!("the images after iteration {} are not saved", self.condensation.done());
        Unsaved {
            goes_on: format!("{what}, the condensation goes on"),
            kept: None,
            at_end: what,
        }
    }

    fn peak(&self) -> Peak {
        Peak {
            planned: 0,
            measured: self.condensation.session().memory().used.total(),
        }
    }
}

impl CondensationUnderWay<'_> {
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
    fn decide(&mut self, count: usize, log: &mut Log) -> Result<()> {
        self.manifest.own.iterations = Some(count);
        self.manifest.write(&self.folder.manifest_file())?;
        self.lines.expect(count, log);
        report(&format!(
            "{} fill the time; the same images are made everywhere by --iterations {count} --set condense.real_batch={}",
            counted(count as u64, "iteration"),
            self.condensation.settings().real_batch
        ));
        Ok(())
    }

    /// Keeps the images as a picture, if the iterations that are done are among those that are kept.
    fn picture(&mut self) -> Result<()> {
        let done = self.condensation.done();
        if !pictures::is_kept(done) && Some(done) != self.manifest.own.iterations {
            return Ok(());
        }
        let images = self.condensation.images()?;
        self.warn_of_far(&images);
        let picture = pictures::png_of(&images, self.preprocessing);
        if let Err(error) = self.folder.write_picture(done, &picture) {
            tell(&format!(
                "warning: the picture after iteration {done} is not kept: {error}"
            ));
        }
        Ok(())
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
        tell(&format!(
            "warning: after iteration {} the values of the images have a root mean square of {size:.0}, and those of data \
             about 1, so networks will hardly learn from them; choose a smaller condense.image_rate",
            self.condensation.done()
        ));
    }
}
