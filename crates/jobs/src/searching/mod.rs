//! Search for architecture and precision on a recipe's images, in a folder of its own.
//!
//! [`search`] reads the images of a recipe, plans the memory of the whole process, and searches by [`lessen_search`].
//! It leaves a folder with the network that it found, as a description and as a recipe that trains it, from
//! which a search that was killed is resumed, and ends with the same bytes.

mod check;
mod curves;
mod fixed;
mod folder;
mod frame;
mod hardware;
mod outcome;
mod planning;
mod report;
mod settings;
mod start;
mod under_way;

pub(crate) use self::check::{check, without_unread};
pub(crate) use self::folder::{ARCHITECTURE, CHOICES, RECIPE, REPORT};
pub(crate) use self::hardware::MAPPING;
pub use self::report::Report;
pub use crate::schema::SearchKeys;

use self::frame::Frame;
use self::start::{Searched, Start};
use crate::job::RecipeImages;
use crate::job::Request;
use crate::planning::memory_watch::MemoryWatch;
use crate::schema::SearchMethod;
use lessen_base::Result;
use lessen_data::images::ImageSource;
use lessen_task::device::NewBackend;
use lessen_task::folder::spent::Spent;
use lessen_task::wording::{counted, report as say, tell};
use lessen_train::show_size;
use std::time::Instant;

/// Searches on the images of a recipe. Ctrl-C stops after the present step; the epoch that it belongs to is then made
/// anew by the next process.
///
/// # Errors
/// A mistake in data, settings, checkpoint or folder, before any step; a limit that no network meets, bits that the
/// hardware does not have; a loss that is infinite or NaN.
pub fn search(request: &Request, new_backend: &NewBackend) -> Result<Report> {
    let begun = Instant::now();
    let mut watch = MemoryWatch::begin();
    let start = Start::of_search(request)?;
    let images = RecipeImages::read_on(&start.config, &request.shared)?;
    let job = start.job(&images)?;
    let manifest = start.manifest(&images, Searched {})?;
    if start.has_ended() {
        let before = Spent::read(&start.folder()?.0.sessions());
        say(&format!("{} has its network", start.out().display()));
        return Report::of_folder(start.out(), &before);
    }
    let (folder, guard) = start.folder()?;
    let before = Spent::read(&folder.sessions());
    if guard.is_some() {
        // From here on a process that is killed leaves a folder to resume.
        folder.write_settings(&start.settings_of(&job, &images)?)?;
    }
    let [_, most] = job.table.range();
    let frame = Frame {
        job: &job,
        config: &start.config,
        images: &images,
        folder,
        guard,
        manifest,
        minutes: start.checkpoint_minutes()?,
        time: (begun, before),
    };
    say(&format!(
        "{}: search ({}) of {} blocks, {:.3e} networks of {} to {:.4} {} on {}, {} and {} to test, in {}",
        start.config.recipe(),
        job.method,
        job.space.blocks.len(),
        job.space.networks(),
        job.table.least_limit(),
        most,
        job.settings.cost.unit(),
        job.hardware.name(),
        counted(images.train.labels().len() as u64, "image"),
        images.test.labels().len(),
        start.out().display()
    ));
    images.remarks.iter().for_each(|remark| tell(remark));
    job.hardware.notes().iter().for_each(|note| tell(note));
    tell(&format!(
        "the cheapest network uses {:.1} % of the units of {}",
        100.0 * job.least_utilisation(&images)?,
        job.hardware.name()
    ));
    let of_process = (&mut watch, new_backend);
    let report = match job.method {
        SearchMethod::Joint | SearchMethod::Architecture => under_way::search(frame, start.checkpoint, of_process)?,
        SearchMethod::Allocation | SearchMethod::Haq => fixed::search(frame, start.checkpoint, of_process)?,
    };
    let peak = watch.account.total();
    if peak > 0 {
        say(&format!("peak memory {}", show_size(peak)));
    }
    Ok(report)
}
