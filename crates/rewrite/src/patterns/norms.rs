//! LayerNorm in primitive operations, as older exporters of models write it.
//!
//! Values are *derived* from a base value: each is a statistic of the base's rows along the last axis, or the rows
//! themselves after some steps of the norm. Operations lead from one derived value to the next, so the order of
//! factors, casts in between and values that are computed twice do not matter.

use std::sync::Arc;

use lessen_graph::ops::{
    Binary, BinaryKind, Broadcast, Cast, Identity, LayerNorm, Reduce, ReduceKind, Reshape, Unary, UnaryKind,
};
use lessen_graph::{Graph, Node, ValueId};

use super::norm_parts::{Norm, keeps_lines, known_numbers, row};
use super::replace::replaced;

/// The statistic that a derived value is. The first six statistics have one number for each row.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Statistic {
    /// The sum of the elements.
    Sum,
    /// The mean of the elements.
    Mean,
    /// The sum of the squares of the elements minus their mean.
    SquareSum,
    /// The variance, plus the given number.
    Variance(f64),
    /// The square root of the variance plus the given number.
    Deviation(f64),
    /// The reciprocal of that root.
    Reciprocal(f64),
    /// The elements minus their mean.
    Centred,
    /// The squares of the elements minus their mean.
    Square,
    /// The elements minus their mean, divided by the root.
    Normal(f64),
    /// The normalized elements, times a row of parameters.
    Scaled(f64, ValueId),
    /// The normalized elements, times a row of parameters, which may be absent, plus a row of parameters.
    Shifted(f64, ValueId, Option<ValueId>),
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Derived {
    base: ValueId,
    statistic: Statistic,
}

/// Replaces LayerNorms of primitive operations by one operation each, and drops nodes that nothing reads any more.
/// Returns the new graph and, for each old value that is still there, the new one.
pub fn recognize_norms(graph: &Graph) -> (Graph, Vec<Option<ValueId>>) {
    let finder = LayerNormFinder::of(graph);
    replaced(graph, |node| finder.norm(node.outputs[0]))
}

struct LayerNormFinder<'g> {
    graph: &'g Graph,
    derived: Vec<Option<Derived>>,
    known: Vec<Option<f64>>,
}

impl LayerNormFinder<'_> {
    fn of(graph: &Graph) -> LayerNormFinder<'_> {
        let mut finder = LayerNormFinder {
            graph,
            derived: vec![None; graph.values.len()],
            known: known_numbers(graph),
        };
        for node in &graph.nodes {
            finder.derived[node.outputs[0].index()] = finder.derive(node);
        }
        finder
    }

    fn get(&self, value: ValueId) -> Option<Derived> {
        self.derived[value.index()]
    }

    /// The norm that a value is.
    fn norm(&self, value: ValueId) -> Option<Norm> {
        let Derived { base, statistic } = self.get(value)?;
        let (eps, scale, shift) = match statistic {
            Statistic::Normal(eps) => (eps, None, None),
            Statistic::Scaled(eps, scale) => (eps, Some(scale), None),
            Statistic::Shifted(eps, shift, scale) => (eps, scale, Some(shift)),
            _ => return None,
        };
        let is_same = self.graph.ty(value) == self.graph.ty(base);
        is_same.then(|| Norm {
            op: Arc::new(LayerNorm { eps }),
            base,
            rows: vec![(scale, 1.0), (shift, 0.0)],
        })
    }

    fn derive(&self, node: &Node) -> Option<Derived> {
        let op = node.op.as_ref();
        let first = *node.inputs.first()?;
        if let Some(reduce) = op.downcast_ref::<Reduce>() {
            return self.reduced(reduce, first);
        }
        if let Some(unary) = op.downcast_ref::<Unary>() {
            let Derived { base, statistic } = self.get(first)?;
            let statistic = match (unary.kind, statistic) {
                (UnaryKind::Sqrt, Statistic::Variance(eps)) => Statistic::Deviation(eps),
                (UnaryKind::Rsqrt, Statistic::Variance(eps)) => Statistic::Reciprocal(eps),
                (UnaryKind::Recip, Statistic::Deviation(eps)) => Statistic::Reciprocal(eps),
                _ => return None,
            };
            return Some(Derived { base, statistic });
        }
        if let Some(binary) = op.downcast_ref::<Binary>() {
            return self.binary(binary.kind, first, node.inputs[1]);
        }
        let is_moved = op.is::<Broadcast>() || op.is::<Reshape>();
        let derived = self.get(first)?;
        let is_number = matches!(
            derived.statistic,
            Statistic::Sum
                | Statistic::Mean
                | Statistic::SquareSum
                | Statistic::Variance(_)
                | Statistic::Deviation(_)
                | Statistic::Reciprocal(_)
        );
        // Casts to other float dtypes only round, such as the casts that exporters write.
        let output = node.outputs[0];
        let is_cast = op.is::<Cast>() && self.graph.ty(output).dtype.is_float();
        let keeps = || keeps_lines(self.graph, derived.base, (first, output), op.is::<Broadcast>());
        (is_cast || op.is::<Identity>() || (is_moved && is_number && keeps())).then_some(derived)
    }

    fn reduced(&self, reduce: &Reduce, of: ValueId) -> Option<Derived> {
        let rank = self.graph.ty(of).rank();
        if reduce.kind != ReduceKind::Sum || rank == 0 || reduce.axes != [rank - 1] {
            return None;
        }
        match self.get(of) {
            Some(Derived {
                base,
                statistic: Statistic::Square,
            }) => Some(Derived {
                base,
                statistic: Statistic::SquareSum,
            }),
            _ => Some(Derived {
                base: of,
                statistic: Statistic::Sum,
            }),
        }
    }

    fn binary(&self, kind: BinaryKind, a: ValueId, b: ValueId) -> Option<Derived> {
        match kind {
            BinaryKind::Add => self.sum(a, b).or_else(|| self.sum(b, a)),
            BinaryKind::Sub => {
                let Derived { base, statistic } = self.get(b)?;
                let is_centred = statistic == Statistic::Mean && self.origin(a) == self.origin(base);
                is_centred.then_some(Derived {
                    base,
                    statistic: Statistic::Centred,
                })
            }
            BinaryKind::Mul => self.product(a, b).or_else(|| self.product(b, a)),
            BinaryKind::Div => self.quotient(a, b),
            BinaryKind::Pow => {
                let Derived { base, statistic } = self.get(a)?;
                let is_square = statistic == Statistic::Centred && self.known[b.index()] == Some(2.0);
                is_square.then_some(Derived {
                    base,
                    statistic: Statistic::Square,
                })
            }
            BinaryKind::Max | BinaryKind::Min => None,
        }
    }

    fn sum(&self, a: ValueId, b: ValueId) -> Option<Derived> {
        let Derived { base, statistic } = self.get(a)?;
        let statistic = match statistic {
            Statistic::Variance(eps) => Statistic::Variance(eps + self.known[b.index()]?),
            Statistic::Normal(eps) => Statistic::Shifted(eps, row(self.graph, base, b)?, None),
            Statistic::Scaled(eps, scale) => Statistic::Shifted(eps, row(self.graph, base, b)?, Some(scale)),
            _ => return None,
        };
        Some(Derived { base, statistic })
    }

    fn product(&self, a: ValueId, b: ValueId) -> Option<Derived> {
        let Derived { base, statistic } = self.get(a)?;
        let other = self.get(b).filter(|other| other.base == base);
        let width = self.graph.ty(base).last() as f64;
        let is_share = || self.known[b.index()].is_some_and(|x| (x * width - 1.0).abs() < 1e-6);
        let statistic = match (statistic, other.map(|other| other.statistic)) {
            (Statistic::Centred, Some(Statistic::Centred)) => Statistic::Square,
            (Statistic::Centred, Some(Statistic::Reciprocal(eps))) => Statistic::Normal(eps),
            (Statistic::Sum, None) if is_share() => Statistic::Mean,
            (Statistic::SquareSum, None) if is_share() => Statistic::Variance(0.0),
            (Statistic::Normal(eps), None) => Statistic::Scaled(eps, row(self.graph, base, b)?),
            _ => return None,
        };
        Some(Derived { base, statistic })
    }

    fn quotient(&self, a: ValueId, b: ValueId) -> Option<Derived> {
        let Derived { base, statistic } = self.get(a)?;
        let width = self.graph.ty(base).last() as f64;
        let is_width = self.known[b.index()] == Some(width);
        let other = self.get(b).filter(|other| other.base == base);
        let statistic = match (statistic, other.map(|other| other.statistic)) {
            (Statistic::Centred, Some(Statistic::Deviation(eps))) => Statistic::Normal(eps),
            (Statistic::Sum, None) if is_width => Statistic::Mean,
            (Statistic::SquareSum, None) if is_width => Statistic::Variance(0.0),
            _ => return None,
        };
        Some(Derived { base, statistic })
    }

    /// The value before casts.
    fn origin(&self, mut value: ValueId) -> ValueId {
        while let Some(node) = self.graph.producer(value) {
            let node = &self.graph.nodes[node.index()];
            if !node.op.is::<Cast>() && !node.op.is::<Identity>() {
                break;
            }
            value = node.inputs[0];
        }
        value
    }
}
