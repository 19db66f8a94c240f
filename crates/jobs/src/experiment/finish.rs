//! The end of an experiment: the records of its runs, the page, and the outcome for programs and people.

use super::evaluation::Evaluation;
use super::grid::{GridRun, Point};
use super::measure::Measure;
use super::page::About;
use super::results::{self, Record};
use super::{Experiment, Finished, Options};
use lessen_base::Result;
use lessen_task::device::NewBackend;
use lessen_task::wording::show_duration;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

impl Experiment {
    /// Collects the records of all runs and writes the page.
    pub(super) fn finish(
        &self,
        runs: &[&GridRun],
        options: &Options<'_>,
        machine: &str,
        new_backend: &NewBackend,
    ) -> Result<Finished> {
        let wants_course = |measure: &Measure| self.plots.iter().any(|plot| plot.is_course_of(measure));
        let mut records = Vec::with_capacity(runs.len());
        let mut seconds = [0.0; 2];
        let whole = match &self.evaluation {
            Some(evaluation) => evaluation.whole(runs, &options.out, new_backend)?,
            None => None,
        };
        for (number, run) in runs.iter().enumerate() {
            let root = options.out.join(&run.folder);
            if let Some(evaluation) = &self.evaluation {
                let whole = whole.as_ref().map(|(accuracies, _)| accuracies[number]);
                records.extend(evaluation.records((&root, run), whole, &self.measures, &wants_course)?);
                let [made, judged] = Evaluation::seconds(&root)?;
                seconds = [seconds[0] + made, seconds[1] + judged];
            } else {
                let own = (run.point, run.seed);
                records.push(Record::of(&root, own, &self.measures, &wants_course, new_backend)?);
                seconds[0] += results::step_seconds(&root)?;
            }
        }
        let (recipe, mut all) = self.base.clone();
        (options.change)(&mut all)?;
        let about = About {
            command: &options.command,
            fixed: &all.beyond(&recipe),
            machine,
            time: &match &self.evaluation {
                None => format!("{} of training steps", show_duration(seconds[0])),
                Some(_) => format!("{}, judged in {}", show_duration(seconds[0]), show_duration(seconds[1])),
            },
            runs: runs.len(),
            whole: &whole.map_or(BTreeMap::new(), |(_, used)| used),
        };
        let page = self.page_of(options);
        if let Some(page) = page {
            self.write_page(page, &records, &about)?;
        }
        let judged = self.judged(&records);
        let mut text = self.table(&records);
        for (claim, found) in &judged {
            text += &format!("{}: {} ({})\n", found.verdict.word(), claim.text, found.measured);
        }
        match page {
            Some(page) => text += &format!("written to {}\n", page.display()),
            None => text += "no page is written; name its file with page in the experiment, or with --page\n",
        }
        let claims: Vec<Value> = judged.iter().map(|(claim, found)| found.to_json(&claim.text)).collect();
        let json = json!({
            "title": self.title,
            "interrupted": false,
            "page": page.map(|page| page.display().to_string()),
            "runs": records.iter().filter_map(|record| self.record_json(runs, record)).collect::<Vec<_>>(),
            "table": self.table_json(&records),
            "claims": claims,
        });
        Ok(Finished {
            interrupted: false,
            json,
            text,
        })
    }

    fn record_json(&self, runs: &[&GridRun], record: &Record) -> Option<Value> {
        let run = runs
            .iter()
            .find(|run| (run.point, run.seed) == (record.point, record.seed))?;
        let measures = self.measures.iter().zip(&record.numbers);
        let numbers: Map<String, Value> = measures
            .map(|(measure, number)| (measure.name.clone(), json!(number)))
            .collect();
        let mut object = json!({
            "point": self.grid.points[record.point].name,
            "seed": record.seed,
            "folder": run.folder,
            "diverged": record.diverged.contains(&true),
            "measures": numbers,
        });
        if self.condenses() {
            object["network"] = json!(record.network);
        }
        Some(object)
    }

    fn table_json(&self, records: &[Record]) -> Value {
        let row = |(index, point): (usize, &Point)| {
            let cells = self.measures.iter().enumerate().map(|(number, measure)| {
                let found = results::summary(records, index, number);
                let found = found.map(|s| json!({ "mean": s.mean, "deviation": s.deviation, "runs": s.count }));
                (measure.name.clone(), json!(found))
            });
            json!({ "point": point.name, "measures": cells.collect::<Map<_, _>>() })
        };
        self.grid.points.iter().enumerate().map(row).collect()
    }
}
