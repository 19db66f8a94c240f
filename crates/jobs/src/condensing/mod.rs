//! Condensation of a recipe's images: a few synthetic images of each class, in a folder of their own.
//!
//! [`condense`] reads the images of a recipe as bytes, plans the memory of the whole process, and makes synthetic
//! images by [`lessen_condense::condensation`]. It leaves a [`CondensedFolder`], from which a condensation that was
//! killed is resumed, and ends with the same bytes.

mod arrays;
mod check;
mod evaluation;
mod folder;
mod judging;
mod log;
mod manifest;
mod pace;
mod pictures;
mod planning;
mod report;
mod settings;
mod start;
mod under_way;

pub(crate) use self::check::{ReadImages, check, images_of};
pub(crate) use self::evaluation::evaluate_whole;
pub use self::evaluation::{EvaluatedNetwork, Evaluation, EvaluationRequest, evaluate_condensed};
pub use self::folder::CondensedFolder;
pub use self::manifest::Manifest;
pub(crate) use self::planning::within;
pub use self::report::Report;
pub use self::settings::network;
pub(crate) use self::settings::without_unread;
pub use crate::job::{PreparedSource, RecipeImages};
pub use crate::schema::CondenseKeys;

use self::check::check_classes;
use self::folder::WORK;
use self::log::Lines;
use self::pace::Pace;
use self::planning::Job;
use self::settings::{Iterations, check_network};
use self::start::Start;
use self::under_way::CondensationUnderWay;
use crate::job::{Begin, CHECKPOINT_MINUTES, Driver, Job as _, Request};
use crate::planning::memory_watch::MemoryWatch;
use lessen_base::Result;
use lessen_comm::Group;
use lessen_condense::{ImageSource, parameters};
use lessen_nn::models::vision::VisionModel;
use lessen_task::device::NewBackend;
use lessen_task::folder::spent::Spent;
use lessen_task::wording::{counted, report, show_duration, tell};
use lessen_train::show_size;
use std::time::Instant;

/// Condenses the images of a recipe. Ctrl-C stops after the present update of the images; the iteration that it
/// belongs to is then made anew by the next process.
///
/// # Errors
/// A mistake in data, settings, checkpoint or folder, before any iteration; images that become infinite or NaN.
pub fn condense(request: &Request, new_backend: &NewBackend) -> Result<Report> {
    let begun = Instant::now();
    let mut watch = MemoryWatch::begin();
    let mut start = Start::of(request)?;
    let images = RecipeImages::read_on(&start.job.config, &request.shared)?;
    let manifest = start.manifest(&images)?;
    let count = start.settings.per_class.saturating_mul(images.names.len());
    if start.has_ended() {
        let before = Spent::read(&start.folder()?.0.sessions());
        report(&format!("{} has all of its iterations", start.job.out().display()));
        return Ok(Report::new(start.job.out().to_path_buf(), &manifest, count, &before));
    }
    let network = network(&start.job.config, images.names.len())?;
    check_network(&start.job.config, &network, images.train.shape())?;
    check_classes(&start.job.config, &images, start.settings.per_class)?;
    let (folder, guard) = start.folder()?;
    let before = Spent::read(&folder.sessions());
    let settings = start.settings_of(&images)?;
    if guard.is_some() {
        // From here on a process that is killed leaves a folder to resume.
        folder.write_settings(&settings)?;
    }
    let job = Job {
        network: &network,
        source: &images.train,
        settings: start.settings.clone(),
        work: &folder.root().join(WORK),
    };
    let mut condensation = job.planned(start.job.config.run.budget, &mut watch, new_backend)?;
    if let Some(checkpoint) = &mut start.job.checkpoint {
        condensation.resume(checkpoint.done, &checkpoint.take_weights())?;
    }
    folder.remove_divergence()?;
    folder.write_settings(&settings)?;
    manifest.write(&folder.manifest_file())?;
    folder.write_classes(&images.names)?;
    images.preprocessing().save(folder.root())?;
    folder.remove_pictures(|done| done <= start.job.done() && pictures::is_kept(done))?;
    announce(&start, &manifest, &images, (&network, watch.account.total()))?;
    images.remarks.iter().for_each(|remark| tell(remark));
    let keys = start.job.config.settings.section::<CondenseKeys>()?;
    let updates = condensation.settings().updates;
    let lines = Lines::new(condensation.layers(), updates, manifest.own.iterations);
    let mut driver = Driver::begin(Begin {
        root: folder.root(),
        guard,
        done: (start.job.done() as u64, start.job.checkpoint.is_some()),
        minutes: keys.checkpoint_minutes.unwrap_or(CHECKPOINT_MINUTES),
        count: lines.count(start.job.done()),
        watch,
        time: (begun, before),
        group: Group::alone(),
    })?;
    let mut under_way = CondensationUnderWay {
        condensation,
        folder,
        manifest,
        pace: match start.iterations {
            Iterations::Minutes(minutes) => Some(Pace::new(60.0 * minutes - before.seconds)),
            Iterations::Count(_) => None,
        },
        preprocessing: images.preprocessing(),
        lines,
        newest: Default::default(),
        found: None,
        is_far: false,
    };
    let ended = driver.go(&mut under_way)?;
    driver.check_saved()?;
    driver.measure(under_way.peak());
    Ok(Report {
        done: under_way.condensation.done(),
        interrupted: !ended,
        distances: under_way.found,
        account: driver.watch.account,
        ..Report::new(
            start.job.out().to_path_buf(),
            &under_way.manifest,
            count,
            &driver.spent(),
        )
    })
}

/// Says what is about to be made, and in how much memory.
fn announce(
    start: &Start,
    manifest: &Manifest,
    images: &RecipeImages,
    (network, peak): (&VisionModel, usize),
) -> Result<()> {
    let params = parameters(network, images.train.shape())?;
    let params = params.iter().filter(|param| !param.is_buffer);
    let elements: usize = params.map(|param| param.shape.iter().product::<usize>()).sum();
    let setting = |name: &str| manifest.own.settings.get(name).map_or("", String::as_str);
    let (per_class, classes) = (start.settings.per_class, images.names.len());
    let long = match start.iterations {
        Iterations::Count(0) => String::new(),
        Iterations::Count(count) => format!(", {}", counted(count as u64, "iteration")),
        Iterations::Minutes(minutes) => format!(", as many iterations as fill {}", show_duration(60.0 * minutes)),
    };
    let [height, width, channels] = images.train.shape();
    report(&format!(
        "{}: {} of {height} x {width} x {channels} of {} classes from {} by {}, {} with {elements} parameters{long}, \
         peak memory {}, in {}",
        start.job.config.recipe(),
        counted((per_class * classes) as u64, "image"),
        classes,
        images.train.labels().len(),
        setting("method"),
        setting("network"),
        show_size(peak),
        start.job.out().display()
    ));
    Ok(())
}
