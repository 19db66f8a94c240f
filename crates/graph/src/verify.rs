//! The verifier: the invariants of every graph.

use lessen_base::{Error, Result};
use std::collections::HashSet;

use crate::graph::{Def, Graph, InputKind};

/// Checks that a graph is well formed: definitions come before uses, types follow from the operations' rules,
/// every size can be counted, names are unique, assignments keep types and target each state once at most, and no
/// operation's answer broke its contract so far; see [`Graph::check_answers`].
///
/// # Errors
/// A sentence that names the first node, value or input at fault.
pub fn verify(graph: &Graph) -> Result<()> {
    graph.check_answers()?;
    if let Some((i, value)) = (graph.values.iter().enumerate()).find(|(_, value)| !value.ty.fits()) {
        return Err(Error::user(format!("the type {} of %{i} is too large", value.ty)));
    }
    let mut defined = vec![false; graph.values.len()];
    let mut names = HashSet::new();
    for (i, input) in graph.inputs.iter().enumerate() {
        if !names.insert(&input.name) {
            return Err(Error::user(format!("two inputs are called `{}`", input.name)));
        }
        match graph.values.get(input.value.index()) {
            Some(value) if value.def == Def::Input(i) => defined[input.value.index()] = true,
            _ => {
                return Err(Error::user(format!(
                    "the input `{}` does not define its value",
                    input.name
                )));
            }
        }
    }
    for (i, node) in graph.nodes.iter().enumerate() {
        let place = || Error::user(format!("node {i} ({})", node.op.name()));
        for input in &node.inputs {
            if !defined.get(input.index()).copied().unwrap_or(false) {
                return Err(Error::user(format!(
                    "{} reads %{} before it is defined",
                    place(),
                    input.0
                )));
            }
        }
        let expected = node
            .op
            .infer_checked(&graph.input_types(node))
            .map_err(|e| Error::user(format!("{}: {e}", place())))?;
        if expected.len() != node.outputs.len() {
            return Err(Error::user(format!(
                "{} has {} outputs, its rule gives {}",
                place(),
                node.outputs.len(),
                expected.len()
            )));
        }
        for (k, (&output, ty)) in node.outputs.iter().zip(&expected).enumerate() {
            match graph.values.get(output.index()) {
                Some(v) if matches!(v.def, Def::Node(n, j) if n.index() == i && j == k) => {}
                _ => {
                    return Err(Error::user(format!(
                        "{} does not define its output %{}",
                        place(),
                        output.0
                    )));
                }
            }
            if graph.ty(output) != ty {
                return Err(Error::user(format!(
                    "{}: %{} has type {}, its rule gives {ty}",
                    place(),
                    output.0,
                    graph.ty(output)
                )));
            }
            defined[output.index()] = true;
        }
    }
    let mut names = HashSet::new();
    for output in &graph.outputs {
        if !names.insert(&output.name) {
            return Err(Error::user(format!("two outputs are called `{}`", output.name)));
        }
        if !defined.get(output.value.index()).copied().unwrap_or(false) {
            return Err(Error::user(format!("the output `{}` is not defined", output.name)));
        }
    }
    let mut targets = HashSet::new();
    for assign in &graph.assigns {
        match graph.input(assign.target) {
            Some(input) if input.kind == InputKind::State => {}
            _ => {
                return Err(Error::user(format!("%{} is assigned but is no state", assign.target.0)));
            }
        }
        if !targets.insert(assign.target) {
            return Err(Error::user(format!("%{} is assigned twice", assign.target.0)));
        }
        if !defined.get(assign.value.index()).copied().unwrap_or(false) {
            return Err(Error::user(format!(
                "%{} is assigned a value that is not defined",
                assign.target.0
            )));
        }
        if graph.ty(assign.target) != graph.ty(assign.value) {
            return Err(Error::user(format!(
                "%{} is assigned a value of another type",
                assign.target.0
            )));
        }
    }
    Ok(())
}
