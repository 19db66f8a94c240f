//! LayerNorm that is written in primitive operations, as older exporters of models write it.
//!
//! Each value gets a *form*: what it is of the runs of another value, its base, along the last axis. Operations lead
//! from form to form, so the order of factors, casts in between and values that are computed twice do not matter.

use std::sync::Arc;

use lessen_graph::ops::{
    Binary, BinaryKind, Broadcast, Cast, Identity, LayerNorm, Reduce, ReduceKind, Reshape, Unary, UnaryKind,
};
use lessen_graph::{Graph, Node, ValueId};

use super::replace::replaced;
use super::runs::{Norm, keeps_runs, known_numbers, row};

/// What a value is of the runs of its base. The first four have one number for each run.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// The sum of the elements.
    Sum,
    /// Their mean.
    Mean,
    /// The sum of the squares of what differs from the mean.
    SquareSum,
    /// The variance, and what is added to it.
    Variance(f64),
    /// The square root of a variance with what is added to it.
    Deviation(f64),
    /// The reciprocal of that.
    Reciprocal(f64),
    /// What differs from the mean.
    Centred,
    /// The square of that.
    Square,
    /// What differs from the mean, divided by the deviation.
    Normal(f64),
    /// The same, times a number for each position.
    Scaled(f64, ValueId),
    /// The same, and another one added.
    Shifted(f64, ValueId, Option<ValueId>),
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Form {
    base: ValueId,
    kind: Kind,
}

/// The graph in which LayerNorms of primitive operations are operations, without what nothing reads any more, and for
/// each old value the new one, if it is there.
pub fn recognize_norms(graph: &Graph) -> (Graph, Vec<Option<ValueId>>) {
    let forms = Forms::of(graph);
    replaced(graph, |node| forms.norm(node.outputs[0]))
}

struct Forms<'g> {
    graph: &'g Graph,
    forms: Vec<Option<Form>>,
    known: Vec<Option<f64>>,
}

impl Forms<'_> {
    fn of(graph: &Graph) -> Forms<'_> {
        let mut forms = Forms {
            graph,
            forms: vec![None; graph.values.len()],
            known: known_numbers(graph),
        };
        for node in &graph.nodes {
            forms.forms[node.outputs[0].index()] = forms.form(node);
        }
        forms
    }

    fn get(&self, value: ValueId) -> Option<Form> {
        self.forms[value.index()]
    }

    /// The norm that a value is.
    fn norm(&self, value: ValueId) -> Option<Norm> {
        let Form { base, kind } = self.get(value)?;
        let (eps, scale, shift) = match kind {
            Kind::Normal(eps) => (eps, None, None),
            Kind::Scaled(eps, scale) => (eps, Some(scale), None),
            Kind::Shifted(eps, shift, scale) => (eps, scale, Some(shift)),
            _ => return None,
        };
        let is_same = self.graph.ty(value) == self.graph.ty(base);
        is_same.then(|| Norm {
            op: Arc::new(LayerNorm { eps }),
            base,
            rows: vec![(scale, 1.0), (shift, 0.0)],
        })
    }

    fn form(&self, node: &Node) -> Option<Form> {
        let op = node.op.as_ref();
        let first = *node.inputs.first()?;
        if let Some(reduce) = op.downcast_ref::<Reduce>() {
            return self.reduced(reduce, first);
        }
        if let Some(unary) = op.downcast_ref::<Unary>() {
            let Form { base, kind } = self.get(first)?;
            let kind = match (unary.kind, kind) {
                (UnaryKind::Sqrt, Kind::Variance(eps)) => Kind::Deviation(eps),
                (UnaryKind::Rsqrt, Kind::Variance(eps)) => Kind::Reciprocal(eps),
                (UnaryKind::Recip, Kind::Deviation(eps)) => Kind::Reciprocal(eps),
                _ => return None,
            };
            return Some(Form { base, kind });
        }
        if let Some(binary) = op.downcast_ref::<Binary>() {
            return self.binary(binary.kind, first, node.inputs[1]);
        }
        let is_moved = op.is::<Broadcast>() || op.is::<Reshape>();
        let form = self.get(first)?;
        let is_number = matches!(
            form.kind,
            Kind::Sum | Kind::Mean | Kind::SquareSum | Kind::Variance(_) | Kind::Deviation(_) | Kind::Reciprocal(_)
        );
        // Casts to other floats round, as those of exporters do.
        let output = node.outputs[0];
        let is_cast = op.is::<Cast>() && self.graph.ty(output).dtype.is_float();
        let keeps = || keeps_runs(self.graph, form.base, (first, output), op.is::<Broadcast>());
        (is_cast || op.is::<Identity>() || (is_moved && is_number && keeps())).then_some(form)
    }

    fn reduced(&self, reduce: &Reduce, of: ValueId) -> Option<Form> {
        let rank = self.graph.ty(of).rank();
        if reduce.kind != ReduceKind::Sum || rank == 0 || reduce.axes != [rank - 1] {
            return None;
        }
        match self.get(of) {
            Some(Form {
                base,
                kind: Kind::Square,
            }) => Some(Form {
                base,
                kind: Kind::SquareSum,
            }),
            _ => Some(Form {
                base: of,
                kind: Kind::Sum,
            }),
        }
    }

    fn binary(&self, kind: BinaryKind, a: ValueId, b: ValueId) -> Option<Form> {
        match kind {
            BinaryKind::Add => self.sum(a, b).or_else(|| self.sum(b, a)),
            BinaryKind::Sub => {
                let Form { base, kind } = self.get(b)?;
                let is_centred = kind == Kind::Mean && self.origin(a) == self.origin(base);
                is_centred.then_some(Form {
                    base,
                    kind: Kind::Centred,
                })
            }
            BinaryKind::Mul => self.product(a, b).or_else(|| self.product(b, a)),
            BinaryKind::Div => self.quotient(a, b),
            BinaryKind::Pow => {
                let Form { base, kind } = self.get(a)?;
                let is_square = kind == Kind::Centred && self.known[b.index()] == Some(2.0);
                is_square.then_some(Form {
                    base,
                    kind: Kind::Square,
                })
            }
            BinaryKind::Max | BinaryKind::Min => None,
        }
    }

    fn sum(&self, a: ValueId, b: ValueId) -> Option<Form> {
        let Form { base, kind } = self.get(a)?;
        let kind = match kind {
            Kind::Variance(eps) => Kind::Variance(eps + self.known[b.index()]?),
            Kind::Normal(eps) => Kind::Shifted(eps, row(self.graph, base, b)?, None),
            Kind::Scaled(eps, scale) => Kind::Shifted(eps, row(self.graph, base, b)?, Some(scale)),
            _ => return None,
        };
        Some(Form { base, kind })
    }

    fn product(&self, a: ValueId, b: ValueId) -> Option<Form> {
        let Form { base, kind } = self.get(a)?;
        let other = self.get(b).filter(|other| other.base == base);
        let width = self.graph.ty(base).last() as f64;
        let is_share = || self.known[b.index()].is_some_and(|x| (x * width - 1.0).abs() < 1e-6);
        let kind = match (kind, other.map(|other| other.kind)) {
            (Kind::Centred, Some(Kind::Centred)) => Kind::Square,
            (Kind::Centred, Some(Kind::Reciprocal(eps))) => Kind::Normal(eps),
            (Kind::Sum, None) if is_share() => Kind::Mean,
            (Kind::SquareSum, None) if is_share() => Kind::Variance(0.0),
            (Kind::Normal(eps), None) => Kind::Scaled(eps, row(self.graph, base, b)?),
            _ => return None,
        };
        Some(Form { base, kind })
    }

    fn quotient(&self, a: ValueId, b: ValueId) -> Option<Form> {
        let Form { base, kind } = self.get(a)?;
        let width = self.graph.ty(base).last() as f64;
        let is_width = self.known[b.index()] == Some(width);
        let other = self.get(b).filter(|other| other.base == base);
        let kind = match (kind, other.map(|other| other.kind)) {
            (Kind::Centred, Some(Kind::Deviation(eps))) => Kind::Normal(eps),
            (Kind::Sum, None) if is_width => Kind::Mean,
            (Kind::SquareSum, None) if is_width => Kind::Variance(0.0),
            _ => return None,
        };
        Some(Form { base, kind })
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
