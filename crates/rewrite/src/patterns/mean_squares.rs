//! RMSNorm and CRMSNorm in primitive operations, as exporters and `convert` write them.
//!
//! Values are derived from a base value, as in the patterns of LayerNorm, but without means.

use std::sync::Arc;

use lessen_graph::ops::{
    Binary, BinaryKind, Broadcast, Cast, CrmsNorm, Identity, Reduce, ReduceKind, Reshape, RmsNorm, Unary, UnaryKind,
};
use lessen_graph::{Graph, Node, NodeId, Op, ValueId};

use super::norm_parts::{Norm, keeps_lines, known_numbers, row};
use super::replace::replaced;

/// The statistic that a derived value is. All but the last three statistics have one number for each row.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Statistic {
    /// The sum of the elements.
    Sum,
    /// The square of the sum.
    SquaredSum,
    /// The sum of the squares of the elements; plus the square of their sum, where [`Derived::last`] is set.
    SquareSum,
    /// The mean of the squares, plus the given number.
    MeanSquare(f64),
    /// The square root of the mean of the squares plus the given number.
    Root(f64),
    /// The reciprocal of the root.
    Reciprocal(f64),
    /// The square of each element.
    Square,
    /// The elements, divided by the root.
    Normal(f64),
    /// The elements divided by the root, times a row of parameters.
    Scaled(f64, ValueId),
}

impl Statistic {
    fn is_number(self) -> bool {
        !matches!(self, Statistic::Square | Statistic::Normal(_) | Statistic::Scaled(..))
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Derived {
    base: ValueId,
    statistic: Statistic,
    /// The square of the sum, where rows lack their last element: it stands for the square of that element.
    last: Option<ValueId>,
}

impl Derived {
    fn of(base: ValueId, statistic: Statistic) -> Derived {
        Derived {
            base,
            statistic,
            last: None,
        }
    }

    fn with(self, statistic: Statistic) -> Derived {
        Derived { statistic, ..self }
    }
}

/// Replaces RMSNorms and CRMSNorms of primitive operations by one operation each.
pub(super) fn recognize_mean_squares(graph: &Graph) -> Graph {
    let finder = MeanSquareFinder::of(graph);
    replaced(graph, |node| finder.norm(node.outputs[0])).0
}

struct MeanSquareFinder<'g> {
    graph: &'g Graph,
    derived: Vec<Option<Derived>>,
    known: Vec<Option<f64>>,
    readers: Vec<Vec<NodeId>>,
    /// For each value whether it is a result of the graph.
    is_result: Vec<bool>,
}

impl MeanSquareFinder<'_> {
    fn of(graph: &Graph) -> MeanSquareFinder<'_> {
        let mut is_result = vec![false; graph.values.len()];
        let outputs = graph.outputs.iter().map(|output| output.value);
        let assigned = graph.assigns.iter().map(|assign| assign.value);
        outputs
            .chain(assigned)
            .for_each(|value| is_result[value.index()] = true);
        let mut finder = MeanSquareFinder {
            graph,
            derived: vec![None; graph.values.len()],
            known: known_numbers(graph),
            readers: graph.readers(),
            is_result,
        };
        for node in &graph.nodes {
            finder.derived[node.outputs[0].index()] = finder.derive(node);
        }
        finder
    }

    fn get(&self, value: ValueId) -> Option<Derived> {
        self.derived[value.index()]
    }

    /// The norm that a value is, if it is one.
    fn norm(&self, value: ValueId) -> Option<Norm> {
        let Derived { base, statistic, last } = self.get(value)?;
        let (eps, scale) = match statistic {
            Statistic::Normal(eps) => (eps, None),
            Statistic::Scaled(eps, scale) => (eps, Some(scale)),
            _ => return None,
        };
        let op: Arc<dyn Op> = match last {
            Some(square) if self.is_apart(square) => Arc::new(CrmsNorm { eps }),
            Some(_) => return None,
            None => Arc::new(RmsNorm { eps }),
        };
        let is_same = self.graph.ty(value) == self.graph.ty(base);
        is_same.then(|| Norm {
            op,
            base,
            rows: vec![(scale, 1.0)],
        })
    }

    /// Whether nothing but squares reads the sums whose square a value is.
    fn is_apart(&self, square: ValueId) -> bool {
        let mut sums = self.reductions(square);
        while let Some(sum) = sums.pop() {
            if self.is_result[sum.index()] {
                return false;
            }
            for reader in &self.readers[sum.index()] {
                let node = &self.graph.nodes[reader.index()];
                let output = node.outputs[0];
                match self.get(output).map(|derived| derived.statistic) {
                    Some(Statistic::Sum) if !node.op.is::<Reduce>() => sums.push(output),
                    Some(Statistic::SquaredSum) => {}
                    _ => return false,
                }
            }
        }
        true
    }

    /// The reductions that the square of a sum is computed from.
    fn reductions(&self, square: ValueId) -> Vec<ValueId> {
        let (mut values, mut found) = (vec![square], Vec::new());
        while let Some(value) = values.pop() {
            let producer = self.graph.producer(value).expect("a derived value has a node");
            let node = &self.graph.nodes[producer.index()];
            if node.op.is::<Reduce>() {
                found.push(value);
                continue;
            }
            let sums = node.inputs.iter().filter(|input| {
                let statistic = self.get(**input).map(|derived| derived.statistic);
                matches!(statistic, Some(Statistic::Sum | Statistic::SquaredSum))
            });
            values.extend(sums);
        }
        found
    }

    fn derive(&self, node: &Node) -> Option<Derived> {
        let op = node.op.as_ref();
        let first = *node.inputs.first()?;
        if let Some(reduce) = op.downcast_ref::<Reduce>() {
            return self.reduced(reduce, first);
        }
        if let Some(unary) = op.downcast_ref::<Unary>() {
            let derived = self.get(first)?;
            let statistic = match (unary.kind, derived.statistic) {
                (UnaryKind::Sqrt, Statistic::MeanSquare(eps)) => Statistic::Root(eps),
                (UnaryKind::Rsqrt, Statistic::MeanSquare(eps)) => Statistic::Reciprocal(eps),
                (UnaryKind::Recip, Statistic::Root(eps)) => Statistic::Reciprocal(eps),
                _ => return None,
            };
            return Some(derived.with(statistic));
        }
        if let Some(binary) = op.downcast_ref::<Binary>() {
            return self.binary(binary.kind, first, node.inputs[1]);
        }
        let derived = self.get(first)?;
        let output = node.outputs[0];
        let keeps = if op.is::<Cast>() {
            // A narrower type than that of the base would round.
            self.graph
                .ty(output)
                .dtype
                .holds_all_of(self.graph.ty(derived.base).dtype)
        } else if op.is::<Broadcast>() || op.is::<Reshape>() {
            derived.statistic.is_number()
                && keeps_lines(self.graph, derived.base, (first, output), op.is::<Broadcast>())
        } else {
            op.is::<Identity>()
        };
        keeps.then_some(derived)
    }

    fn reduced(&self, reduce: &Reduce, of: ValueId) -> Option<Derived> {
        let rank = self.graph.ty(of).rank();
        if reduce.kind != ReduceKind::Sum || rank == 0 || reduce.axes != [rank - 1] {
            return None;
        }
        let squares = self.get(of).filter(|derived| derived.statistic == Statistic::Square);
        Some(match squares {
            Some(derived) => derived.with(Statistic::SquareSum),
            None => Derived::of(of, Statistic::Sum),
        })
    }

    fn binary(&self, kind: BinaryKind, a: ValueId, b: ValueId) -> Option<Derived> {
        match kind {
            BinaryKind::Add => self.sum(a, b).or_else(|| self.sum(b, a)),
            BinaryKind::Mul => self
                .square(a, b)
                .or_else(|| self.product(a, b))
                .or_else(|| self.product(b, a)),
            BinaryKind::Div => self.quotient(a, b),
            BinaryKind::Pow => self.power(a, self.known[b.index()]?),
            BinaryKind::Sub | BinaryKind::Max | BinaryKind::Min => None,
        }
    }

    fn sum(&self, a: ValueId, b: ValueId) -> Option<Derived> {
        let derived = self.get(a)?;
        match derived.statistic {
            Statistic::MeanSquare(eps) => Some(derived.with(Statistic::MeanSquare(eps + self.known[b.index()]?))),
            Statistic::SquareSum if derived.last.is_none() => {
                let other = self.get(b)?;
                let is_last = other.statistic == Statistic::SquaredSum && self.is_same(other.base, derived.base);
                let last = Some(b);
                is_last.then_some(Derived { last, ..derived })
            }
            _ => None,
        }
    }

    fn square(&self, a: ValueId, b: ValueId) -> Option<Derived> {
        let sums = [a, b].map(|value| self.get(value).filter(|derived| derived.statistic == Statistic::Sum));
        if let [Some(one), Some(other)] = sums
            && self.is_same(one.base, other.base)
        {
            return Some(one.with(Statistic::SquaredSum));
        }
        self.is_same(a, b).then_some(Derived::of(a, Statistic::Square))
    }

    fn power(&self, a: ValueId, exponent: f64) -> Option<Derived> {
        let derived = self.get(a);
        match (exponent, derived.map(|derived| derived.statistic)) {
            (2.0, Some(Statistic::Sum)) => Some(derived?.with(Statistic::SquaredSum)),
            (2.0, _) => Some(Derived::of(a, Statistic::Square)),
            (0.5, Some(Statistic::MeanSquare(eps))) => Some(derived?.with(Statistic::Root(eps))),
            (-0.5, Some(Statistic::MeanSquare(eps))) => Some(derived?.with(Statistic::Reciprocal(eps))),
            _ => None,
        }
    }

    fn product(&self, a: ValueId, b: ValueId) -> Option<Derived> {
        let derived = self.get(a)?;
        let statistic = match derived.statistic {
            Statistic::SquareSum => {
                let share = self.known[b.index()]? * self.extent(derived);
                ((share - 1.0).abs() < 1e-6).then_some(Statistic::MeanSquare(0.0))?
            }
            Statistic::Reciprocal(eps) if self.is_same(b, derived.base) => Statistic::Normal(eps),
            Statistic::Normal(eps) => Statistic::Scaled(eps, row(self.graph, derived.base, b)?),
            _ => return None,
        };
        Some(derived.with(statistic))
    }

    fn quotient(&self, a: ValueId, b: ValueId) -> Option<Derived> {
        if let Some(derived) = self.get(a)
            && derived.statistic == Statistic::SquareSum
        {
            let is_mean = self.known[b.index()] == Some(self.extent(derived));
            return is_mean.then_some(derived.with(Statistic::MeanSquare(0.0)));
        }
        let derived = self.get(b)?;
        let statistic = match derived.statistic {
            Statistic::Root(eps) if self.is_same(a, derived.base) => Statistic::Normal(eps),
            Statistic::Root(eps) if self.known[a.index()] == Some(1.0) => Statistic::Reciprocal(eps),
            _ => return None,
        };
        Some(derived.with(statistic))
    }

    /// The number of elements whose squares are summed: one more than in a row where the last one is left out.
    fn extent(&self, derived: Derived) -> f64 {
        self.graph.ty(derived.base).last() as f64 + f64::from(u8::from(derived.last.is_some()))
    }

    /// Whether two values are equal because they are the same cast of equal values.
    fn is_same(&self, a: ValueId, b: ValueId) -> bool {
        if a == b || self.graph.ty(a) != self.graph.ty(b) {
            return a == b;
        }
        let source = |value: ValueId| {
            let node = &self.graph.nodes[self.graph.producer(value)?.index()];
            (node.op.is::<Cast>() || node.op.is::<Identity>()).then(|| node.inputs[0])
        };
        match [source(a), source(b)] {
            [Some(a), Some(b)] => self.is_same(a, b),
            _ => false,
        }
    }
}
