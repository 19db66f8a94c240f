//! Forward values that need not be kept as they are, for plans and their reports.

use lessen_graph::ValueId;

/// A forward value that backward can recompute or invert.
#[derive(Clone, Debug)]
pub struct Recompute {
    /// The value, in the graph before recomputation.
    pub value: ValueId,
    /// Scope in the model and operation, such as `h.0.mlp gelu`.
    pub name: String,
    /// Bytes that recomputing frees between the phases.
    pub bytes: usize,
    /// Floating-point operations of the products that recomputing runs; 0 for a row-wise value, except at the end of a
    /// long chain, where the operations of the chain count.
    pub flops: f64,
    /// The declared error of an inverted value; 0 for a recomputed one, which is exact.
    pub error: f64,
}

/// A forward value that is kept as one bit for each element.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The truth values, in the graph before recomputation.
    pub value: ValueId,
    /// Scope in the model and operation, such as `h.0.mlp compare`.
    pub name: String,
    /// Bytes of the bits.
    pub bytes: usize,
    /// Bytes of the values that would be kept otherwise: the truth values, or their operands; 0 where another predicate
    /// counts these.
    pub freed: usize,
}
