//! A plan as text: its schedule and its memory, for people and for tests.

use std::fmt::{self, Write};

use lessen_graph::{Graph, Node, Phase, ValueId};

use crate::plan::Plan;
use crate::planned::{PlannedStep, Storage};

/// The schedule of a plan: its steps in order, each with its rows, blocks, memory and nodes.
///
/// ```text
/// step 0: 256 rows in blocks of 128, tiles of 128, scratch 1024 at 4096
///   forward %5: f32[256,64] in arena[0] = matmul(%0, %1) @head
/// ```
pub fn dump_schedule(plan: &Plan) -> String {
    let mut text = String::new();
    write_schedule(&mut text, plan).expect("writing to a string does not fail");
    text
}

/// The memory of a plan: totals, then every value in the arena by offset, with its lifetime in steps.
pub fn dump_memory(plan: &Plan) -> String {
    let mut text = String::new();
    write_memory(&mut text, plan).expect("writing to a string does not fail");
    text
}

fn write_schedule(out: &mut String, plan: &Plan) -> fmt::Result {
    for (s, step) in plan.steps.iter().enumerate() {
        write!(out, "step {s}:")?;
        if let Some(rows) = step.rows {
            write!(
                out,
                " {} rows in blocks of {}, tiles of {}",
                rows.rows, rows.block, rows.tile
            )?;
        }
        let bytes = step.scratch.bytes(plan.workers);
        if bytes > 0 {
            let separator = if step.rows.is_some() { "," } else { "" };
            write!(out, "{separator} scratch {bytes} at {}", step.scratch.offset)?;
        }
        if step.shared_scratch > 0 {
            let separator = if step.rows.is_some() || bytes > 0 { "," } else { "" };
            let (bytes, at) = (step.shared_scratch, step.shared_offset);
            write!(out, "{separator} shared scratch {bytes} at {at}")?;
        }
        writeln!(out)?;
        for id in &step.nodes {
            write_node(out, plan, step, &plan.graph.nodes[id.index()])?;
            let reference = plan.reference_nodes.binary_search(id).is_ok();
            writeln!(out, "{}", if reference { " by its reference evaluation" } else { "" })?;
        }
    }
    for copy in &plan.copies {
        writeln!(out, "copy %{} to %{}", copy.value.0, copy.target.0)?;
    }
    Ok(())
}

fn write_node(out: &mut String, plan: &Plan, step: &PlannedStep, node: &Node) -> fmt::Result {
    write!(out, "  {}", phase_name(node.phase))?;
    for (k, &v) in node.outputs.iter().enumerate() {
        let comma = if k == 0 { "" } else { "," };
        write!(out, "{comma} %{}: {} in ", v.0, plan.graph.ty(v))?;
        write_storage(out, &plan.graph, plan.storage[v.index()])?;
        if let Some(partial) = step.partials.iter().find(|p| p.value == v) {
            write!(out, " from {} parts at {}", partial.parts, partial.offset)?;
        }
    }
    write!(out, " = {}(", node.op.name())?;
    for (i, &v) in node.inputs.iter().enumerate() {
        let (comma, base) = (if i == 0 { "" } else { ", " }, plan.places[v.index()].base);
        write!(out, "{comma}%{}", v.0)?;
        if base != v {
            write!(out, " of %{}", base.0)?;
        }
    }
    write!(out, ")")?;
    if !node.scope.is_empty() {
        write!(out, " @{}", node.scope)?;
    }
    Ok(())
}

fn write_storage(out: &mut String, graph: &Graph, storage: Storage) -> fmt::Result {
    match storage {
        Storage::None => write!(out, "nothing"),
        Storage::State(i) => write!(out, "state {}", graph.inputs[i].name),
        Storage::Arena(at) => write!(out, "arena[{at}]"),
        Storage::Local(at) => write!(out, "local[{at}]"),
        Storage::Constant(i) => write!(out, "constant[{i}]"),
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        Phase::Update => "update",
    }
}

fn write_memory(out: &mut String, plan: &Plan) -> fmt::Result {
    writeln!(out, "peak {} bytes", plan.peak_bytes())?;
    writeln!(out, "states {} bytes", plan.state_bytes)?;
    writeln!(out, "constants {} bytes", plan.constant_bytes)?;
    writeln!(out, "results {} bytes", plan.result_bytes)?;
    let (arena, bound) = (plan.arena_bytes, plan.arena_lower_bound);
    writeln!(out, "arena {arena} bytes, at least {bound} for these lifetimes")?;
    let mut values: Vec<(usize, ValueId)> = (0..plan.graph.values.len() as u32)
        .map(ValueId)
        .filter_map(|v| match plan.storage[v.index()] {
            Storage::Arena(at) => Some((at, v)),
            _ => None,
        })
        .collect();
    values.sort_by_key(|&(at, v)| (at, plan.lifetimes[v.index()], v));
    for (at, v) in values {
        let ty = plan.graph.ty(v);
        let (first, last) = plan.lifetimes[v.index()].expect("values of the arena have lifetimes");
        let (name, _) = crate::value_name::describe(&plan.graph, v);
        writeln!(
            out,
            "  {at}..{} %{}: {ty} in steps {first}..={last}: {name}",
            at + ty.bytes(),
            v.0
        )?;
    }
    Ok(())
}
