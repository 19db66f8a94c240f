//! The text form of a graph: readable, complete, and parsed back.
//!
//! ```text
//! input "x" %0 : f32[2,3]
//! state "w" %1 : f32[3,4]
//! %2 = matmul(%0, %1) {transpose_a=false, transpose_b=false} @head : f32[2,4]
//! backward:
//! %3 = reduce(%2) {f=sum, axes=[0,1]} : f32[]
//! output "sum" = %3
//! assign %1 = %1
//! ```
//!
//! Each input, node, output and assignment is a line. `forward:`, `backward:` and `update:` begin the nodes of a phase,
//! `@` precedes a node's scope. Empty lines and lines that begin with `#` are ignored.

use lessen_base::{Error, Result};
use std::collections::HashMap;
use std::fmt::{self, Write};

use crate::attrs::quoted;
use crate::builder::GraphBuilder;
use crate::graph::{Assign, Graph, Input, InputKind, Node, Output, Phase, Value, ValueId};
use crate::line::{Line, is_plain_scope};
use crate::registry::Registry;
use crate::types::Type;

/// The text form of a graph.
pub fn print(graph: &Graph) -> String {
    let mut text = String::new();
    write_graph(&mut text, graph).expect("writing to a string does not fail");
    text
}

fn write_graph(out: &mut String, graph: &Graph) -> fmt::Result {
    for input in &graph.inputs {
        let kind = match input.kind {
            InputKind::Data => "input",
            InputKind::State => "state",
        };
        writeln!(
            out,
            "{kind} {} %{} : {}",
            quoted(&input.name),
            input.value.0,
            graph.ty(input.value)
        )?;
    }
    let mut phase = Phase::Forward;
    for node in &graph.nodes {
        if node.phase != phase {
            phase = node.phase;
            writeln!(out, "{}:", phase_name(phase))?;
        }
        let ids = |ids: &[ValueId]| ids.iter().map(|v| format!("%{}", v.0)).collect::<Vec<_>>().join(", ");
        write!(
            out,
            "{} = {}({})",
            ids(&node.outputs),
            node.op.name(),
            ids(&node.inputs)
        )?;
        let attrs: Vec<String> = node.op.attrs().0.iter().map(|(n, v)| format!("{n}={v}")).collect();
        if !attrs.is_empty() {
            write!(out, " {{{}}}", attrs.join(", "))?;
        }
        if !node.scope.is_empty() {
            write!(
                out,
                " @{}",
                if is_plain_scope(&node.scope) {
                    node.scope.to_string()
                } else {
                    quoted(&node.scope)
                }
            )?;
        }
        let types: Vec<String> = node.outputs.iter().map(|&v| graph.ty(v).to_string()).collect();
        writeln!(out, " : {}", types.join(", "))?;
    }
    for output in &graph.outputs {
        writeln!(out, "output {} = %{}", quoted(&output.name), output.value.0)?;
    }
    for assign in &graph.assigns {
        writeln!(out, "assign %{} = %{}", assign.target.0, assign.value.0)?;
    }
    Ok(())
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        Phase::Update => "update",
    }
}

/// Parses the text form. Values keep their numbers if these are all of `0..n`; otherwise they are renumbered in the
/// same order.
///
/// # Errors
/// A sentence that names the line.
pub fn parse(text: &str, registry: &Registry) -> Result<Graph> {
    let mut parser = Parser {
        registry,
        builder: GraphBuilder::new(),
        ids: HashMap::new(),
    };
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            parser
                .line(line)
                .map_err(|e| Error::user(format!("line {}: {e}", i + 1)))?;
        }
    }
    Ok(renumbered(parser.builder.finish(), &parser.ids))
}

struct Parser<'r> {
    registry: &'r Registry,
    /// The graph with its values in the order of their definition.
    builder: GraphBuilder,
    /// Values by their number in the text.
    ids: HashMap<u32, ValueId>,
}

impl Parser<'_> {
    fn line(&mut self, text: &str) -> Result<()> {
        for phase in [Phase::Forward, Phase::Backward, Phase::Update] {
            if text.strip_suffix(':') == Some(phase_name(phase)) {
                self.builder.set_phase(phase);
                return Ok(());
            }
        }
        let mut line = Line::new(text);
        if text.starts_with('%') {
            self.node(&mut line)?;
        } else {
            match line.word()? {
                "input" => self.input(&mut line, InputKind::Data)?,
                "state" => self.input(&mut line, InputKind::State)?,
                "output" => {
                    let name = line.quoted()?;
                    line.expect("=")?;
                    let value = self.used(line.value()?)?;
                    self.builder.output(name, value)?;
                }
                "assign" => {
                    let target = self.used(line.value()?)?;
                    line.expect("=")?;
                    let value = self.used(line.value()?)?;
                    self.builder.assign(target, value)?;
                }
                word => {
                    return Err(Error::user(format!(
                        "`{word}` begins no line: input, state, output, assign or %"
                    )));
                }
            }
        }
        line.end()
    }

    fn input(&mut self, line: &mut Line<'_>, kind: InputKind) -> Result<()> {
        let name = line.quoted()?;
        let number = line.value()?;
        line.expect(":")?;
        let value = self.builder.declare(name, kind, line.ty()?)?;
        self.define(number, value)
    }

    fn node(&mut self, line: &mut Line<'_>) -> Result<()> {
        let mut numbers = vec![line.value()?];
        while line.accept(",") {
            numbers.push(line.value()?);
        }
        line.expect("=")?;
        let name = line.op_name()?;
        line.expect("(")?;
        let mut inputs = Vec::new();
        while !line.accept(")") {
            if !inputs.is_empty() {
                line.expect(",")?;
            }
            inputs.push(self.used(line.value()?)?);
        }
        let op = self.registry.build(name, &line.attrs()?)?;
        let scope = if line.accept("@") { line.scope()? } else { String::new() };
        line.expect(":")?;
        let mut types = vec![line.ty()?];
        while line.accept(",") {
            types.push(line.ty()?);
        }
        self.builder.set_scope(scope);
        let outputs = self.builder.push(op, &inputs)?;
        let rule: Vec<&Type> = outputs.iter().map(|&v| self.builder.graph().ty(v)).collect();
        if numbers.len() != outputs.len() || !rule.iter().copied().eq(&types) {
            return Err(Error::user(format!(
                "{name} gives {rule:?}, the text says {types:?} for {} values",
                numbers.len()
            )));
        }
        numbers
            .into_iter()
            .zip(outputs)
            .try_for_each(|(number, value)| self.define(number, value))
    }

    fn define(&mut self, number: u32, value: ValueId) -> Result<()> {
        match self.ids.insert(number, value) {
            Some(_) => Err(Error::user(format!("%{number} is defined twice"))),
            None => Ok(()),
        }
    }

    fn used(&self, number: u32) -> Result<ValueId> {
        self.ids
            .get(&number)
            .copied()
            .ok_or_else(|| Error::user(format!("%{number} is not defined yet")))
    }
}

/// The graph with its values in the order of their numbers in the text.
fn renumbered(graph: Graph, ids: &HashMap<u32, ValueId>) -> Graph {
    let mut order: Vec<(u32, ValueId)> = ids.iter().map(|(&number, &value)| (number, value)).collect();
    order.sort_unstable();
    let mut new = vec![ValueId(0); order.len()];
    for (i, &(_, old)) in order.iter().enumerate() {
        new[old.index()] = ValueId(i as u32);
    }
    let map = |v: ValueId| new[v.index()];
    let all = |vs: Vec<ValueId>| vs.into_iter().map(map).collect();
    let values = order
        .iter()
        .map(|&(_, old)| graph.values[old.index()].clone())
        .collect::<Vec<Value>>();
    Graph {
        op_types: graph.op_types,
        faults: graph.faults,
        nodes: graph
            .nodes
            .into_iter()
            .map(|n| Node {
                inputs: all(n.inputs),
                outputs: all(n.outputs),
                ..n
            })
            .collect(),
        values,
        inputs: graph
            .inputs
            .into_iter()
            .map(|i| Input {
                value: map(i.value),
                ..i
            })
            .collect(),
        outputs: graph
            .outputs
            .into_iter()
            .map(|o| Output {
                value: map(o.value),
                ..o
            })
            .collect(),
        assigns: graph
            .assigns
            .into_iter()
            .map(|a| Assign {
                target: map(a.target),
                value: map(a.value),
            })
            .collect(),
    }
}
