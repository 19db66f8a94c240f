//! Progress on stderr: a bar on a terminal, elsewhere a line every few seconds.

use indicatif::{ProgressBar, ProgressStyle};
use lessen_task::console::shows_bars;
use lessen_task::wording::{report, show_duration, tell};
use std::time::{Duration, Instant};

/// Time between two lines where stderr is no terminal.
const PAUSE: Duration = Duration::from_secs(10);

/// The progress of a run.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// What is counted: steps, iterations.
    unit: &'static str,
    total: u64,
    /// Whether `total` is an estimate.
    is_about: bool,
    start: Instant,
    first: u64,
    said: Option<Instant>,
}

impl Progress {
    /// The progress of a run after `done` of `total` steps, or whatever `unit` is called; 0 in all are not known yet.
    pub fn new(unit: &'static str, total: u64, done: u64) -> Progress {
        let bar = shows_bars().then(|| {
            let template = "{wide_bar:.cyan/dim} {pos}/{len}  {msg}  {eta}";
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(total).with_style(style).with_position(done)
        });
        if let Some(bar) = &bar {
            bar.reset_eta();
        }
        Progress {
            bar,
            unit,
            total,
            is_about: false,
            start: Instant::now(),
            first: done,
            said: None,
        }
    }

    /// Sets the number of steps of the run.
    pub fn expect(&mut self, total: u64) {
        self.set(total, false);
    }

    /// Sets an estimate of the number of steps of the run.
    pub fn expect_about(&mut self, total: u64) {
        self.set(total, true);
    }

    fn set(&mut self, total: u64, is_about: bool) {
        (self.total, self.is_about) = (total, is_about);
        if let Some(bar) = &self.bar {
            bar.set_length(total);
        }
    }

    /// Shows a step: the number of steps that are done, and what there is to say of it.
    pub fn step(&mut self, done: u64, message: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(message);
            bar.set_position(done);
        } else if self.said.is_none_or(|said| said.elapsed() >= PAUSE) || (done == self.total && !self.is_about) {
            self.said = Some(Instant::now());
            let unit = self.unit;
            report(&match self.total {
                0 => format!("{unit} {done}  {message}"),
                total if self.is_about => {
                    format!("{unit} {done} of about {total}  {message}  {} left", self.left(done))
                }
                total => format!("{unit} {done}/{total}  {message}  {} left", self.left(done)),
            });
        }
    }

    /// Prints a line about the course of the run, which stays above the bar.
    pub fn report(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| report(text)),
            None => report(text),
        }
    }

    /// Prints a remark, also where progress is not shown.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| tell(text)),
            None => tell(text),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn left(&self, done: u64) -> String {
        let made = done.saturating_sub(self.first).max(1);
        let each = self.start.elapsed().as_secs_f64() / made as f64;
        show_duration(each * self.total.saturating_sub(done) as f64)
    }
}
