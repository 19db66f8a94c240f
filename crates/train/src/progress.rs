//! Progress on stderr: a bar on a terminal, elsewhere a line now and then.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How long nothing is said where stderr is no terminal.
const PAUSE: Duration = Duration::from_secs(10);

/// The progress of a run.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: u64,
    begun: Instant,
    begun_at: u64,
    said: Option<Instant>,
}

impl Progress {
    /// For a run of `total` steps of which `done` are done.
    pub fn new(total: u64, done: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let template = "{wide_bar:.cyan/dim} {pos}/{len}  {msg}  {eta}";
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(total).with_style(style).with_position(done)
        });
        if let Some(bar) = &bar {
            bar.reset_eta();
        }
        Progress {
            bar,
            total,
            begun: Instant::now(),
            begun_at: done,
            said: None,
        }
    }

    /// After a step: how many are done, its loss, and the speed in words.
    pub fn step(&mut self, done: u64, loss: f32, speed: &str) {
        let message = format!("loss {loss:.4}  {speed}");
        if let Some(bar) = &self.bar {
            bar.set_message(message);
            bar.set_position(done);
        } else if self.said.is_none_or(|said| said.elapsed() >= PAUSE) || done == self.total {
            self.said = Some(Instant::now());
            tell(&format!(
                "step {done}/{}  {message}  {} left",
                self.total,
                self.left(done)
            ));
        }
    }

    /// Says something that stays.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| tell(text)),
            None => tell(text),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn left(&self, done: u64) -> String {
        let made = done.saturating_sub(self.begun_at).max(1);
        let each = self.begun.elapsed().as_secs_f64() / made as f64;
        show_duration(each * self.total.saturating_sub(done) as f64)
    }
}

/// Says a line on stderr. That nobody reads it any more, as in `lessen train 2>&1 | head -1`, is no failure.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A number of things: `1 step`, `2 steps`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Seconds as people say them: `42 s`, `3 min 05 s`, `2 h 10 min`.
pub fn show_duration(seconds: f64) -> String {
    if seconds < 9.95 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(
            [0, 1, 2].map(|count| counted(count, "step")),
            ["0 steps", "1 step", "2 steps"]
        );
    }

    #[test]
    fn durations_are_shown() {
        let shown: Vec<String> = [0.04, 9.94, 9.96, 59.6, 185.0, 7800.0]
            .into_iter()
            .map(show_duration)
            .collect();
        assert_eq!(
            shown,
            ["0.0 s", "9.9 s", "10 s", "1 min 00 s", "3 min 05 s", "2 h 10 min"]
        );
    }
}
