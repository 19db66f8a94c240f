//! Recorded statistics of a run: a plot for each statistic of values of the same name, with a line for each layer, and
//! the newest distributions.

use super::figure::{Figure, Line, LineLook};
use super::html::{folded, note, number};
use super::run::Run;
use std::collections::BTreeMap;

/// Equal parts that a distribution is drawn in.
const PARTS: usize = 80;

/// Share of a distribution that is left out at either end, where few values would take most of the room.
const TAIL: f64 = 0.005;

/// Lines by the name of their layer.
type Lines = Vec<(String, Vec<(f64, f64)>)>;

/// The recorded statistics of all runs, folded away; nothing where there are none.
pub fn figures(runs: &[Run]) -> String {
    let mut html = String::new();
    for (index, run) in runs.iter().enumerate() {
        let (constants, groups) = without_constants(courses(run));
        let name = format!("statistic-{index}");
        let plots = plots(&name, "", "step", "", groups) + &distributions(index, run);
        if !plots.is_empty() {
            html += &folded(
                &run.name,
                &format!("{}<div class=\"figures\">\n{plots}</div>\n", told(&constants)),
            );
        }
    }
    html
}

/// The parts of a key such as `stat/transformer.h.0.mlp.pre_activation/std`: the plot, and the layer.
fn parts(key: &str) -> Option<(String, String)> {
    let (split, rest) = key.split_once('/')?;
    let (name, statistic) = rest.rsplit_once('/')?;
    let is_number = |part: &&str| part.chars().all(|c| c.is_ascii_digit());
    let layer: Vec<&str> = name.split('.').filter(is_number).collect();
    let pattern: Vec<&str> = name.split('.').filter(|part| !is_number(part)).collect();
    let on = if split == "dev_stat" { ", on dev" } else { "" };
    let layer = if layer.is_empty() {
        statistic.to_string()
    } else {
        format!("layer {}", layer.join("."))
    };
    Some((format!("{}: {statistic}{on}", pattern.join(".")), layer))
}

fn plots(name: &str, unit: &str, along: &str, note: &str, groups: BTreeMap<String, Lines>) -> String {
    let mut html = String::new();
    for (number, (title, lines)) in groups.into_iter().enumerate() {
        let line = |(colour, (name, points)): (usize, (String, Vec<(f64, f64)>))| Line {
            name,
            colour,
            look: LineLook::Solid,
            points,
            told: true,
        };
        html += &Figure {
            id: format!("{name}-{number}"),
            title,
            unit: unit.to_string(),
            note: note.to_string(),
            along: along.to_string(),
            reach: (Vec::new(), Vec::new()),
            log: false,
            lines: lines.into_iter().enumerate().map(line).collect(),
            marks: Vec::new(),
            figures: String::new(),
        }
        .to_html();
    }
    html
}

/// The courses of all recorded numbers.
fn courses(run: &Run) -> BTreeMap<String, Lines> {
    let mut groups: BTreeMap<String, Lines> = BTreeMap::new();
    for (key, curve) in &run.curves {
        if let Some((title, layer)) = parts(key) {
            groups.entry(title).or_default().push((layer, curve.points()));
        }
    }
    groups
}

/// Groups with one value throughout, and groups with a curve to plot.
fn without_constants(mut groups: BTreeMap<String, Lines>) -> (Vec<(String, f64)>, BTreeMap<String, Lines>) {
    let mut constants = Vec::new();
    groups.retain(|title, lines| {
        let mut values = lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1));
        let Some(first) = values.next() else { return false };
        let is_constant = values.all(|value| value == first);
        if is_constant {
            constants.push((title.clone(), first));
        }
        !is_constant
    });
    (constants, groups)
}

/// A sentence about statistics that have one value throughout.
fn told(constants: &[(String, f64)]) -> String {
    let named = constants
        .iter()
        .map(|(title, value)| format!("{title} {}", number(*value)));
    let named: Vec<String> = named.collect();
    if named.is_empty() {
        String::new()
    } else {
        note(&format!("Flat, and therefore not drawn: {}.", named.join("; ")))
    }
}

fn distributions(index: usize, run: &Run) -> String {
    let mut groups: BTreeMap<String, Lines> = BTreeMap::new();
    let mut last = 0;
    for (key, (step, bins)) in &run.histograms {
        if let (Some((title, layer)), Some(points)) = (parts(key), density(bins)) {
            let title = title.replace("histogram", "distribution");
            groups.entry(title).or_default().push((layer, points));
            last = last.max(*step);
        }
    }
    let note = format!(
        "Recorded before step {last}, without the outermost {}% at either end.",
        100.0 * TAIL
    );
    plots(&format!("distribution-{index}"), "density", "value", &note, groups)
}

/// The density of a histogram of bins `[low, high, count]` in equal parts: within a bin, values count as spread evenly.
/// None of an empty one.
fn density(bins: &[[f64; 3]]) -> Option<Vec<(f64, f64)>> {
    let is_sound = |[low, high, count]: &&[f64; 3]| low.is_finite() && high.is_finite() && high > low && *count > 0.0;
    let bins: Vec<[f64; 3]> = bins.iter().filter(is_sound).copied().collect();
    let total: f64 = bins.iter().map(|bin| bin[2]).sum();
    let quantile = |share: f64| {
        let mut left = share * total;
        for [low, high, count] in &bins {
            if left <= *count {
                return Some(low + (high - low) * left / count);
            }
            left -= count;
        }
        bins.last().map(|bin| bin[1])
    };
    let (from, to) = (quantile(TAIL)?, quantile(1.0 - TAIL)?);
    let width = (to - from) / PARTS as f64;
    if width <= 0.0 {
        return None;
    }
    let within = |low: f64, high: f64| -> f64 {
        let share = |bin: &[f64; 3]| bin[2] * (high.min(bin[1]) - low.max(bin[0])).max(0.0) / (bin[1] - bin[0]);
        bins.iter().map(share).sum()
    };
    let point = |part: usize| {
        let low = from + part as f64 * width;
        (low + width / 2.0, within(low, low + width) / total / width)
    };
    Some((0..PARTS).map(point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_grouped_by_what_they_are_a_statistic_of() {
        let found = parts("dev_stat/transformer.h.11.mlp.pre_activation/std").unwrap();
        assert_eq!(
            found,
            (
                "transformer.h.mlp.pre_activation: std, on dev".into(),
                "layer 11".into()
            )
        );
        assert_eq!(parts("stat/pooled/mean").unwrap().1, "mean");
        assert_eq!(parts("loss"), None);
    }

    #[test]
    fn a_density_holds_the_mass_of_its_histogram() {
        let found = density(&[[-4.0, 0.0, 100.0], [0.0, 1.0, 300.0], [1.0, 1.0, 5.0]]).unwrap();
        let width = found[1].0 - found[0].0;
        let mass: f64 = found.iter().map(|point| point.1 * width).sum();
        assert!((mass - 0.99).abs() < 1e-9, "{mass}");
        assert!((found[79].1 / found[0].1 - 12.0).abs() < 1e-9);
        assert_eq!(density(&[]), None);
        assert_eq!(density(&[[1.0, f64::INFINITY, 3.0]]), None);
    }
}
