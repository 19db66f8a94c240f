//! What the log of a run says of its training phases.

use super::phase_result::ENDED_EARLY;
use crate::job::Log;
use lessen_base::Result;
use lessen_nn::statistics::histogram_edges;
use lessen_task::evaluation::Scores;
use lessen_task::recording::RecordedSplit;
use lessen_task::wording::{in_phase, report};
use lessen_train::events::Bins;
use lessen_train::{Peak, Statistics, StepReport};
use serde_json::{Map, Value, json};

/// Writes lines about a training phase.
pub(super) struct Lines<'a> {
    log: &'a mut Log,
    phase: Option<&'a str>,
}

impl<'a> Lines<'a> {
    /// A writer of lines about a training phase, which have its name.
    pub(super) fn new(log: &'a mut Log, phase: Option<&'a str>) -> Lines<'a> {
        Lines { log, phase }
    }

    /// Adds a line to the metrics.
    fn write(&mut self, mut line: Map<String, Value>) -> Result<()> {
        if let Some(phase) = self.phase {
            line.insert("phase".into(), json!(phase));
        }
        self.log.metrics.write(&line.into())
    }

    /// Logs a step with its numbers of examples and tokens, and the speed of the run in words.
    ///
    /// # Errors
    /// Files that cannot be written to.
    pub(super) fn step(&mut self, of: &StepReport, (examples, tokens): (usize, usize), speed: &str) -> Result<()> {
        let mut line = Map::new();
        line.insert("step".into(), json!(of.step));
        line.insert("loss".into(), json!(of.loss));
        line.insert("lr".into(), json!(of.lr));
        let mut scalars = vec![("train/loss", f64::from(of.loss)), ("train/lr", of.lr)];
        if let Some(norm) = of.gradient_norm {
            line.insert("gradient_norm".into(), json!(norm));
            scalars.push(("train/gradient_norm", f64::from(norm)));
        }
        line.insert("step_ms".into(), json!(of.time.as_secs_f64() * 1e3));
        line.insert("examples".into(), json!(examples));
        line.insert("tokens".into(), json!(tokens));
        self.write(line)?;
        self.log.events.scalars(of.step, &scalars)?;
        let phase = self.phase.map(|name| format!("{}  ", in_phase(name)));
        let speed = format!("{}{speed}", phase.unwrap_or_default());
        self.log.progress.step(of.step, format!("loss {:.4}  {speed}", of.loss));
        Ok(())
    }

    /// Logs an evaluation on the split `dev` after a step, and whether it ends the training phase early.
    ///
    /// # Errors
    /// Files that cannot be written to.
    pub(super) fn evaluation(&mut self, step: u64, scores: &Scores, ends_early: bool) -> Result<()> {
        let mut line = scores.to_json("dev");
        let tags: Vec<(String, f64)> = line
            .iter()
            .filter_map(|(name, value)| Some((name.replacen('_', "/", 1), value.as_f64()?)))
            .collect();
        let tags: Vec<(&str, f64)> = tags.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        self.log.events.scalars(step, &tags)?;
        line.insert("step".into(), json!(step));
        if ends_early {
            line.insert(ENDED_EARLY.into(), json!(true));
        }
        self.write(line)?;
        let ends = match (ends_early, self.phase) {
            (true, Some(name)) => format!("; {} ends, as no evaluation was better for long enough", in_phase(name)),
            _ => String::new(),
        };
        report(&format!("step {step}: dev {}{ends}", scores.show()));
        Ok(())
    }

    /// Logs the memory of the process up to a step, in MiB: planned, allocated and, where the system tells it,
    /// resident.
    ///
    /// # Errors
    /// A file that cannot be written to.
    pub(super) fn memory(&mut self, step: u64, peak: Peak, resident: Option<usize>) -> Result<()> {
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        let mut scalars = vec![
            ("memory/planned_mib", mib(peak.planned)),
            ("memory/measured_mib", mib(peak.measured)),
        ];
        scalars.extend(resident.map(|resident| ("memory/resident_mib", mib(resident))));
        self.log.events.scalars(step, &scalars)
    }

    /// Logs statistics that were recorded on a batch of a split before a step.
    ///
    /// # Errors
    /// Files that cannot be written to.
    pub(super) fn statistics(&mut self, step: u64, split: RecordedSplit, statistics: &Statistics) -> Result<()> {
        let edges = histogram_edges();
        let named = |name: &str| format!("{}/{name}", split.prefix());
        let mut line = Map::new();
        line.insert("step".into(), json!(step));
        let scalars: Vec<(String, f64)> = statistics
            .scalars
            .iter()
            .map(|(name, value)| (named(name), *value))
            .collect();
        for (name, value) in &scalars {
            line.insert(name.clone(), json!(value));
        }
        let mut histograms = Vec::new();
        for (name, counts) in &statistics.histograms {
            let bins = Bins { edges: &edges, counts }.trimmed();
            let full = bins.counts.iter().enumerate().filter(|(_, count)| **count > 0.0);
            let full: Vec<Value> = full
                .map(|(i, count)| json!([bins.edges[i], bins.edges[i + 1], count]))
                .collect();
            line.insert(named(name), Value::Array(full));
            histograms.push((named(name), bins));
        }
        self.write(line)?;
        let scalars: Vec<(&str, f64)> = scalars.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        self.log.events.scalars(step, &scalars)?;
        let histograms: Vec<(&str, Bins<'_>)> = histograms.iter().map(|(name, bins)| (name.as_str(), *bins)).collect();
        self.log.events.histograms(step, &histograms)
    }
}
