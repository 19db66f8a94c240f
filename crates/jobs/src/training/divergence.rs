//! The end of a run whose loss is not finite.

use super::Run;
use lessen_base::Error;
use lessen_task::folder::DIVERGED;
use lessen_task::wording::{name_of, tell};
use lessen_train::StepReport;

impl Run {
    /// The error of a step without a finite loss. Resuming leads there again, unless the step is the first one of its
    /// training phase.
    pub(super) fn no_loss(&self, report: &StepReport) -> Error {
        let is_first = report.step == self.phase.begun + 1 && self.phase.begun > 0;
        let what = format!("the loss of step {} is {}", report.step, name_of(report.loss.into()));
        if is_first {
            return self.diverged(report.step, &what);
        }
        if let Err(error) = self.folder.checkpoints().remove_bad(report.step - 1) {
            tell(&format!("warning: {error}"));
        }
        self.diverged(report.step - 1, &what)
    }

    /// The error of parameters that are not finite after `step` steps, or have no finite loss. All checkpoints before
    /// have finite losses.
    pub(super) fn diverged(&self, step: u64, what: &str) -> Error {
        let whole_before = |step| {
            let newest = self.folder.checkpoints().newest_before(step);
            newest.ok().and_then(|newest| newest.whole)
        };
        let (good, how) = match (whole_before(step), whole_before(step + 1)) {
            (Some((path, _)), _) => {
                let good = format!("{} is the last good checkpoint", path.display());
                (good, "go on with --resume")
            }
            (None, Some((path, _))) => {
                let only = format!("{}, the only checkpoint, leads there and is kept", path.display());
                (only, "start another run with another --out")
            }
            (None, None) => {
                let none = "there is no good checkpoint before it".to_string();
                (none, "go on with --resume")
            }
        };
        let place = self.phase.task.config().place("train.lr");
        let sentence = format!("{what}; {good}; lower {place} or clip the gradient with train.clip_norm, and {how}");
        if let Err(error) = self.folder.write(DIVERGED, &format!("{sentence}\n")) {
            tell(&format!("warning: {error}"));
        }
        Error::user(sentence)
    }
}
