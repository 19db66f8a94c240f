//! Condensation of a recipe's images: a few synthetic images of each class, in a folder of their own.
//!
//! [`condense`] reads the images of a recipe as bytes, plans the memory of the whole process, and makes synthetic
//! images by [`lessen_condense::condensation`]. It leaves a [`CondensedFolder`], from which a condensation that was
//! killed is resumed, and ends with the same bytes.

mod arrays;
mod checkpoint;
mod course;
mod evaluation;
mod folder;
mod log;
mod manifest;
mod pace;
mod pictures;
mod planning;
mod recipe_images;
mod report;
mod request;
mod settings;
mod start;

pub use self::evaluation::{EvaluatedNetwork, Evaluation, EvaluationRequest, evaluate_condensed};
pub use self::folder::CondensedFolder;
pub use self::manifest::Manifest;
pub use self::recipe_images::{PreparedSource, RecipeImages};
pub use self::report::Report;
pub use self::request::Request;
pub use self::settings::{check_no_condensation, network};

use self::course::Course;
use self::log::Log;
use self::planning::Job;
use self::start::Start;
use crate::device::NewBackend;
use crate::folder::spent::Spent;
use crate::planning::memory_watch::MemoryWatch;
use crate::training::checkpoint_clock::CheckpointClock;
use crate::training::interrupt;
use crate::wording::{counted, report, tell};
use lessen_base::Result;
use lessen_condense::{ImageSource, parameters};
use lessen_train::show_size;
use std::time::Instant;

/// Minutes between checkpoints where a recipe says nothing of them.
const CHECKPOINT_MINUTES: f64 = 5.0;

/// Condenses the images of a recipe. Ctrl-C stops after the present update of the images; the iteration that it
/// belongs to is then made anew by the next process.
///
/// # Errors
/// A mistake in data, settings, checkpoint or folder, before any iteration; images that become infinite or NaN.
pub fn condense(request: &Request, new_backend: NewBackend<'_>) -> Result<Report> {
    let begun = Instant::now();
    let mut watch = MemoryWatch::begin();
    let start = Start::of(request)?;
    let images = RecipeImages::read(&start.config)?;
    let manifest = start.manifest(&images)?;
    let count = start.settings.per_class * images.names.len();
    let (folder, guard) = start.folder()?;
    let before = Spent::read(&folder.sessions());
    if start.has_ended() {
        report(&format!("{} has all of its iterations", start.out().display()));
        return Ok(Report::new(start.out().to_path_buf(), &manifest, count, &before));
    }
    let network = network(&start.config, images.names.len())?;
    let job = Job {
        network: &network,
        source: &images.train,
        settings: start.settings.clone(),
        work: &folder.work(),
    };
    let mut condensation = job.planned(start.config.run.budget, &mut watch, new_backend)?;
    if let Some(checkpoint) = &start.checkpoint {
        condensation.resume(checkpoint.done, &checkpoint.state)?;
    }
    interrupt::listen()?;
    folder.write_settings(&start.settings_of(&images)?)?;
    manifest.write(&folder.manifest_file())?;
    folder.write_classes(&images.names)?;
    images.preprocessing().save(folder.root())?;
    folder.remove_pictures(|done| done <= start.done() && pictures::is_kept(done))?;
    let elements = parameters(&network, images.train.shape())?;
    let elements = elements.iter().filter(|param| !param.is_buffer);
    let elements: usize = elements.map(|param| param.shape.iter().product::<usize>()).sum();
    report(&format!(
        "{}: {} of {} from {}, by {} with {elements} parameters, peak memory {}, in {}",
        start.config.recipe(),
        counted(count as u64, "image"),
        counted(images.names.len() as u64, "class").replace("classs", "classes"),
        images.train.labels().len(),
        manifest.settings.get("network").map_or("a network", String::as_str),
        show_size(watch.account.total()),
        folder.root().display()
    ));
    images.remarks.iter().for_each(|remark| tell(remark));
    let layers = (condensation.layers(), condensation.settings().updates);
    let log = Log::open(&folder, (start.done(), manifest.iterations), layers)?;
    let minutes = start.config.condense.checkpoint_minutes.unwrap_or(CHECKPOINT_MINUTES);
    let mut course = Course {
        clock: CheckpointClock::new(minutes, start.checkpoint.is_some()),
        iterations: start.iterations,
        preprocessing: images.preprocessing(),
        condensation,
        folder,
        guard,
        manifest,
        log,
        watch,
        begun,
        before,
        unsaved: None,
    };
    let ending = course.run()?;
    let spent = course.spent();
    Ok(Report {
        done: course.condensation.done(),
        interrupted: ending.interrupted,
        distances: ending.distances,
        account: course.watch.account,
        ..Report::new(start.out().to_path_buf(), &course.manifest, count, &spent)
    })
}
