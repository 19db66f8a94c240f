//! Memory over the plan steps of a training step, as planned.

use super::figure::{Axes, Frame, frame, key, rounded};
use super::html::{folded, table};
use super::run::Run;
use lessen_task::folder::memory::PhaseMemory;
use lessen_train::show_size;
use serde_json::json;

/// Limit of drawn plan steps. Of longer schedules, the step with the greatest total of each of this number of equal
/// stretches is drawn.
const DRAWN: usize = 500;

/// The figures of all runs and training phases, with equal heights for equal bytes.
pub fn figures(runs: &[Run]) -> String {
    let phases = || {
        runs.iter()
            .flat_map(|run| run.memory.iter().map(move |phase| (run, phase)))
    };
    let most = phases().map(|(_, phase)| height(phase)).max().unwrap_or(0);
    let several = phases().count() > 1;
    let mut html = String::new();
    for (index, (run, phase)) in phases().enumerate() {
        let named = [
            (runs.len() > 1).then(|| run.name.clone()),
            phase.phase.as_ref().map(|phase| format!("phase {phase}")),
        ];
        let named: Vec<String> = named.into_iter().flatten().collect();
        let title = if several && !named.is_empty() {
            named.join(", ")
        } else {
            "Memory over a step".to_string()
        };
        let values = folded("Largest values", &largest(&title, phase));
        html += &figure(index, &title, phase, most, &values);
    }
    html
}

/// The bytes that a plot must reach.
pub fn height(phase: &PhaseMemory) -> usize {
    let greatest = (0..phase.operations.len()).map(|step| total(phase, step)).max();
    phase.planned.max(greatest.unwrap_or(0))
}

/// Everything that lies in memory in a step of the schedule.
fn total(phase: &PhaseMemory, step: usize) -> usize {
    phase.states + phase.constants + phase.parts().iter().map(|(_, bytes)| bytes[step]).sum::<usize>()
}

/// The unit in which a number of bytes is easily read, and its bytes.
fn unit(bytes: usize) -> (&'static str, f64) {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = units.into_iter().find(|(_, power)| bytes >> power >= 2);
    fits.map_or(("B", 1.0), |(name, power)| (name, (1u64 << power) as f64))
}

/// The plan steps that are drawn, each with its name for the pointer.
fn drawn_steps(phase: &PhaseMemory) -> Vec<(usize, String)> {
    let steps = phase.operations.len();
    let part = steps.div_ceil(DRAWN).max(1);
    let greatest = |first: usize| {
        let end = (first + part).min(steps);
        let step = (first..end).max_by_key(|&step| (total(phase, step), std::cmp::Reverse(step)))?;
        let name = &phase.operations[step];
        Some(match end - first {
            1 => (step, name.clone()),
            _ => (step, format!("{name}, the most of {first} to {}", end - 1)),
        })
    };
    (0..steps).step_by(part).filter_map(greatest).collect()
}

/// Memory in each plan step, one part over the other, on an axis of `most` bytes. `beneath` is HTML under the figure.
pub fn figure(index: usize, title: &str, phase: &PhaseMemory, most: usize, beneath: &str) -> String {
    let (steps, names): (Vec<usize>, Vec<String>) = drawn_steps(phase).into_iter().unzip();
    let (unit, size) = unit(most);
    let Some(&peak) = steps
        .iter()
        .max_by_key(|&&step| (total(phase, step), std::cmp::Reverse(step)))
    else {
        return String::new();
    };
    let end = phase.operations.len() as f64;
    let mut axes = Axes::over([0.0, end].into_iter(), [0.0, most as f64 / size].into_iter(), false);
    axes.y.low = 0.0;
    let lasting = vec![phase.states; phase.operations.len()];
    let constants = vec![phase.constants; phase.operations.len()];
    let mut parts: Vec<(&str, &[usize])> = vec![("parameters and states", &lasting), ("constants", &constants)];
    parts.extend(phase.parts());
    parts.retain(|(_, bytes)| bytes.iter().any(|&bytes| bytes > 0));

    // Areas over each other, each a staircase: a value is constant during a step.
    let mut below: Vec<f64> = vec![0.0; steps.len()];
    let (mut drawing, mut legend, mut series) = (String::new(), Vec::new(), Vec::new());
    for (number, (name, bytes)) in parts.iter().enumerate() {
        let above: Vec<f64> = steps
            .iter()
            .zip(&below)
            .map(|(&step, low)| low + bytes[step] as f64 / size)
            .collect();
        let stairs = |tops: &[f64]| -> Vec<(f64, f64)> {
            let edges = (0..steps.len()).map(|at| if at == 0 { 0.0 } else { steps[at] as f64 });
            let ends = (1..=steps.len()).map(|at| steps.get(at).map_or(end, |&step| step as f64));
            let corners = edges.zip(ends).zip(tops);
            corners
                .flat_map(|((from, to), &top)| [(from, top), (to, top)])
                .collect()
        };
        let mut outline = stairs(&above);
        outline.extend(stairs(&below).into_iter().rev());
        drawing += &format!("<path class=\"area a{number}\" d=\"{}Z\"/>\n", axes.path(&outline));
        legend.push((name.to_string(), key(&format!("block a{number}"))));
        series.push(json!({
            "name": name,
            "colour": format!("a{number}"),
            "y": above.iter().map(|&top| rounded(top)).collect::<Vec<_>>(),
            "shown": steps.iter().map(|&step| show_size(bytes[step])).collect::<Vec<_>>(),
        }));
        below = above;
    }
    let planned = axes.y.place(phase.planned as f64 / size);
    drawing += &format!("<path class=\"limit\" d=\"M0 {planned:.1}H1000\"/>\n");
    legend.push(("planned peak of the run".to_string(), key("limit")));
    legend.reverse();
    let note = format!(
        "The peak of the step is {} at operation {peak} of {} ({}); with evaluation and gaps the plan takes {}.",
        show_size(total(phase, peak)),
        phase.operations.len(),
        phase.operations[peak],
        show_size(phase.planned)
    );
    frame(&Frame {
        id: &format!("memory-{index}"),
        title,
        unit,
        note: &note,
        along: "operation of the schedule",
        axes: &axes,
        legend: &legend,
        marks: &marks(phase),
        drawing: &drawing,
        told: json!({
            "steps": steps,
            "names": names,
            "totals": steps.iter().map(|&step| show_size(total(phase, step))).collect::<Vec<_>>(),
            "series": series,
        }),
        figures: beneath,
    })
}

/// Where forward, backward and update begin, unless updates are in between everywhere.
fn marks(phase: &PhaseMemory) -> Vec<(f64, String)> {
    let mut seen: Vec<&str> = Vec::new();
    let mut marks = Vec::new();
    for (step, part) in &phase.stretches {
        if !seen.contains(&part.as_str()) && (phase.stretches.len() <= 4 || part != "update") {
            seen.push(part);
            marks.push((*step as f64, part.clone()));
        }
    }
    marks
}

/// The table of the largest values.
pub fn largest(title: &str, phase: &PhaseMemory) -> String {
    let heads = ["size", "type", "from operation", "to"].map(str::to_string);
    let row = |value: &lessen_task::folder::memory::LargeValue| {
        let (first, last) = (value.first_step.to_string(), value.last_step.to_string());
        (
            value.name.clone(),
            vec![show_size(value.bytes), value.ty.clone(), first, last],
        )
    };
    let rows: Vec<(String, Vec<String>)> = phase.largest.iter().map(row).collect();
    table(&format!("{title}: largest values"), "", &heads, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_task::folder::memory::Usage;

    /// The memory of a schedule of `steps` steps, with a peak in the step `peak`.
    fn phase(steps: usize, peak: usize) -> PhaseMemory {
        let forward = (0..steps).map(|step| if step == peak { 900 } else { step % 100 });
        PhaseMemory {
            planned: 1000,
            operations: (0..steps).map(|step| format!("op{step}")).collect(),
            usage: Usage {
                inputs: vec![10; steps],
                forward: forward.collect(),
                backward: vec![0; steps],
                update: vec![0; steps],
                scratch: vec![0; steps],
            },
            ..PhaseMemory::default()
        }
    }

    #[test]
    fn a_short_schedule_is_drawn_step_by_step() {
        let drawn = drawn_steps(&phase(500, 7));
        assert!(
            drawn
                .iter()
                .enumerate()
                .all(|(at, found)| *found == (at, format!("op{at}")))
        );
    }

    #[test]
    fn a_long_schedule_is_drawn_as_stretches_with_their_peaks() {
        let phase = phase(1001, 500);
        let drawn = drawn_steps(&phase);
        assert_eq!(drawn.len(), 334);
        assert!(drawn.contains(&(500, "op500, the most of 498 to 500".to_string())));
        assert_eq!(drawn.last(), Some(&(999, "op999, the most of 999 to 1000".to_string())));
        let html = figure(0, "Memory", &phase, 1000, "<p>beneath</p>");
        assert!(
            html.contains("op500, the most of") && html.contains("<p>beneath</p>"),
            "{html}"
        );
        assert!(html.len() < 100_000, "{}", html.len());
    }
}
