//! The command's watcher of jobs. Progress is on stderr: a bar on a terminal, elsewhere a line every few seconds. The
//! first Ctrl-C stops the job after the current step, the second one ends the process.

use crate::stdout;
use indicatif::{ProgressBar, ProgressStyle};
use lessen_base::watcher::{self, Event, Watcher};
use lessen_base::{Error, Result};
use lessen_task::wording::show_duration;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The exit code of a process that was interrupted.
pub const INTERRUPTED: u8 = 130;

/// Time between two lines where stderr is no terminal.
const PAUSE: Duration = Duration::from_secs(10);

static QUIET: AtomicBool = AtomicBool::new(false);
static SILENT: AtomicBool = AtomicBool::new(false);
static STOPS: AtomicBool = AtomicBool::new(false);
static LISTENING: OnceLock<Result<()>> = OnceLock::new();

/// Shows no progress from now on; remarks, warnings and errors stay.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Shows nothing from now on but errors: another process shows the same.
pub fn be_silent() {
    be_quiet();
    SILENT.store(true, Ordering::Relaxed);
}

fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Whether progress can be shown as a bar: on a terminal.
pub fn shows_bars() -> bool {
    !is_quiet() && std::io::stderr().is_terminal()
}

/// The watcher of all jobs of the command.
#[derive(Default)]
pub struct Terminal {
    /// The counts that are shown, by their numbers.
    shown: Mutex<BTreeMap<u64, Count>>,
}

impl Watcher for Terminal {
    fn told(&self, event: &Event<'_>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match *event {
            _ if SILENT.load(Ordering::Relaxed) => {}
            Event::Note(line) => above(&mut shown.values(), line),
            Event::Warning(line) => above(&mut shown.values(), &format!("warning: {line}")),
            _ if is_quiet() => {}
            Event::Report(line) => above(&mut shown.values(), line),
            Event::Begin {
                count,
                unit,
                done,
                total,
            } => {
                shown.insert(count, Count::new(unit, done, total));
            }
            Event::Expect { count, total, is_about } => {
                if let Some(count) = shown.get_mut(&count) {
                    count.expect(total, is_about);
                }
            }
            Event::Step { count, done, message } => {
                if let Some(line) = shown.get_mut(&count).and_then(|count| count.step(done, message)) {
                    above(&mut shown.values(), &line);
                }
            }
            Event::End { count } => {
                if let Some(bar) = shown.remove(&count).and_then(|count| count.bar) {
                    bar.finish_and_clear();
                }
            }
            Event::Numbers { .. } | Event::Checkpoint { .. } => {}
        }
    }

    fn can_stop(&self) -> Result<()> {
        let handler = || {
            if STOPS.swap(true, Ordering::SeqCst) {
                std::process::exit(i32::from(INTERRUPTED));
            }
        };
        let listen = || {
            ctrlc::set_handler(handler)
                .map_err(|error| Error::internal(format!("Ctrl-C cannot be listened for ({error})")))
        };
        LISTENING.get_or_init(listen).clone()
    }

    fn stops(&self) -> bool {
        STOPS.load(Ordering::SeqCst)
    }
}

/// Prints a line on stderr; a closed pipe is no error. Where the output of this thread's command is kept, its watcher
/// is told the line instead.
pub fn tell(line: &str) {
    if stdout::is_kept() {
        watcher::tell(&Event::Note(line));
    } else {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Prints a line above the bars.
fn above(counts: &mut dyn Iterator<Item = &Count>, line: &str) {
    match counts.next().map(|count| &count.bar) {
        Some(Some(bar)) => bar.suspend(|| above(counts, line)),
        Some(None) => above(counts, line),
        None => tell(line),
    }
}

/// A count that is shown.
struct Count {
    bar: Option<ProgressBar>,
    /// What is counted: steps, iterations.
    unit: String,
    total: u64,
    /// Whether `total` is an estimate.
    is_about: bool,
    start: Instant,
    first: u64,
    said: Option<Instant>,
}

impl Count {
    fn new(unit: &str, done: u64, total: u64) -> Count {
        let bar = shows_bars().then(|| {
            let template = "{wide_bar:.cyan/dim} {pos}/{len}  {msg}  {eta}";
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(total).with_style(style).with_position(done)
        });
        if let Some(bar) = &bar {
            bar.reset_eta();
        }
        Count {
            bar,
            unit: unit.to_string(),
            total,
            is_about: false,
            start: Instant::now(),
            first: done,
            said: None,
        }
    }

    fn expect(&mut self, total: u64, is_about: bool) {
        (self.total, self.is_about) = (total, is_about);
        if let Some(bar) = &self.bar {
            bar.set_length(total);
        }
    }

    /// Moves the bar, or returns the line to print, if one is due.
    fn step(&mut self, done: u64, message: &str) -> Option<String> {
        if let Some(bar) = &self.bar {
            bar.set_message(message.to_string());
            bar.set_position(done);
            return None;
        }
        let is_due = self.said.is_none_or(|said| said.elapsed() >= PAUSE) || (done == self.total && !self.is_about);
        is_due.then(|| {
            self.said = Some(Instant::now());
            let unit = &self.unit;
            match self.total {
                0 => format!("{unit} {done}  {message}"),
                total if self.is_about => {
                    format!("{unit} {done} of about {total}  {message}  {} left", self.left(done))
                }
                total => format!("{unit} {done}/{total}  {message}  {} left", self.left(done)),
            }
        })
    }

    fn left(&self, done: u64) -> String {
        let made = done.saturating_sub(self.first).max(1);
        let each = self.start.elapsed().as_secs_f64() / made as f64;
        show_duration(each * self.total.saturating_sub(done) as f64)
    }
}
