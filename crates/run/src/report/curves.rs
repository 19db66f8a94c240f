//! The curves of a page: losses, scores, learning rate, norm of the gradient, time of a step, of all runs together.

use super::figure::{Figure, Line, Look};
use super::html::{folded, number, table};
use super::run::Run;
use crate::plot::Thinned;
use std::collections::BTreeSet;

/// Least number of points of a curve that is drawn pale, under its moving mean.
const MANY: u64 = 150;

/// How a number of the metrics is plotted.
struct CurveKind {
    title: String,
    unit: &'static str,
    /// Factor of the values for the unit.
    scale: f64,
    /// Whether a logarithmic axis suits it where values lie far apart.
    wide: bool,
    /// Whether single values scatter.
    noisy: bool,
    /// Whether the axis begins at zero.
    from_zero: bool,
}

fn kind(key: &str) -> CurveKind {
    let kind = |title: &str, unit, noisy| CurveKind {
        title: title.to_string(),
        unit,
        scale: 1.0,
        wide: false,
        noisy,
        from_zero: false,
    };
    let percent = |title: &str| CurveKind {
        scale: 100.0,
        ..kind(title, "%", false)
    };
    match key {
        "lr" => CurveKind {
            from_zero: true,
            ..kind("Learning rate", "", false)
        },
        "step_ms" => CurveKind {
            wide: true,
            ..kind("Time of a step", "ms", true)
        },
        "gradient_norm" => CurveKind {
            wide: true,
            ..kind("Norm of the gradient", "", true)
        },
        "dev_accuracy" => percent("Accuracy on dev"),
        "dev_f1" => percent("F1 on dev"),
        "dev_micro_f1" => percent("Micro F1 on dev"),
        "dev_macro_f1" => percent("Macro F1 on dev"),
        "dev_subset_accuracy" => percent("Subset accuracy on dev"),
        "dev_mse" => kind("Mean squared error on dev", "", false),
        "dev_mae" => kind("Mean absolute error on dev", "", false),
        "dev_perplexity" => kind("Perplexity on dev", "", false),
        "dev_matthews" => kind("Matthews correlation on dev", "", false),
        "dev_pearson" => kind("Pearson correlation on dev", "", false),
        "dev_spearman" => kind("Spearman correlation on dev", "", false),
        _ => match key.strip_prefix("dev_") {
            Some(score) => kind(&format!("{score} on dev"), "", false),
            None => kind(key, "", true),
        },
    }
}

/// The title of a number of the metrics, and its value as people read it.
pub(super) fn titled(key: &str, value: f64) -> (String, String) {
    let kind = kind(key);
    let gap = if kind.unit.is_empty() { "" } else { "\u{a0}" };
    (kind.title, format!("{}{gap}{}", number(kind.scale * value), kind.unit))
}

/// A curve of a run under a key, as the lines of a plot.
struct RunCurve<'a> {
    /// Name in the legend; empty for the only curve of a plot.
    name: String,
    colour: usize,
    curve: &'a Thinned,
    look: Look,
    scale: f64,
    noisy: bool,
}

impl RunCurve<'_> {
    fn lines(&self) -> Vec<Line> {
        let scaled = |points: Vec<(f64, f64)>| points.into_iter().map(|(x, y)| (x, self.scale * y)).collect();
        let line = |name: String, look, points, told| Line {
            name,
            colour: self.colour,
            look,
            points: scaled(points),
            told,
        };
        let name = self.name.clone();
        if !self.is_smoothed() {
            let name = if name.is_empty() { "value".to_string() } else { name };
            return vec![line(name, self.look, self.curve.points(), true)];
        }
        let mean = if name.is_empty() {
            "mean".to_string()
        } else {
            format!("{name}, mean")
        };
        let single = if name.is_empty() {
            "single step".to_string()
        } else {
            name
        };
        vec![
            line(single, Look::Faint, self.curve.points(), true),
            line(mean, Look::Solid, self.curve.smoothed(), true),
        ]
    }

    fn is_smoothed(&self) -> bool {
        self.noisy && self.curve.extremes().is_some_and(|extremes| extremes.count >= MANY)
    }
}

/// All curves of the runs, as figures.
pub(super) fn figures(runs: &[Run]) -> String {
    let mut html = loss(runs);
    let keys: BTreeSet<&str> = runs
        .iter()
        .flat_map(|run| run.curves.keys().map(String::as_str))
        .collect();
    let is_shown = |key: &&str| !["loss", "dev_loss"].contains(key) && !key.contains('/');
    let (scores, others): (Vec<&str>, Vec<&str>) = keys
        .into_iter()
        .filter(is_shown)
        .partition(|key| key.starts_with("dev_"));
    for key in scores {
        html += &single(runs, key, Look::Marked);
    }
    let known = ["lr", "gradient_norm", "step_ms"];
    for key in known.into_iter().filter(|key| others.contains(key)) {
        html += &single(runs, key, Look::Solid);
    }
    for key in others.into_iter().filter(|key| !known.contains(key)) {
        html += &single(runs, key, Look::Solid);
    }
    html
}

/// Losses in training and on the split `dev`, in one plot.
fn loss(runs: &[Run]) -> String {
    let mut courses = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let named = |what: &str| match runs.len() {
            1 => what.to_string(),
            _ => format!("{}, {what}", run.name),
        };
        let alone = usize::from(runs.len() == 1);
        let of = |key: &str, what: &str, look, colour, noisy| {
            Some(RunCurve {
                name: named(what),
                colour,
                curve: run.curves.get(key)?,
                look,
                scale: 1.0,
                noisy,
            })
        };
        courses.extend(of("loss", "training", Look::Solid, index, true));
        courses.extend(of("dev_loss", "dev", Look::Marked, index + alone, false));
    }
    // A regression has the squared error.
    let of_classes = runs.iter().all(|run| !run.curves.contains_key("dev_pearson"));
    figure(
        runs,
        "loss",
        "Loss",
        if of_classes { "nats" } else { "" },
        (false, false),
        &courses,
    )
}

/// A number of the metrics of all runs that have it.
fn single(runs: &[Run], key: &str, look: Look) -> String {
    let kind = kind(key);
    let courses: Vec<RunCurve<'_>> = runs
        .iter()
        .enumerate()
        .filter_map(|(index, run)| {
            Some(RunCurve {
                name: if runs.len() > 1 {
                    run.name.clone()
                } else {
                    String::new()
                },
                colour: index,
                curve: run.curves.get(key)?,
                look,
                scale: kind.scale,
                noisy: kind.noisy,
            })
        })
        .collect();
    let extremes = || courses.iter().filter_map(|course| course.curve.extremes());
    let least = extremes().map(|found| found.least.1).fold(f64::INFINITY, f64::min);
    let greatest = extremes().map(|found| found.greatest.1).fold(0.0, f64::max);
    let log = kind.wide && least > 0.0 && greatest > 20.0 * least;
    figure(runs, key, &kind.title, kind.unit, (log, kind.from_zero), &courses)
}

/// The figure of the curves in `courses`, on a logarithmic axis or one that begins at zero.
fn figure(
    runs: &[Run],
    key: &str,
    title: &str,
    unit: &str,
    (log, from_zero): (bool, bool),
    courses: &[RunCurve<'_>],
) -> String {
    let steps = runs.iter().map(|run| run.steps as f64);
    let window = courses.iter().filter(|course| course.is_smoothed());
    let note = match window.map(|course| course.curve.window()).max() {
        Some(steps) if steps > 1 => format!("Pale: single steps. Bold: their mean over {steps} steps."),
        _ => String::new(),
    };
    let id: String = key
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    Figure {
        id: format!("curve-{id}"),
        title: title.to_string(),
        unit: unit.to_string(),
        note,
        along: "step".to_string(),
        reach: (
            steps.chain([0.0]).collect(),
            from_zero.then_some(0.0).into_iter().collect(),
        ),
        log,
        lines: courses.iter().flat_map(RunCurve::lines).collect(),
        marks: phases(runs),
        figures: extremes_of(title, courses),
    }
    .to_html()
}

/// The first steps of training phases, where they are the same in all runs.
pub(super) fn phases(runs: &[Run]) -> Vec<(f64, String)> {
    let Some(first) = runs.first().filter(|run| run.phases.len() > 1) else {
        return Vec::new();
    };
    if runs.iter().all(|run| run.phases == first.phases) {
        first
            .phases
            .iter()
            .map(|(name, step)| (*step as f64, name.clone()))
            .collect()
    } else {
        Vec::new()
    }
}

/// First, last, least and greatest value of each curve, folded away.
fn extremes_of(title: &str, courses: &[RunCurve<'_>]) -> String {
    let heads = ["", "values", "first", "last", "least", "at step", "greatest", "at step"].map(str::to_string);
    let rows: Vec<(String, Vec<String>)> = courses
        .iter()
        .filter_map(|course| {
            let found = course.curve.extremes()?;
            let value = |(_, value): (u64, f64)| number(course.scale * value);
            let cells = vec![
                found.count.to_string(),
                value(found.first),
                value(found.last),
                value(found.least),
                found.least.0.to_string(),
                value(found.greatest),
                found.greatest.0.to_string(),
            ];
            let name = if course.name.is_empty() { title } else { &course.name };
            Some((name.to_string(), cells))
        })
        .collect();
    folded(
        "Figures",
        &table(&format!("{title}: figures of the curves"), &heads, &rows),
    )
}
