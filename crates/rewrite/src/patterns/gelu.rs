//! GELU in primitive operations: `x/2 (1 + erf(x / sqrt 2))`, or with tanh: `x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715
//! x^3)))`, with factors in any order.

use std::collections::HashMap;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};
use std::sync::Arc;

use lessen_graph::ops::{Binary, BinaryKind, Gelu, Unary, UnaryKind};
use lessen_graph::{Graph, Node, ValueId};

use super::norm_parts::known_numbers;
use super::replace::{Pattern, replaced};
use crate::rewriter::Rewriter;

/// Coefficients of `1`, `x`, `x^2`, `x^3`.
type Polynomial = [f64; 4];

/// Relative error of a number that still counts as the exact one: exporters write `f32`.
const ROUNDING: f64 = 1e-6;

/// The most operations from `x` to the argument of the function.
const DEPTH: usize = 5;

/// Replaces GELUs of primitive operations by one operation each.
pub(super) fn recognize_gelu(graph: &Graph) -> Graph {
    let finder = Finder {
        graph,
        known: known_numbers(graph),
    };
    let gated = finder.gated();
    replaced(graph, |node| {
        let candidate = gated.get(&node.outputs[0])?;
        candidate
            .gelu()
            .filter(|found| graph.ty(found.x) == graph.ty(node.outputs[0]))
    })
    .0
}

/// A GELU of a value.
struct Found {
    x: ValueId,
    op: Gelu,
}

impl Pattern for Found {
    fn inputs(&self) -> Vec<ValueId> {
        vec![self.x]
    }

    fn write(&self, rewriter: &mut Rewriter<'_>, _: &Graph, node: &Node) -> ValueId {
        let x = rewriter.get(self.x);
        rewriter.push(Arc::new(self.op), &[x], node.phase, &node.scope)[0]
    }
}

/// The value `p(x) (a + b gate(x))`, where `gate` is the function that GELU multiplies `x` by, without its numbers.
#[derive(Clone, Copy)]
struct Gated {
    x: ValueId,
    op: Gelu,
    by: Polynomial,
    numbers: [f64; 2],
}

impl Gated {
    /// The GELU that the value is, if it is one.
    fn gelu(&self) -> Option<Found> {
        let [_, factor, ..] = self.by;
        let is_whole = is_close(&self.by, &[0.0, factor, 0.0, 0.0])
            && self.numbers.iter().all(|number| is_close(&[number * factor], &[0.5]));
        is_whole.then_some(Found { x: self.x, op: self.op })
    }
}

/// Whether numbers are the expected ones, up to rounding.
fn is_close(found: &[f64], expected: &[f64]) -> bool {
    let mut pairs = found.iter().zip(expected);
    pairs.all(|(found, expected)| (found - expected).abs() <= ROUNDING * expected.abs())
}

struct Finder<'g> {
    graph: &'g Graph,
    known: Vec<Option<f64>>,
}

impl Finder<'_> {
    fn producer(&self, value: ValueId) -> Option<&Node> {
        Some(&self.graph.nodes[self.graph.producer(value)?.index()])
    }

    /// The values that are computed from a gate by numbers and powers of its `x`.
    fn gated(&self) -> HashMap<ValueId, Gated> {
        let mut gated = HashMap::new();
        for node in &self.graph.nodes {
            let candidate = self.gate(node).or_else(|| self.followed(node, &gated));
            if let Some(candidate) = candidate {
                gated.insert(node.outputs[0], candidate);
            }
        }
        gated
    }

    /// The gate that a node computes, if its function has a fitting argument.
    fn gate(&self, node: &Node) -> Option<Gated> {
        let kind = node.op.downcast_ref::<Unary>()?.kind;
        let (tanh, expected) = match kind {
            UnaryKind::Erf => (false, [0.0, FRAC_1_SQRT_2, 0.0, 0.0]),
            UnaryKind::Tanh => (true, [0.0, FRAC_2_PI.sqrt(), 0.0, FRAC_2_PI.sqrt() * 0.044715]),
            _ => return None,
        };
        let argument = node.inputs[0];
        let fits = |x: &ValueId| {
            let found = self.polynomial(argument, *x, DEPTH);
            found.is_some_and(|found| is_close(&found, &expected))
        };
        Some(Gated {
            x: self.sources(argument).into_iter().find(fits)?,
            op: Gelu { tanh },
            by: [1.0, 0.0, 0.0, 0.0],
            numbers: [0.0, 1.0],
        })
    }

    /// The values that an argument may be a polynomial of, the nearest first.
    fn sources(&self, argument: ValueId) -> Vec<ValueId> {
        let mut sources = vec![argument];
        let mut level = 0..1;
        for _ in 0..DEPTH {
            for i in level.clone() {
                let node = self.producer(sources[i]).filter(|node| node.op.is::<Binary>());
                let inputs = node.map_or(&[][..], |node| &node.inputs);
                for input in inputs {
                    if self.known[input.index()].is_none() && !sources.contains(input) {
                        sources.push(*input);
                    }
                }
            }
            level = level.end..sources.len();
        }
        sources
    }

    /// A value as a polynomial of `x`.
    fn polynomial(&self, value: ValueId, x: ValueId, depth: usize) -> Option<Polynomial> {
        if value == x {
            return Some([0.0, 1.0, 0.0, 0.0]);
        }
        if let Some(number) = self.known[value.index()] {
            return Some([number, 0.0, 0.0, 0.0]);
        }
        let node = self.producer(value)?;
        let kind = node.op.downcast_ref::<Binary>()?.kind;
        let depth = depth.checked_sub(1)?;
        let [a, b] = [0, 1].map(|input| self.polynomial(node.inputs[input], x, depth));
        let (a, b) = (a?, b?);
        match kind {
            BinaryKind::Add => Some(std::array::from_fn(|i| a[i] + b[i])),
            BinaryKind::Sub => Some(std::array::from_fn(|i| a[i] - b[i])),
            BinaryKind::Mul => product(&a, &b),
            BinaryKind::Div => product(&a, &[1.0 / number(&b)?, 0.0, 0.0, 0.0]),
            BinaryKind::Pow if b == [2.0, 0.0, 0.0, 0.0] => product(&a, &a),
            BinaryKind::Pow if b == [3.0, 0.0, 0.0, 0.0] => product(&product(&a, &a)?, &a),
            _ => None,
        }
    }

    /// The gated value that a node computes from another one.
    fn followed(&self, node: &Node, gated: &HashMap<ValueId, Gated>) -> Option<Gated> {
        let kind = node.op.downcast_ref::<Binary>()?.kind;
        let [a, b] = node.inputs[..] else {
            return None;
        };
        let with = |a: &ValueId, b: ValueId| Some((*gated.get(a)?, b));
        let is_exchangeable = matches!(kind, BinaryKind::Add | BinaryKind::Mul);
        let (candidate, other) = with(&a, b).or_else(|| with(&b, a).filter(|_| is_exchangeable))?;
        let by = self.polynomial(other, candidate.x, DEPTH)?;
        match kind {
            BinaryKind::Add => {
                let term = number(&by)? / number(&candidate.by)?;
                let [first, factor] = candidate.numbers;
                Some(Gated {
                    numbers: [first + term, factor],
                    ..candidate
                })
            }
            BinaryKind::Mul => Some(Gated {
                by: product(&candidate.by, &by)?,
                ..candidate
            }),
            BinaryKind::Div => Some(Gated {
                by: product(&candidate.by, &[1.0 / number(&by)?, 0.0, 0.0, 0.0])?,
                ..candidate
            }),
            _ => None,
        }
    }
}

/// The product of polynomials, if it is of degree 3 at most.
fn product(a: &Polynomial, b: &Polynomial) -> Option<Polynomial> {
    let mut all = [0.0; 4];
    for (i, a) in a.iter().enumerate() {
        for (j, b) in b.iter().enumerate().filter(|(_, b)| a * **b != 0.0) {
            *all.get_mut(i + j)? += a * b;
        }
    }
    Some(all)
}

/// The number that a polynomial is.
fn number(polynomial: &Polynomial) -> Option<f64> {
    (polynomial[1..] == [0.0; 3] && polynomial[0] != 0.0).then_some(polynomial[0])
}
