//! Planning the memory of a condensation: plans under which the whole process keeps to a budget.

use super::pictures;
use crate::planning::account::Account;
use crate::planning::budget_search::too_small;
use crate::planning::memory_watch::MemoryWatch;
use crate::planning::process_baseline::ProcessBaseline;
use crate::planning::session_account::BesideSession;
use lessen_base::{Result, allocated};
use lessen_condense::{Condensation, ImageSource, Network, Settings, condensation};
use lessen_device::SharedDevice;
use lessen_task::device::NewBackend;
use std::path::Path;

/// Most plans that are made for a budget, each with less for the plans.
const ATTEMPTS: usize = 4;

/// Real images of all classes that a step of the network's validation reads, and of each class that set statistics.
const VALIDATION: usize = 256;
const STATISTICS: usize = 16;

/// Bytes of a writer of files, and of what compresses a picture.
const WRITER: usize = (512 << 10) + lessen_base::atomic::BUFFER;

/// Copies of the images that are held for a moment while they are saved: of the state and of its momentum from the
/// device, in a file's order, and as they are seen.
const COPIES: usize = 6;

/// Plans with which the whole process keeps to a budget. `attempt` makes them to take at most a number of bytes, or the
/// least memory, and says the account of the process.
///
/// # Errors
/// The errors of the tightest plans; a budget that is too small, with the smallest one.
pub(crate) fn within<T>(
    budget: usize,
    attempt: &mut dyn FnMut(Option<usize>) -> Result<(T, Account)>,
) -> Result<(T, Account)> {
    let least = attempt(None)?;
    if least.1.total() > budget {
        return Err(too_small(
            budget,
            &least.1,
            "take smaller images, a smaller batch or a smaller network",
        ));
    }
    let mut for_plans = budget.saturating_sub(least.1.beside_plans());
    drop(least);
    for _ in 0..ATTEMPTS {
        // Functions that fit one by one may exceed the budget together.
        let Ok(found) = attempt(Some(for_plans)) else {
            break;
        };
        match found.1.total().saturating_sub(budget) {
            0 => return Ok(found),
            excess => for_plans = for_plans.saturating_sub(excess),
        }
    }
    attempt(None)
}

/// A condensation that is to be planned: its images, its network and its settings.
pub(super) struct Job<'a> {
    pub network: &'a dyn Network,
    pub source: &'a dyn ImageSource,
    pub settings: Settings,
    /// The folder for files that are kept between iterations.
    pub work: &'a Path,
}

impl<'a> Job<'a> {
    /// Prepares the condensation within a budget for the whole process, and adds its account to `watch`.
    ///
    /// # Errors
    /// What [`condensation`] refuses; a budget that is too small, with the smallest one.
    pub(super) fn planned(
        &self,
        budget: Option<usize>,
        watch: &mut MemoryWatch,
        new_backend: &NewBackend,
    ) -> Result<Box<dyn Condensation + 'a>> {
        let mut backend = new_backend.open()?;
        let baseline = ProcessBaseline::measure(watch.start(), backend.as_mut())?;
        let device = SharedDevice::new(backend);
        let (mut found, account) = match budget {
            None => self.attempt(&device, &baseline, self.settings.clone())?,
            Some(budget) => within(budget, &mut |plans| {
                let settings = Settings {
                    budget: plans,
                    tightest: plans.is_none(),
                    ..self.settings.clone()
                };
                self.attempt(&device, &baseline, settings)
            })?,
        };
        watch.add(account);
        found.reserve()?;
        allocated::give_back();
        Ok(found)
    }

    /// The condensation of these settings, and the account of a process that goes through with it.
    fn attempt(
        &self,
        device: &SharedDevice,
        baseline: &ProcessBaseline,
        settings: Settings,
    ) -> Result<(Box<dyn Condensation + 'a>, Account)> {
        let (made, growth) =
            allocated::growth(|| condensation(device, self.network, self.source, settings, Some(self.work)));
        let made = made?;
        let mut beside = self.beside();
        beside.momentary = beside.momentary.max(made.preparation_bytes());
        let account = Account::of_session(baseline, made.session().planned_memory(), growth, beside);
        Ok((made, account))
    }

    /// What the process takes beside the session.
    fn beside(&self) -> BesideSession {
        let (classes, per_class) = (self.source.classes(), self.settings.per_class);
        let image = 4 * self.source.size();
        let smallest = self.source.by_class().iter().map(Vec::len).min().unwrap_or(0);
        let real = self.settings.real_batch.min(smallest).max(STATISTICS.min(smallest));
        let largest_class = self.source.by_class().iter().map(Vec::len).max().unwrap_or(0);
        let chosen = size_of::<usize>() * (2 * largest_class + classes * real);
        let images = image * classes * per_class;
        let all = self.source.labels().len();
        let most = (classes * real).max(self.settings.network_batch.min(all));
        let grid = pictures::bytes_of(classes, per_class, self.source.shape());
        BesideSession {
            batches: (most + VALIDATION.min(all)) * image + chosen,
            momentary: COPIES * images + 3 * grid + WRITER,
        }
    }
}
