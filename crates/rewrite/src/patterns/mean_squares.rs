//! RMSNorm and CRMSNorm that are written in primitive operations, as exporters and `convert` write them.
//!
//! Each value gets a *form*, as in the patterns of LayerNorm. Here it is what the value is of the runs of another one,
//! its base, without their means.

use std::sync::Arc;

use lessen_graph::ops::{
    Binary, BinaryKind, Broadcast, Cast, CrmsNorm, Identity, Reduce, ReduceKind, Reshape, RmsNorm, Unary, UnaryKind,
};
use lessen_graph::{Graph, Node, NodeId, Op, ValueId};

use super::replace::replaced;
use super::runs::{Norm, keeps_runs, known_numbers, row};

/// What a value is of the runs of its base. All but the last three have one number for each run.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// The sum of the elements.
    Sum,
    /// The square of the sum.
    SquaredSum,
    /// The sum of the squares of the elements, and the square of the sum where the form has one.
    SquareSum,
    /// The mean of the squares, and what is added to it.
    MeanSquare(f64),
    /// The square root of that.
    Root(f64),
    /// The reciprocal of the root.
    Reciprocal(f64),
    /// The square of each element.
    Square,
    /// The elements, divided by the root.
    Normal(f64),
    /// The same, times a number for each position.
    Scaled(f64, ValueId),
}

impl Kind {
    fn is_number(self) -> bool {
        !matches!(self, Kind::Square | Kind::Normal(_) | Kind::Scaled(..))
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Form {
    base: ValueId,
    kind: Kind,
    /// The square of the sum, where the last element is left out: it stands for the square of that one.
    last: Option<ValueId>,
}

impl Form {
    fn of(base: ValueId, kind: Kind) -> Form {
        Form { base, kind, last: None }
    }

    fn with(self, kind: Kind) -> Form {
        Form { kind, ..self }
    }
}

/// The graph in which RMSNorms and CRMSNorms of primitive operations are operations.
pub(super) fn recognize_mean_squares(graph: &Graph) -> Graph {
    let forms = Forms::of(graph);
    replaced(graph, |node| forms.norm(node.outputs[0])).0
}

struct Forms<'g> {
    graph: &'g Graph,
    forms: Vec<Option<Form>>,
    known: Vec<Option<f64>>,
    readers: Vec<Vec<NodeId>>,
    /// Whether a result of the graph is this value.
    is_result: Vec<bool>,
}

impl Forms<'_> {
    fn of(graph: &Graph) -> Forms<'_> {
        let mut is_result = vec![false; graph.values.len()];
        let outputs = graph.outputs.iter().map(|output| output.value);
        let assigned = graph.assigns.iter().map(|assign| assign.value);
        outputs
            .chain(assigned)
            .for_each(|value| is_result[value.index()] = true);
        let mut forms = Forms {
            graph,
            forms: vec![None; graph.values.len()],
            known: known_numbers(graph),
            readers: graph.readers(),
            is_result,
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
        let Form { base, kind, last } = self.get(value)?;
        let (eps, scale) = match kind {
            Kind::Normal(eps) => (eps, None),
            Kind::Scaled(eps, scale) => (eps, Some(scale)),
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
                match self.get(output).map(|form| form.kind) {
                    Some(Kind::Sum) if !node.op.is::<Reduce>() => sums.push(output),
                    Some(Kind::SquaredSum) => {}
                    _ => return false,
                }
            }
        }
        true
    }

    /// The reductions from which the square of a sum follows.
    fn reductions(&self, square: ValueId) -> Vec<ValueId> {
        let (mut values, mut found) = (vec![square], Vec::new());
        while let Some(value) = values.pop() {
            let producer = self.graph.producer(value).expect("a form has a node");
            let node = &self.graph.nodes[producer.index()];
            if node.op.is::<Reduce>() {
                found.push(value);
                continue;
            }
            let sums = node.inputs.iter().filter(|input| {
                let kind = self.get(**input).map(|form| form.kind);
                matches!(kind, Some(Kind::Sum | Kind::SquaredSum))
            });
            values.extend(sums);
        }
        found
    }

    fn form(&self, node: &Node) -> Option<Form> {
        let op = node.op.as_ref();
        let first = *node.inputs.first()?;
        if let Some(reduce) = op.downcast_ref::<Reduce>() {
            return self.reduced(reduce, first);
        }
        if let Some(unary) = op.downcast_ref::<Unary>() {
            let form = self.get(first)?;
            let kind = match (unary.kind, form.kind) {
                (UnaryKind::Sqrt, Kind::MeanSquare(eps)) => Kind::Root(eps),
                (UnaryKind::Rsqrt, Kind::MeanSquare(eps)) => Kind::Reciprocal(eps),
                (UnaryKind::Recip, Kind::Root(eps)) => Kind::Reciprocal(eps),
                _ => return None,
            };
            return Some(form.with(kind));
        }
        if let Some(binary) = op.downcast_ref::<Binary>() {
            return self.binary(binary.kind, first, node.inputs[1]);
        }
        let form = self.get(first)?;
        let output = node.outputs[0];
        let keeps = if op.is::<Cast>() {
            // A narrower type than that of the base would round.
            self.graph.ty(output).dtype.holds_all_of(self.graph.ty(form.base).dtype)
        } else if op.is::<Broadcast>() || op.is::<Reshape>() {
            form.kind.is_number() && keeps_runs(self.graph, form.base, (first, output), op.is::<Broadcast>())
        } else {
            op.is::<Identity>()
        };
        keeps.then_some(form)
    }

    fn reduced(&self, reduce: &Reduce, of: ValueId) -> Option<Form> {
        let rank = self.graph.ty(of).rank();
        if reduce.kind != ReduceKind::Sum || rank == 0 || reduce.axes != [rank - 1] {
            return None;
        }
        let squares = self.get(of).filter(|form| form.kind == Kind::Square);
        Some(match squares {
            Some(form) => form.with(Kind::SquareSum),
            None => Form::of(of, Kind::Sum),
        })
    }

    fn binary(&self, kind: BinaryKind, a: ValueId, b: ValueId) -> Option<Form> {
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

    fn sum(&self, a: ValueId, b: ValueId) -> Option<Form> {
        let form = self.get(a)?;
        match form.kind {
            Kind::MeanSquare(eps) => Some(form.with(Kind::MeanSquare(eps + self.known[b.index()]?))),
            Kind::SquareSum if form.last.is_none() => {
                let other = self.get(b)?;
                let is_last = other.kind == Kind::SquaredSum && self.is_same(other.base, form.base);
                let last = Some(b);
                is_last.then_some(Form { last, ..form })
            }
            _ => None,
        }
    }

    fn square(&self, a: ValueId, b: ValueId) -> Option<Form> {
        let sums = [a, b].map(|value| self.get(value).filter(|form| form.kind == Kind::Sum));
        if let [Some(one), Some(other)] = sums
            && self.is_same(one.base, other.base)
        {
            return Some(one.with(Kind::SquaredSum));
        }
        self.is_same(a, b).then_some(Form::of(a, Kind::Square))
    }

    fn power(&self, a: ValueId, exponent: f64) -> Option<Form> {
        let form = self.get(a);
        match (exponent, form.map(|form| form.kind)) {
            (2.0, Some(Kind::Sum)) => Some(form?.with(Kind::SquaredSum)),
            (2.0, _) => Some(Form::of(a, Kind::Square)),
            (0.5, Some(Kind::MeanSquare(eps))) => Some(form?.with(Kind::Root(eps))),
            (-0.5, Some(Kind::MeanSquare(eps))) => Some(form?.with(Kind::Reciprocal(eps))),
            _ => None,
        }
    }

    fn product(&self, a: ValueId, b: ValueId) -> Option<Form> {
        let form = self.get(a)?;
        let kind = match form.kind {
            Kind::SquareSum => {
                let share = self.known[b.index()]? * self.extent(form);
                ((share - 1.0).abs() < 1e-6).then_some(Kind::MeanSquare(0.0))?
            }
            Kind::Reciprocal(eps) if self.is_same(b, form.base) => Kind::Normal(eps),
            Kind::Normal(eps) => Kind::Scaled(eps, row(self.graph, form.base, b)?),
            _ => return None,
        };
        Some(form.with(kind))
    }

    fn quotient(&self, a: ValueId, b: ValueId) -> Option<Form> {
        if let Some(form) = self.get(a)
            && form.kind == Kind::SquareSum
        {
            let is_mean = self.known[b.index()] == Some(self.extent(form));
            return is_mean.then_some(form.with(Kind::MeanSquare(0.0)));
        }
        let form = self.get(b)?;
        let kind = match form.kind {
            Kind::Root(eps) if self.is_same(a, form.base) => Kind::Normal(eps),
            Kind::Root(eps) if self.known[a.index()] == Some(1.0) => Kind::Reciprocal(eps),
            _ => return None,
        };
        Some(form.with(kind))
    }

    /// The elements whose squares a sum has: one more than a run where the last one is left out.
    fn extent(&self, form: Form) -> f64 {
        self.graph.ty(form.base).last() as f64 + f64::from(u8::from(form.last.is_some()))
    }

    /// Whether two values are one but for casts that are computed twice.
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
