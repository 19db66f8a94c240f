//! Networks that learn from sets of images and are tested, within a budget for the whole process.

use super::planning::within;
use crate::planning::account::Account;
use crate::planning::memory_watch::MemoryWatch;
use crate::planning::process_baseline::ProcessBaseline;
use crate::planning::session_account::BesideSession;
use lessen_base::{Error, Result, allocated, watcher};
use lessen_condense::{
    Accuracy, Divergence, Evaluated, ImageSource, Learner, Network, TrainingSettings, evaluate_each,
};
use lessen_device::SharedDevice;
use lessen_task::device::NewBackend;
use lessen_task::wording::{counted, report, tell};
use lessen_train::{Peak, Progress, show_size};

/// The accuracy of a network that learned from a set, from 0 to 1, or its divergence.
pub(super) type Judged = std::result::Result<f64, Divergence>;

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
        new_backend: &NewBackend,
    ) -> Result<Judges<'w>> {
        let mut backend = new_backend.open()?;
        let baseline = ProcessBaseline::measure(watch.start(), backend.as_mut())?;
        Ok(Judges {
            device: SharedDevice::new(backend),
            baseline,
            watch,
            budget,
        })
    }

    /// The accuracy of a single network after a set, as [`judged`](Judges::judged) finds it.
    ///
    /// # Errors
    /// As [`judged`](Judges::judged), and a loss that is infinite or NaN.
    pub(super) fn accuracy_of_one(
        &mut self,
        network: &dyn Network,
        (set, test): (&dyn ImageSource, &dyn ImageSource),
        settings: &TrainingSettings,
        what: &str,
    ) -> Result<Accuracy> {
        let judged = self.judged(network, (&[set], test), (settings, 1), what)?;
        let values: Result<Vec<f64>> = judged
            .into_iter()
            .map(|one| one.map_err(|divergence| divergence.refusal()))
            .collect();
        Accuracy::new(values?)
    }

    /// The accuracy or divergence of `count` networks after each set, with progress on stderr. `what` describes the
    /// evaluation, and the peak is announced after it.
    ///
    /// # Errors
    /// What evaluations refuse but a loss that is infinite or NaN, a budget that is too small, Ctrl-C.
    pub(super) fn judged(
        &mut self,
        network: &dyn Network,
        (sets, test): (&[&dyn ImageSource], &dyn ImageSource),
        (settings, count): (&TrainingSettings, usize),
        what: &str,
    ) -> Result<Vec<Judged>> {
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
) -> Result<Vec<Judged>> {
    let epochs = learner.settings().epochs() as u64;
    let all = epochs.saturating_mul(sets.len() as u64).saturating_mul(count as u64);
    let mut progress = Progress::new("epoch", all, 0);
    let mut done = 0;
    let judged = evaluate_each(learner, (sets, test), count, &mut |event| {
        if watcher::current().stops() {
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
            Evaluated::Diverged {
                set,
                network,
                divergence,
            } => {
                // Counts the epochs that the network skips.
                done += epochs.saturating_sub(divergence.epoch as u64);
                progress.report(&format!("set {} network {}: {divergence}", set + 1, network + 1));
            }
        }
        Ok(())
    });
    progress.finish();
    judged
}

/// Warns of networks that diverged.
pub(super) fn warn_of_divergence(judged: &[Judged]) {
    let diverged: Vec<&Divergence> = judged.iter().filter_map(|one| one.as_ref().err()).collect();
    if let Some(first) = diverged.first() {
        tell(&format!(
            "warning: {} of {} diverged ({first}), without an accuracy; a learning rate below {} may help",
            diverged.len(),
            counted(judged.len() as u64, "network"),
            first.rate
        ));
    }
}
