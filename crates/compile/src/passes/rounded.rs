//! Forms in which values of `f32` are kept between the phases at a bounded error.

use std::sync::Arc;

use lessen_graph::ops::{Cast, DequantizeRows, QuantizeRows};
use lessen_graph::{DType, Graph, Op, Type, ValueId};

/// The least elements of a row that has a scale of its own.
const SHORTEST_ROW: usize = 16;

/// A form in which a value is kept that backward reads as `f32`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Form {
    /// `bf16`.
    Bf16,
    /// 8 bits, with a scale for each row. Rows of a few elements are kept as `bf16`.
    Int8,
}

impl Form {
    /// All forms, the most exact one first.
    pub const ALL: [Form; 2] = [Form::Bf16, Form::Int8];

    /// The greatest error, relative to the value in `bf16`, and to the greatest magnitude of its row in 8 bits.
    pub const fn error(self) -> f64 {
        match self {
            Form::Bf16 => 1.0 / 512.0,
            Form::Int8 => QuantizeRows::ERROR,
        }
    }

    /// The form in which a value is kept where others are in this one; none for one that is no `f32`, and for
    /// statistics beside an operation's first result: they may be infinite, and exponents are made of them.
    pub(crate) fn of_value(self, graph: &Graph, value: ValueId) -> Option<Form> {
        let producer = graph.producer(value).map(|id| &graph.nodes[id.index()]);
        let is_first = producer.is_none_or(|node| node.outputs[0] == value);
        self.of(graph.ty(value)).filter(|_| is_first)
    }

    /// The form in which a value of this type is kept where others are in this one; none for one that is no `f32`.
    fn of(self, ty: &Type) -> Option<Form> {
        let has_rows = !ty.shape.is_empty() && ty.last() >= SHORTEST_ROW;
        match self {
            _ if ty.dtype != DType::F32 => None,
            Form::Int8 if !has_rows => Some(Form::Bf16),
            form => Some(form),
        }
    }

    /// Bytes of a value where others are kept in this form.
    pub(crate) fn bytes(self, graph: &Graph, value: ValueId) -> usize {
        let ty = graph.ty(value);
        match self.of_value(graph, value) {
            None => ty.bytes(),
            Some(Form::Bf16) => ty.bytes() / 2,
            Some(Form::Int8) => ty.numel() + 4 * (ty.numel() / ty.last()),
        }
    }

    /// The operation that makes a value's form.
    pub(crate) fn store(self) -> Arc<dyn Op> {
        match self {
            Form::Bf16 => Arc::new(Cast { dtype: DType::BF16 }),
            Form::Int8 => Arc::new(QuantizeRows),
        }
    }

    /// The operation that makes a value of its form.
    pub(crate) fn restore(self) -> Arc<dyn Op> {
        match self {
            Form::Bf16 => Arc::new(Cast { dtype: DType::F32 }),
            Form::Int8 => Arc::new(DequantizeRows),
        }
    }
}
