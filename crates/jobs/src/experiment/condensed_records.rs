//! The records of a condensation: the numbers of its images, and those of each network that learned from them.

use super::evaluation::Evaluation;
use super::grid::GridRun;
use super::judgements::{Judgements, Stage};
use super::measure::{ACCURACY, Measure, Moment, Outcome, PEAK, RELATIVE};
use super::results::{Reading, Record, State};
use crate::condensing::CondensedFolder;
use lessen_base::Result;
use lessen_task::folder::metrics;
use lessen_task::folder::spent::Spent;
use serde_json::{Value, json};
use std::path::Path;

impl Evaluation {
    /// The records of a run: one for each network, of which the first has the numbers of the images, too. A run that
    /// diverged has a single one.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub(super) fn records(
        &self,
        (root, run): (&Path, &GridRun),
        whole: Option<f64>,
        reading: &Reading<'_>,
    ) -> Result<Vec<Record>> {
        let (point, seed) = (run.point, run.seed);
        if State::has_diverged(root) {
            return Ok(vec![Record::diverged((point, seed), reading.measures.len())]);
        }
        let (evaluated, folder) = (Judgements::read(root)?, CondensedFolder::open(root)?);
        let spent = Spent::read(&folder.sessions());
        let lines = metrics::lines(&folder.metrics())?;
        let last = evaluated.stages.iter().map(|stage| stage.iterations).max().unwrap_or(0);
        let of_network = |network: usize| {
            let mut own: Vec<Value> = Vec::new();
            if network == 0 {
                own.extend(
                    lines
                        .iter()
                        .filter(|line| line["step"].as_u64() <= Some(last as u64))
                        .cloned(),
                );
            }
            for stage in &evaluated.stages {
                let mut line = json!({ "step": stage.iterations });
                for (name, accuracies) in &stage.accuracies {
                    line[name] = json!(accuracies.get(network));
                }
                let accuracy = stage.accuracies.get(ACCURACY).and_then(|all| *all.get(network)?);
                if let Some((whole, accuracy)) = whole.zip(accuracy) {
                    line[RELATIVE] = json!(accuracy / whole);
                }
                own.push(line);
            }
            own.sort_by_key(|line| line["step"].as_u64());
            Outcome {
                metrics: own,
                report: match network {
                    0 => json!({ PEAK: { "planned": spent.planned } }),
                    _ => Value::Null,
                },
                lengths: Value::Null,
            }
        };
        let records = (0..self.networks).map(|network| {
            let outcome = of_network(network);
            let mut record = Record::read(&outcome, (point, seed, network as u64), reading);
            for (at, measure) in reading.measures.iter().enumerate() {
                if lacks(measure, (&evaluated.stages, network)) {
                    record.numbers[at] = None;
                    record.diverged[at] = true;
                }
            }
            record
        });
        Ok(records.collect())
    }

    /// Seconds that a run took to make its images, and to judge them.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(super) fn seconds(root: &Path) -> Result<[f64; 2]> {
        let spent = Spent::read(&CondensedFolder::open(root)?.sessions());
        Ok([spent.seconds, Judgements::read(root)?.seconds])
    }
}

/// Whether a measure has no number of this network because the network diverged.
fn lacks(measure: &Measure, (stages, network): (&[Stage], usize)) -> bool {
    let name = match measure.value.as_str() {
        RELATIVE => ACCURACY,
        value => value,
    };
    let last = stages.iter().map(|stage| stage.iterations).max();
    let has_diverged = |stage: &Stage| {
        let own = stage.accuracies.get(name);
        own.is_some_and(|own| matches!(own.get(network), Some(None)))
    };
    let is_read = |stage: &&Stage| match measure.at {
        Moment::End => Some(stage.iterations) == last,
        Moment::Best => true,
        Moment::Step(step) => step == stage.iterations as u64,
    };
    stages.iter().filter(is_read).any(has_diverged)
}
