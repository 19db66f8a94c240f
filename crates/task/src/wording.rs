//! Words for people: counts, durations, losses that are not finite, lines for the watcher of a job.

use lessen_base::watcher::{self, Event};

/// Tells the watcher a line about the course of a job.
pub fn report(line: &str) {
    watcher::tell(&Event::Report(line));
}

/// Tells the watcher a remark, which is a warning where it begins with `warning: `.
pub fn tell(line: &str) {
    watcher::tell(&match line.strip_prefix("warning: ") {
        Some(warning) => Event::Warning(warning),
        None => Event::Note(line),
    });
}

/// A number with its noun: `1 step`, `2 steps`.
pub fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// A list of words, cut short where there are many.
pub fn some_of(things: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = things[..things.len().min(SHOWN)].join(", ");
    match things.len() {
        0..=SHOWN => shown,
        count => format!("{shown} and {} more", count - SHOWN),
    }
}

/// The name of a loss that is not finite.
pub fn name_of(loss: f64) -> &'static str {
    if loss.is_nan() { "no number (NaN)" } else { "infinite" }
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

/// The beginning of a message about a training phase.
pub fn in_phase(name: &str) -> String {
    format!("phase {name}")
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
