//! Reductions over axes: sum, maximum, minimum.

use lessen_base::{Error, Result};

use crate::along::{Along, AlongQuery};
use crate::array::{Array, for_each_index};
use crate::op::{OnRows, Op, OutRole, Role, RowWise, Vjp};
use crate::ops::rules::{arity, float};
use crate::tensor::Tensor;
use crate::types::Type;

/// The reduction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReduceKind {
    /// The sum.
    Sum,
    /// The largest; NaN if any is.
    Max,
    /// The smallest; NaN if any is.
    Min,
}

impl ReduceKind {
    /// All of them.
    pub const ALL: [ReduceKind; 3] = [ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min];

    /// Name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            ReduceKind::Sum => "sum",
            ReduceKind::Max => "max",
            ReduceKind::Min => "min",
        }
    }
}

function_names!(ReduceKind);

/// Reduces over axes, which vanish from the shape.
#[derive(Clone, PartialEq, Debug)]
pub struct Reduce {
    /// The reduction.
    pub kind: ReduceKind,
    /// Axes, ascending.
    pub axes: Vec<usize>,
}

impl Reduce {
    fn kept(&self, shape: &[usize]) -> Vec<usize> {
        (0..shape.len())
            .filter(|a| !self.axes.contains(a))
            .map(|a| shape[a])
            .collect()
    }

    /// The shape with the reduced axes at extent 1.
    fn with_ones(&self, shape: &[usize]) -> Vec<usize> {
        (0..shape.len())
            .map(|a| if self.axes.contains(&a) { 1 } else { shape[a] })
            .collect()
    }
}

named!("reduce": Reduce { kind as "f", axes });

impl Op for Reduce {
    named!();

    facts! { never_in_place; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        float(&inputs[0])?;
        let rank = inputs[0].rank();
        if self.axes.windows(2).any(|w| w[0] >= w[1]) || self.axes.iter().any(|&a| a >= rank) {
            return Err(Error::user(format!(
                "the axes {:?} are not ascending axes of {}",
                self.axes, inputs[0]
            )));
        }
        if self.kind != ReduceKind::Sum && self.axes.iter().any(|&a| inputs[0].shape[a] == 0) {
            return Err(Error::user(format!(
                "{} of no elements: {}",
                self.kind.name(),
                inputs[0]
            )));
        }
        Ok(vec![Type::new(inputs[0].dtype, &self.kept(&inputs[0].shape))])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let start = match self.kind {
            ReduceKind::Sum => 0.0,
            ReduceKind::Max => f64::NEG_INFINITY,
            ReduceKind::Min => f64::INFINITY,
        };
        let x = inputs[0];
        let mut y = Array::full(outputs[0].clone(), start);
        let mut position = 0;
        for_each_index(&x.ty.shape, |index| {
            let to: Vec<usize> = (0..index.len())
                .filter(|a| !self.axes.contains(a))
                .map(|a| index[a])
                .collect();
            let to = y.offset(&to);
            let (a, b) = (y.data[to], x.data[position]);
            y.data[to] = match self.kind {
                ReduceKind::Sum => a + b,
                _ if a.is_nan() || b.is_nan() => f64::NAN,
                ReduceKind::Max => a.max(b),
                ReduceKind::Min => a.min(b),
            };
            position += 1;
        });
        vec![y]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let (x, y) = (cx.inputs[0], cx.outputs[0]);
        let shape = x.shape();
        let ones = self.with_ones(&shape);
        vec![cx.cotangents[0].map(|dy| {
            let dy = dy.reshape(&ones).broadcast_to(&shape);
            if self.kind == ReduceKind::Sum {
                return dy;
            }
            // The elements that attain the extremum share the cotangent.
            let hit = x.eq(y.reshape(&ones)).cast(x.dtype());
            dy * hit / hit.sum_axes(&self.axes).reshape(&ones)
        })]
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        let mut kept = (0..query.inputs[0].rank()).filter(|axis| !self.axes.contains(axis));
        match (self.kind, kept.nth(query.axis)) {
            (ReduceKind::Sum, Some(axis)) => query.of_first(axis),
            _ => Along::Unknown,
        }
    }

    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        let rank = inputs[0].rank();
        let n = self.axes.len();
        let trailing = n > 0 && self.axes[0] == rank - n && n < rank;
        let leading = n > 0 && self.axes[n - 1] == n - 1 && self.kind == ReduceKind::Sum;
        if trailing {
            let rows = inputs[0].shape[..rank - n].iter().product();
            RowWise::by_rows(rows, &[Role::Rows], &[OutRole::Rows])
        } else if leading {
            // All axes reduced: the last axis is summed within a row, the others over rows.
            let lead = if n == rank { n - 1 } else { n };
            let rows = inputs[0].shape[..lead].iter().product();
            RowWise::by_rows(rows, &[Role::Rows], &[OutRole::Sum])
        } else {
            RowWise::No
        }
    }

    fn on_rows(&self, _: &[bool], inputs: &[Type]) -> OnRows {
        // A sum over all elements does not depend on rows of zeros.
        if self.kind == ReduceKind::Sum && self.axes.first() == Some(&0) && self.axes.len() == inputs[0].rank() {
            OnRows::Whole
        } else {
            OnRows::No
        }
    }
}

impl Tensor {
    #[track_caller]
    fn reduce(self, kind: ReduceKind, axes: &[usize]) -> Tensor {
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        self.trace().apply1(Reduce { kind, axes }, &[self])
    }

    /// The sum over these axes, which vanish.
    #[track_caller]
    pub fn sum_axes(self, axes: &[usize]) -> Tensor {
        self.reduce(ReduceKind::Sum, axes)
    }

    /// The sum of all elements.
    #[track_caller]
    pub fn sum(self) -> Tensor {
        self.sum_axes(&(0..self.rank()).collect::<Vec<_>>())
    }

    /// The mean of all elements.
    #[track_caller]
    pub fn mean(self) -> Tensor {
        self.sum() / self.ty().numel() as f64
    }

    /// The mean over these axes, which vanish.
    #[track_caller]
    pub fn mean_axes(self, axes: &[usize]) -> Tensor {
        let (sum, shape) = (self.sum_axes(axes), self.shape());
        let count: usize = axes.iter().map(|&a| shape[a]).product();
        sum / count as f64
    }

    /// The maximum over these axes, which vanish.
    #[track_caller]
    pub fn max_axes(self, axes: &[usize]) -> Tensor {
        self.reduce(ReduceKind::Max, axes)
    }

    /// The minimum over these axes, which vanish.
    #[track_caller]
    pub fn min_axes(self, axes: &[usize]) -> Tensor {
        self.reduce(ReduceKind::Min, axes)
    }
}

impl Tensor {
    /// The sum along the last axis, which stays with extent 1.
    #[track_caller]
    pub fn sum_last(self) -> Tensor {
        self.sum_axes(&[self.axis(-1)]).unsqueeze(-1)
    }

    /// The mean along the last axis, which stays with extent 1.
    #[track_caller]
    pub fn mean_last(self) -> Tensor {
        self.sum_last() / self.dim(-1) as f64
    }

    /// The maximum along the last axis, which stays with extent 1.
    #[track_caller]
    pub fn max_last(self) -> Tensor {
        self.max_axes(&[self.axis(-1)]).unsqueeze(-1)
    }

    /// The sum over all axes but the last.
    #[track_caller]
    pub fn sum_rows(self) -> Tensor {
        self.sum_axes(&(0..self.axis(-1)).collect::<Vec<_>>())
    }
}
