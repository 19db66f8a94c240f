//! Storage formats: how `f32` values are rounded while they are kept for backward, at a bounded error.

use std::sync::Arc;

use lessen_graph::ops::{Cast, DequantizeRows, QuantizeRows};
use lessen_graph::{DType, Graph, Op, Type, ValueId};

/// A shorter row has no scale of its own.
const SHORTEST_ROW: usize = 16;

/// How a value that backward reads as `f32` is stored while it is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StorageFormat {
    /// `bf16`.
    Bf16,
    /// 8 bits, with a scale for each row. Rows of a few elements are stored as `bf16`.
    Int8,
}

impl StorageFormat {
    /// All storage formats, the most exact one first.
    pub const ALL: [StorageFormat; 2] = [StorageFormat::Bf16, StorageFormat::Int8];

    /// The greatest error: relative to the value in `bf16`, and to the greatest magnitude of its row in 8 bits.
    pub const fn error(self) -> f64 {
        match self {
            StorageFormat::Bf16 => 1.0 / 512.0,
            StorageFormat::Int8 => QuantizeRows::ERROR,
        }
    }

    /// The storage format of a value where others have this one. None for a value that is no `f32`, and for statistics
    /// beside an operation's first result: they may be infinite, and exponents are computed from them.
    pub(crate) fn of_value(self, graph: &Graph, value: ValueId) -> Option<StorageFormat> {
        let producer = graph.producer(value).map(|id| &graph.nodes[id.index()]);
        let is_first = producer.is_none_or(|node| node.outputs[0] == value);
        self.of(graph.ty(value)).filter(|_| is_first)
    }

    /// The storage format of a value of this type where others have this one; none for a value that is no `f32`.
    fn of(self, ty: &Type) -> Option<StorageFormat> {
        let has_rows = !ty.shape.is_empty() && ty.last() >= SHORTEST_ROW;
        match self {
            _ if ty.dtype != DType::F32 => None,
            StorageFormat::Int8 if !has_rows => Some(StorageFormat::Bf16),
            format => Some(format),
        }
    }

    /// Bytes of a value where others have this storage format.
    pub(crate) fn bytes(self, graph: &Graph, value: ValueId) -> usize {
        let ty = graph.ty(value);
        match self.of_value(graph, value) {
            None => ty.bytes(),
            Some(StorageFormat::Bf16) => ty.bytes() / 2,
            Some(StorageFormat::Int8) => ty.numel() + 4 * (ty.numel() / ty.last()),
        }
    }

    /// The operation that stores a value.
    pub(crate) fn store(self) -> Arc<dyn Op> {
        match self {
            StorageFormat::Bf16 => Arc::new(Cast { dtype: DType::BF16 }),
            StorageFormat::Int8 => Arc::new(QuantizeRows),
        }
    }

    /// The operation that restores a value.
    pub(crate) fn restore(self) -> Arc<dyn Op> {
        match self {
            StorageFormat::Bf16 => Arc::new(Cast { dtype: DType::F32 }),
            StorageFormat::Int8 => Arc::new(DequantizeRows),
        }
    }
}
