//! The end of an experiment: the records of its runs, the page, and the outcome for programs and people.

use super::grid::{GridRun, Point};
use super::kept::{Kept, deciding};
use super::page::About;
use super::results::{self, Reading, Record, State};
use super::runs::Place;
use super::{Experiment, Finished, Options};
use lessen_base::Result;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

impl Experiment {
    /// Collects the records of all runs that are over, keeps and judges them, and writes the page.
    pub(super) fn finish(
        &self,
        over: &[(&GridRun, &State)],
        place: &Place<'_>,
        (options, machine): (&Options<'_>, &str),
        mut kept: Option<Kept>,
    ) -> Result<Finished> {
        let reading = Reading {
            measures: &self.measures,
            wants_course: &|measure| self.plots.iter().any(|plot| plot.is_course_of(measure)),
        };
        let (mut runs, mut records, mut notes) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut seconds = Some([0.0; 2]);
        for &(run, state) in over {
            let point = &self.grid.points[run.point];
            if point.follows.is_untrained {
                continue;
            }
            let left = match (state, &kept) {
                (State::Kept, Some(kept)) => kept.left(&point.name, run, &self.measures)?,
                _ => self.kind.left(run, place, &reading)?,
            };
            if let Some(kept) = kept.as_mut().filter(|_| *state != State::Kept) {
                let own = deciding(run, self.kind.seed_key(), self.kind.more_settings(&point.follows))?;
                kept.put(&point.name, &own, (run.seed, &left), &self.measures);
            }
            seconds = seconds.zip(left.seconds).map(|(a, b)| [a[0] + b[0], a[1] + b[1]]);
            notes.extend(left.note);
            records.extend(left.records);
            runs.push(run);
        }
        if let Some(kept) = &kept {
            kept.write()?;
        }
        let (recipe, mut all) = self.base.clone();
        (options.change)(&mut all)?;
        let about = About {
            command: &(options.command.clone() + &self.only_flags(&records)),
            fixed: &all.beyond(&recipe),
            machine,
            time: &seconds.map_or("a time that nobody has noted".to_string(), |seconds| {
                self.kind.told_time(seconds)
            }),
            runs: runs.len(),
            notes: &notes.into_values().collect::<Vec<_>>(),
        };
        let page = self.page_of(options);
        if let Some(page) = page {
            self.write_page(page, &records, &about)?;
        }
        let judged = self.judged(&records);
        let mut text = self.table(&records);
        for (claim, found) in &judged {
            text += &format!("{}: {} ({})\n", found.verdict.words(), claim.text, found.measured);
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
            "runs": records.iter().filter_map(|record| self.record_json(&runs, record)).collect::<Vec<_>>(),
            "table": self.table_json(&records),
            "claims": claims,
        });
        Ok(Finished {
            interrupted: false,
            json,
            text,
        })
    }

    /// The flags with which a command makes the points of these records, and no others.
    fn only_flags(&self, records: &[Record]) -> String {
        let has = |(point, _): &(usize, &Point)| records.iter().any(|record| record.point == *point);
        if self.grid.rows().all(|row| has(&row)) {
            return String::new();
        }
        let own = self.grid.rows().filter(has);
        own.map(|(_, point)| format!(" --only \"{}\"", point.name)).collect()
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
        if self.kind.has_networks() {
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
        self.grid.rows().map(row).collect()
    }
}
