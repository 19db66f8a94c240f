//! Planning the memory of a search: plans under which the whole process keeps to a budget.

use super::settings::Job;
use crate::condensing::within;
use crate::job::RecipeImages;
use crate::planning::account::Account;
use crate::planning::memory_watch::MemoryWatch;
use crate::planning::process_baseline::ProcessBaseline;
use crate::planning::session_account::BesideSession;
use lessen_base::{Result, allocated};
use lessen_data::images::ImageSource;
use lessen_device::SharedDevice;
use lessen_search::{AnyBits, Searcher, Settings};
use lessen_task::device::NewBackend;
use lessen_train::Session;

/// Bytes of a writer of files.
const WRITER: usize = (512 << 10) + lessen_base::atomic::BUFFER;

/// Copies of the states that are held for a moment while they are saved.
const COPIES: usize = 2;

/// What has a session and functions.
trait Planned {
    fn session(&self) -> &Session;
    fn reserve(&mut self) -> Result<()>;
}

impl Planned for Searcher<'_> {
    fn session(&self) -> &Session {
        self.session()
    }

    fn reserve(&mut self) -> Result<()> {
        self.reserve()
    }
}

impl Planned for AnyBits<'_> {
    fn session(&self) -> &Session {
        self.session()
    }

    fn reserve(&mut self) -> Result<()> {
        self.reserve()
    }
}

/// Makes something within a budget for the whole process, and adds its account to `watch`.
fn planned<T: Planned>(
    settings: &Settings,
    budget: Option<usize>,
    batches: usize,
    (watch, new_backend): (&mut MemoryWatch, &NewBackend),
    make: &dyn Fn(&SharedDevice, Settings) -> Result<T>,
) -> Result<T> {
    let mut backend = new_backend.open()?;
    let baseline = ProcessBaseline::measure(watch.start(), backend.as_mut())?;
    let device = SharedDevice::new(backend);
    let attempt = |settings: Settings| -> Result<(T, Account)> {
        let (made, growth) = allocated::growth(|| make(&device, settings));
        let made = made?;
        let memory = made.session().planned_memory();
        let beside = BesideSession {
            batches,
            momentary: COPIES * memory.states + WRITER,
        };
        let account = Account::of_session(&baseline, memory, growth, beside);
        Ok((made, account))
    };
    let (mut found, account) = match budget {
        None => attempt(settings.clone())?,
        Some(budget) => within(budget, &mut |plans| {
            attempt(Settings {
                budget: plans,
                tightest: plans.is_none(),
                ..settings.clone()
            })
        })?,
    };
    watch.add(account);
    found.reserve()?;
    allocated::give_back();
    Ok(found)
}

/// Bytes of the arrays of a step.
fn batch_bytes(job: &Job, images: &RecipeImages) -> usize {
    let (image, count) = (4 * images.train.size(), images.train.labels().len());
    let answers = 4 * images.train.classes();
    2 * job.settings.batch * (image + answers) + 2 * image + 2 * size_of::<usize>() * count
}

impl Job {
    /// The searcher.
    ///
    /// # Errors
    /// What [`Searcher::new`] refuses; a budget that is too small, with the smallest one.
    pub(super) fn searcher<'a>(
        &self,
        images: &'a RecipeImages,
        budget: Option<usize>,
        of_process: (&mut MemoryWatch, &NewBackend),
    ) -> Result<Searcher<'a>> {
        let batches = batch_bytes(self, images);
        planned(&self.settings, budget, batches, of_process, &|device, settings| {
            let costs = self.costs(images.train.shape(), images.train.classes());
            Searcher::new(device, self.space.clone(), &costs, &images.train, settings)
        })
    }

    /// The network whose bits are inputs.
    ///
    /// # Errors
    /// What [`AnyBits::new`] refuses; a budget that is too small, with the smallest one.
    pub(super) fn any_bits<'a>(
        &self,
        source: &'a dyn ImageSource,
        images: &RecipeImages,
        budget: Option<usize>,
        of_process: (&mut MemoryWatch, &NewBackend),
    ) -> Result<AnyBits<'a>> {
        let batches = batch_bytes(self, images);
        let architecture = self.space.architecture(&vec![[0; 5]; self.space.blocks.len()]);
        let bits = &self.space.blocks[0].bits[0];
        planned(&self.settings, budget, batches, of_process, &|device, settings| {
            AnyBits::among(device, (&architecture, bits), source, settings)
        })
    }
}
