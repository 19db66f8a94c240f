//! The end of a run: its report and a demonstration of its model.

use super::Run;
use super::report::{Outcome, Report};
use super::unknown_tokens::UnknownTokens;
use crate::job::Driver;
use lessen_base::Result;
use lessen_saved::cut_texts::CutTexts;
use lessen_task::evaluation::Scores;
use lessen_task::first_weights;
use lessen_task::goal::Demonstrated;
use lessen_train::Generator;
use serde_json::json;

impl Run {
    /// A demonstration of the model that the run results in; the trainer ends.
    pub(super) fn showcase(self) -> Result<Vec<String>> {
        let (task, seed) = (&self.phase.task, self.phase.task.config().train.seed);
        let best = self.yields_best().then(|| self.folder.model());
        let trainer = self.trainer;
        let new_generator = |most| {
            let parameters = task.model().parameters();
            let (mut session, _) = trainer.finish()?.with_params(parameters.clone(), &[])?;
            if let Some(dir) = best {
                first_weights::read(&mut session, &parameters, (&dir).into(), &|_| false, None)?;
            }
            first_weights::convert_norms(&mut session, task.model())?;
            Generator::new(session, task.model(), most)
        };
        task.goal().demonstration(Demonstrated {
            tokenizer: self.reader.tokenizer().ok(),
            dev: self.phase.sources.dev.as_ref(),
            seed,
            new_generator: Box::new(new_generator),
        })
    }

    /// The report of the run, interrupted or at its end.
    pub(super) fn report(&self, driver: &Driver, scores: Option<&Scores>, interrupted: bool) -> Result<Report> {
        Report::new(&Outcome {
            recipe: &self.recipe,
            goal: self.phase.task.goal(),
            folder: &self.folder,
            done: self.trainer.done(),
            total: self.total,
            scores,
            unknown_tokens: UnknownTokens::of(&self.phase.sources).to_json(),
            cut_texts: CutTexts::of_sources(&self.phase.sources, self.phase.task.config().data.max_length)
                .into_iter()
                .map(|(name, texts)| (name.to_string(), json!(texts.map(CutTexts::to_json))))
                .collect(),
            best: self.best.as_ref(),
            yields_best: self.yields_best(),
            spent: driver.spent(),
            plans: driver.watch.plans,
            account: driver.watch.account,
            session: driver.peak(),
            resident: driver.watch.resident(),
            sent: self.trainer.options().group.bytes_sent(),
            interrupted,
            stopped: self.stopped && self.phase.is_last,
        })
    }
}
