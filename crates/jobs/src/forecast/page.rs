//! The page of a forecast: memory over the plan steps, the largest values, the choices, and steps under other budgets
//! and with other batch sizes.

use super::Forecast;
use super::batch_sizes::BatchSizes;
use super::choices::{OperationChoices, by_operation, packed_by_operation};
use super::phase::PhaseForecast;
use super::sweep::{Sweep, show_mib};
use super::time::show_ms;
use lessen_base::word::Word;
use lessen_compile::passes::{Recompute, StorageFormat};
use lessen_pages::figure::{Figure, Line, LineLook};
use lessen_pages::html::{document, folded, grid, section, table};
use lessen_pages::memory;
use lessen_task::folder::memory::PhaseMemory;
use lessen_train::show_size;

/// Bytes of a MiB, the unit of the axes.
const MIB: f64 = (1 << 20) as f64;

/// The whole page.
pub(super) fn page(forecast: &Forecast) -> String {
    let phases = &forecast.phases;
    let memories: Vec<PhaseMemory> = phases
        .iter()
        .map(|phase| PhaseMemory::of(phase.config.phase.as_deref(), &phase.plans))
        .collect();
    let most = memories.iter().map(memory::height).max().unwrap_or(0);
    let mut sections = section("overview", "Overview", &overview(phases));
    for (index, (phase, memory_of_phase)) in phases.iter().zip(&memories).enumerate() {
        let titled = |title: &str| match &phase.config.phase {
            Some(name) => format!("{title}, phase {name}"),
            None => title.to_string(),
        };
        let picture = memory::figure(index, &titled("Memory over a step"), memory_of_phase, most, "");
        let values = memory::largest(&titled("Memory over a step"), memory_of_phase);
        let curves = phase.sweep.as_ref().map(|sweep| curves(index, phase, sweep));
        for (id, title, inside) in [
            ("memory", "Memory over a step, as planned", picture),
            ("largest", "The largest values", values),
            ("choices", "What backward does not keep", choices(phase)),
            ("sweep", "Budgets from the floor to none", curves.unwrap_or_default()),
        ] {
            sections += &section(&format!("{id}-of-{index}"), &titled(title), &inside);
        }
    }
    let sizes = forecast.batch_sizes.as_ref().map(batches);
    sections += &section("batches", "Batch sizes", &sizes.unwrap_or_default());
    let short = phases.iter().any(|phase| phase.chosen.is_none());
    let note = "The budget is below the floor: what is shown is planned without a budget.".to_string();
    let notes = if short { vec![note] } else { Vec::new() };
    let title = format!("Plan of {}", phases[0].config.recipe());
    document("Lessen plan", &title, &notes, &sections)
}

/// The figures of each training phase.
fn overview(phases: &[PhaseForecast]) -> String {
    let names = phases
        .iter()
        .map(|phase| phase.config.phase.clone().unwrap_or_default());
    let heads: Vec<String> = names.collect();
    let row = |name: &str, of: &dyn Fn(&PhaseForecast) -> Option<String>| {
        let cells = phases.iter().map(|phase| of(phase).unwrap_or_else(|| "–".to_string()));
        (name.to_string(), cells.collect::<Vec<_>>())
    };
    let rows = [
        row("Peak memory", &|phase| Some(show_size(phase.chosen?.total()))),
        row("On the device", &|phase| Some(show_size(phase.chosen?.device.total()))),
        row("On the host", &|phase| Some(show_size(phase.chosen?.host.total()))),
        row("Budget", &|phase| phase.budget.map(show_size)),
        row("Floor", &|phase| Some(show_size(phase.floor.smallest_budget()))),
        row("Without a budget", &|phase| Some(show_size(phase.unbounded.total()))),
        row("Estimated step", &|phase| phase.step_ms().map(show_ms)),
        row("By costs", &|phase| Some(phase.cost.word().to_string())),
        row("Parameters", &|phase| Some(phase.parameters.to_string())),
        row("Batches of", &|phase| Some(phase.batch())),
        row("Updates", &|phase| Some(phase.placement())),
        row("Blocks of backward in slices", &|phase| {
            Some(phase.plans.step.sliced().to_string())
        }),
        row("Steps of the schedule", &|phase| {
            Some(phase.plans.step.steps().len().to_string())
        }),
    ];
    table("Overview", "", &heads, &rows)
}

/// Values that are recomputed, inverted from outputs, rounded, and kept as bits: by operation, and each value folded
/// away.
fn choices(phase: &PhaseForecast) -> String {
    let plan = &phase.plans.step;
    let row = |way: &'static str| {
        move |group: OperationChoices| {
            let cells = [way.to_string(), group.places.to_string(), show_size(group.bytes)];
            (group.operation, cells.to_vec())
        }
    };
    let ways = [
        ("recomputed", plan.recomputed()),
        ("from outputs", plan.inverted()),
        ("kept as bf16", plan.rounded(StorageFormat::Bf16)),
        ("kept in 8 bits", plan.rounded(StorageFormat::Int8)),
    ];
    let chosen = ways
        .iter()
        .flat_map(|(way, choices)| by_operation(choices).into_iter().map(row(way)));
    let packed = packed_by_operation(plan).into_iter().map(row("kept as bits"));
    let rows: Vec<(String, Vec<String>)> = chosen.chain(packed).collect();
    if rows.is_empty() {
        return String::new();
    }
    let value = |name: &str, way: &str, bytes: usize| (name.to_string(), vec![way.to_string(), show_size(bytes)]);
    let each = |(way, choices): &(&'static str, &[Recompute])| -> Vec<_> {
        let values = choices.iter();
        values.map(|choice| value(&choice.name, way, choice.bytes)).collect()
    };
    let chosen = ways.iter().flat_map(each);
    let packed = plan.packed().iter();
    let packed = packed.map(|choice| value(&choice.name, "kept as bits", choice.freed));
    let values: Vec<(String, Vec<String>)> = chosen.chain(packed).collect();
    let heads = ["way", "places", "not kept"].map(str::to_string);
    let each = ["way", "not kept"].map(str::to_string);
    table("Choices by operation", "", &heads, &rows) + &folded("Each value", &table("Each value", "", &each, &values))
}

/// Time and peak over the budget, as curves and as a table.
fn curves(index: usize, phase: &PhaseForecast, sweep: &Sweep) -> String {
    let in_mib = |bytes: usize| bytes as f64 / MIB;
    let limit = phase.budget.filter(|_| phase.chosen.is_some());
    let figure = |id: &str, title: &str, unit: &str, points: Vec<(f64, f64)>| {
        Figure {
            id: format!("sweep-{id}-{index}"),
            title: title.to_string(),
            unit: unit.to_string(),
            note: String::new(),
            along: "budget in MiB".to_string(),
            reach: (Vec::new(), Vec::new()),
            log: false,
            lines: vec![Line {
                name: title.to_string(),
                colour: 0,
                look: LineLook::Marked,
                points,
                told: true,
            }],
            marks: limit
                .map(|budget| (in_mib(budget), "budget".to_string()))
                .into_iter()
                .collect(),
            figures: String::new(),
        }
        .to_html()
    };
    let rows = || sweep.rows.iter();
    let times = rows().map(|row| (in_mib(row.budget), row.step_ms)).collect();
    let peaks = rows().map(|row| (in_mib(row.budget), in_mib(row.peak))).collect();
    let figures = figure("time", "Estimated step", "ms", times) + &figure("peak", "Peak memory", "MiB", peaks);
    let heads = ["peak", "step", "ratio to the fastest", "recomputed", "values"].map(str::to_string);
    let cells = rows().map(|row| {
        let (values, bytes) = row.recomputed;
        let cells = vec![
            show_mib(row.peak),
            show_ms(row.step_ms),
            format!("{:.2}", sweep.ratio(row)),
            show_size(bytes),
            values.to_string(),
        ];
        (show_mib(row.budget), cells)
    });
    grid(&figures) + &table("Steps under budgets", "budget", &heads, &cells.collect::<Vec<_>>())
}

/// The table of batch sizes.
fn batches(sizes: &BatchSizes) -> String {
    let heads = ["peak", "floor", "step", "for each example", ""].map(str::to_string);
    let row = |row: &super::batch_sizes::SizeRow| {
        let shown = |ms: Option<f64>| ms.map_or("–".to_string(), show_ms);
        let best = if sizes.best() == Some(row.batch) {
            "best throughput"
        } else {
            ""
        };
        let cells = vec![
            row.peak.map_or("below the floor".to_string(), show_size),
            show_size(row.floor),
            shown(row.step_ms),
            shown(row.example_ms),
            best.to_string(),
        ];
        (row.batch.to_string(), cells)
    };
    let rows: Vec<(String, Vec<String>)> = sizes.rows.iter().map(row).collect();
    table("Batch sizes", "batch", &heads, &rows)
}
