//! Networks that learn from sets of images and are tested, within a budget for the whole process.

use super::planning::within;
use crate::device::NewBackend;
use crate::planning::account::Account;
use crate::planning::memory_watch::MemoryWatch;
use crate::planning::process_baseline::ProcessBaseline;
use crate::planning::session_account::BesideSession;
use crate::training::interrupt;
use crate::training::progress::Progress;
use crate::wording::report;
use lessen_base::{Error, Result, allocated};
use lessen_condense::{Accuracy, Evaluated, ImageSource, Learner, Network, TrainingSettings, evaluate_by};
use lessen_device::SharedDevice;
use lessen_train::{Peak, show_size};

/// What judges sets of images: the device and the memory of the process.
pub(super) struct Judges<'w> {
    device: SharedDevice,
    baseline: ProcessBaseline,
    watch: &'w mut MemoryWatch,
    budget: Option<usize>,
}

impl<'w> Judges<'w> {
    /// Of a process that has read its images, and keeps to a budget.
    ///
    /// # Errors
    /// A device that cannot be opened.
    pub(super) fn new(
        watch: &'w mut MemoryWatch,
        budget: Option<usize>,
        new_backend: NewBackend<'_>,
    ) -> Result<Judges<'w>> {
        let mut backend = new_backend()?;
        let baseline = ProcessBaseline::measure(watch.start(), backend.as_mut())?;
        Ok(Judges {
            device: SharedDevice::new(backend),
            baseline,
            watch,
            budget,
        })
    }

    /// The accuracies of this number of networks after each set, with progress on stderr. `what` says it in words, and
    /// the peak is announced behind.
    ///
    /// # Errors
    /// What evaluations refuse, a budget that is too small, Ctrl-C.
    pub(super) fn accuracy(
        &mut self,
        network: &dyn Network,
        (sets, test): (&[&dyn ImageSource], &dyn ImageSource),
        (settings, count): (&TrainingSettings, usize),
        what: &str,
    ) -> Result<Accuracy> {
        let attempt = |budget: Option<usize>, tightest: bool| {
            let settings = TrainingSettings {
                budget,
                ..settings.clone()
            };
            self.attempt(network, (sets, test), &settings, tightest)
        };
        let (mut learner, account) = match self.budget {
            None => attempt(None, false)?,
            Some(budget) => within(budget, &mut |plans| attempt(plans, plans.is_none()))?,
        };
        self.watch.add(account);
        learner.reserve()?;
        allocated::give_back();
        report(&format!(
            "{what}, peak memory {}",
            show_size(self.watch.account.total())
        ));
        shown(&mut learner, (sets, test), count)
    }

    /// A learner, and the account of a process that goes through with it.
    fn attempt<'n>(
        &self,
        network: &'n dyn Network,
        (sets, test): (&[&dyn ImageSource], &dyn ImageSource),
        settings: &TrainingSettings,
        tightest: bool,
    ) -> Result<(Learner<'n>, Account)> {
        let device = self.device.clone();
        let (made, growth) = allocated::growth(|| Learner::of_sets(device, network, (sets, test), settings, tightest));
        let made = made?;
        let largest = sets.iter().map(|set| set.labels().len()).max().unwrap_or(0);
        let beside = BesideSession {
            batches: made.array_bytes(largest, test.labels().len()),
            momentary: 0,
        };
        let account = Account::of_session(&self.baseline, made.session().planned_memory(), growth, beside);
        Ok((made, account))
    }

    /// The peak of the process.
    pub(super) fn peak(&self) -> Peak {
        self.watch.peak(Peak {
            planned: 0,
            measured: 0,
        })
    }
}

/// Evaluates sets, with progress on stderr.
fn shown(
    learner: &mut Learner<'_>,
    (sets, test): (&[&dyn ImageSource], &dyn ImageSource),
    count: usize,
) -> Result<Accuracy> {
    let all = (learner.settings().epochs() as u64)
        .saturating_mul(sets.len() as u64)
        .saturating_mul(count as u64);
    let mut progress = Progress::new("epoch", all, 0);
    let mut done = 0;
    let accuracy = evaluate_by(learner, (sets, test), count, &mut |event| {
        if interrupt::asked() {
            return Err(Error::user("the evaluation was stopped; it begins anew"));
        }
        match event {
            Evaluated::Epoch { set, network, loss, .. } => {
                done += 1;
                progress.step(done, format!("set {} network {}  loss {loss:.4}", set + 1, network + 1));
            }
            Evaluated::Network { set, network, accuracy } => progress.report(&format!(
                "set {} network {}: accuracy {:.2} %",
                set + 1,
                network + 1,
                100.0 * accuracy
            )),
        }
        Ok(())
    });
    progress.finish();
    accuracy
}
