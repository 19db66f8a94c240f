//! The curves of a page: losses, scores, learning rate, norm of the gradient, time of a step, of all runs together.

use super::figure::{Figure, Line, LineLook};
use super::html::{folded, grid, note, number, table};
use super::run::Run;
use crate::plot::{Smoothing, Thinned};
use std::collections::BTreeSet;

/// Least number of points of a curve that is drawn pale, under its moving mean; the other runs' curves in its figure
/// are so, too.
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
pub fn titled(key: &str, value: f64) -> (String, String) {
    let kind = kind(key);
    let shown = with_unit(&kind, kind.scale * value);
    (kind.title, shown)
}

/// A value in the unit of its plot.
fn with_unit(kind: &CurveKind, value: f64) -> String {
    let gap = if kind.unit.is_empty() { "" } else { "\u{a0}" };
    format!("{}{gap}{}", number(value), kind.unit)
}

/// A curve of a run under a key, as the lines of a plot.
struct RunCurve<'a> {
    /// Name in the legend; empty for the only curve of a plot.
    name: String,
    colour: usize,
    curve: &'a Thinned,
    look: LineLook,
    scale: f64,
    noisy: bool,
}

impl RunCurve<'_> {
    /// The lines of the curve: its values, and over them their moving mean, if there is one.
    fn lines(&self, smoothing: Option<Smoothing>) -> Vec<Line> {
        let scaled = |points: Vec<(f64, f64)>| points.into_iter().map(|(x, y)| (x, self.scale * y)).collect();
        let line = |name: &str, look, points| Line {
            name: name.to_string(),
            colour: self.colour,
            look,
            points: scaled(points),
            told: true,
        };
        let named = |alone: &'static str| if self.name.is_empty() { alone } else { &self.name };
        match smoothing.filter(|_| self.noisy) {
            None => vec![line(named("value"), self.look, self.curve.points())],
            Some(smoothing) => {
                let mean = match self.name.as_str() {
                    "" => "mean".to_string(),
                    name => format!("{name}, mean"),
                };
                vec![
                    line(named("single step"), LineLook::Faint, self.curve.points()),
                    line(&mean, LineLook::Solid, self.curve.smoothed(smoothing)),
                ]
            }
        }
    }

    /// Whether it has so many values that only their mean is to be seen.
    fn is_dense(&self) -> bool {
        self.noisy && self.curve.extremes().is_some_and(|ends| ends.count >= MANY)
    }

    /// Its value, in the unit of its plot, if it has one throughout.
    fn constant(&self) -> Option<f64> {
        let ends = self.curve.extremes()?;
        (ends.least.1 == ends.greatest.1).then_some(self.scale * ends.least.1)
    }
}

/// All curves of the runs, as figures. Figures in which every curve is flat are left out; a sentence names them, with
/// their values.
pub fn figures(runs: &[Run]) -> String {
    let steps = runs.iter().flat_map(|run| run.curves.get("loss"));
    let page = CurvePage {
        runs,
        smoothing: Smoothing::of(steps),
    };
    let keys: BTreeSet<&str> = runs
        .iter()
        .flat_map(|run| run.curves.keys().map(String::as_str))
        .collect();
    let is_shown = |key: &&str| !["loss", "dev_loss"].contains(key) && !key.contains('/');
    let (scores, others): (Vec<&str>, Vec<&str>) = keys
        .into_iter()
        .filter(is_shown)
        .partition(|key| key.starts_with("dev_"));
    let known = ["lr", "gradient_norm", "step_ms"];
    let first = known.into_iter().filter(|key| others.contains(key));
    let others = first.chain(others.iter().copied().filter(|key| !known.contains(key)));
    let scores = scores.into_iter().map(|key| (key, LineLook::Marked));
    let looks = scores.chain(others.map(|key| (key, LineLook::Solid)));
    let all = std::iter::once(page.loss()).chain(looks.map(|(key, look)| page.single(key, look)));
    let (mut figures, mut flat) = (String::new(), Vec::new());
    for drawn in all {
        match drawn {
            Drawn::Figure(html) => figures += &html,
            Drawn::Flat(told) => flat.push(told),
        }
    }
    let flat = if flat.is_empty() {
        String::new()
    } else {
        note(&format!("Flat, and therefore not drawn: {}.", flat.join("; ")))
    };
    grid(&figures) + &flat
}

/// A figure of curves, or what it would show.
enum Drawn {
    Figure(String),
    /// Its title, with the value of each run.
    Flat(String),
}

/// The runs of a page, and how their curves are smoothed.
struct CurvePage<'a> {
    runs: &'a [Run],
    smoothing: Smoothing,
}

impl CurvePage<'_> {
    /// Losses in training and on the split `dev`, in one plot.
    fn loss(&self) -> Drawn {
        let runs = self.runs;
        let mut curves = Vec::new();
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
            curves.extend(of("loss", "training", LineLook::Solid, index, true));
            curves.extend(of("dev_loss", "dev", LineLook::Marked, index + alone, false));
        }
        // A regression has the squared error.
        let of_classes = runs.iter().all(|run| !run.curves.contains_key("dev_pearson"));
        let kind = CurveKind {
            title: "Loss".to_string(),
            unit: if of_classes { "nats" } else { "" },
            ..kind("loss")
        };
        self.drawn("loss", &kind, &curves)
    }

    /// A number of the metrics of all runs that have it.
    fn single(&self, key: &str, look: LineLook) -> Drawn {
        let kind = kind(key);
        let name = |run: &Run| {
            if self.runs.len() > 1 {
                run.name.clone()
            } else {
                String::new()
            }
        };
        let curves = self.runs.iter().enumerate().filter_map(|(index, run)| {
            Some(RunCurve {
                name: name(run),
                colour: index,
                curve: run.curves.get(key)?,
                look,
                scale: kind.scale,
                noisy: kind.noisy,
            })
        });
        self.drawn(key, &kind, &curves.collect::<Vec<_>>())
    }

    /// The figure of these curves, unless all of them are flat.
    fn drawn(&self, key: &str, kind: &CurveKind, curves: &[RunCurve<'_>]) -> Drawn {
        if let Some(values) = curves.iter().map(RunCurve::constant).collect::<Option<Vec<f64>>>() {
            return Drawn::Flat(flat(kind, curves, &values));
        }
        let extremes = || curves.iter().filter_map(|curve| curve.curve.extremes());
        let least = extremes().map(|found| found.least.1).fold(f64::INFINITY, f64::min);
        let greatest = extremes().map(|found| found.greatest.1).fold(0.0, f64::max);
        let steps = self.runs.iter().map(|run| run.steps as f64);
        let smoothing = Some(self.smoothing).filter(|smoothing| smoothing.window() > 1);
        let smoothing = smoothing.filter(|_| curves.iter().any(RunCurve::is_dense));
        let note = smoothing.map_or(String::new(), |smoothing| {
            let all = if self.runs.len() > 1 { ", in every run" } else { "" };
            format!(
                "Pale: single steps. Bold: their mean over {} steps{all}.",
                smoothing.window()
            )
        });
        let id: String = key
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let figure = Figure {
            id: format!("curve-{id}"),
            title: kind.title.clone(),
            unit: kind.unit.to_string(),
            note,
            along: "step".to_string(),
            reach: (
                steps.chain([0.0]).collect(),
                kind.from_zero.then_some(0.0).into_iter().collect(),
            ),
            log: kind.wide && least > 0.0 && greatest > 20.0 * least,
            lines: curves.iter().flat_map(|curve| curve.lines(smoothing)).collect(),
            marks: phases(self.runs),
            figures: extremes_of(&kind.title, curves),
        };
        Drawn::Figure(figure.to_html())
    }
}

/// The title of curves that are flat, with their values: one where it is the same in all runs.
fn flat(kind: &CurveKind, curves: &[RunCurve<'_>], values: &[f64]) -> String {
    let shown = |value: f64| with_unit(kind, value);
    match values {
        [] => kind.title.clone(),
        [first, rest @ ..] if rest.iter().all(|value| value == first) => format!("{} {}", kind.title, shown(*first)),
        _ => {
            let each = curves.iter().zip(values);
            let each: Vec<String> = each
                .map(|(curve, value)| format!("{} in {}", shown(*value), curve.name))
                .collect();
            format!("{} {}", kind.title, each.join(", "))
        }
    }
}

/// The first steps of training phases, where they are the same in all runs.
pub fn phases(runs: &[Run]) -> Vec<(f64, String)> {
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
fn extremes_of(title: &str, curves: &[RunCurve<'_>]) -> String {
    let heads = ["values", "first", "last", "least", "at step", "greatest", "at step"].map(str::to_string);
    let rows: Vec<(String, Vec<String>)> = curves
        .iter()
        .filter_map(|curve| {
            let found = curve.curve.extremes()?;
            let value = |(_, value): (u64, f64)| number(curve.scale * value);
            let cells = vec![
                found.count.to_string(),
                value(found.first),
                value(found.last),
                value(found.least),
                found.least.0.to_string(),
                value(found.greatest),
                found.greatest.0.to_string(),
            ];
            let name = if curve.name.is_empty() { title } else { &curve.name };
            Some((name.to_string(), cells))
        })
        .collect();
    folded(
        "Figures",
        &table(&format!("{title}: figures of the curves"), "", &heads, &rows),
    )
}
