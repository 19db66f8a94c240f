//! Norm conversion: LayerNorm becomes RMSNorm or CRMSNorm where the mean that it subtracts is redundant (Jiang et al.
//! 2023, section 3.1).
//!
//! LayerNorm ignores a number that is added to all elements of its input. Where every reader of a value ignores it, or
//! passes it on to readers that do, the value may have any mean, so it may as well have mean zero. For that the
//! parameters that the value is linear in are recentred ahead of time: output projections, embeddings, patch
//! convolutions. A value that cannot be recentred ahead of time has its mean subtracted where it is computed, if that
//! saves more means than it costs. For CRMSNorm the last element of each value with mean zero is left out, since it
//! follows from the other elements.

mod apply;
mod centring;
mod conversion;
mod facts;
mod linear_readers;
mod parameters;
mod rewrite;

use std::collections::HashMap;

use lessen_graph::{Graph, NodeId, ValueId};

pub use apply::{Parameter, StoredFloat};
pub use conversion::{Conversion, ConvertedNorm, NormShift, NormTarget, UnconvertedNorm};
pub use facts::{Lines, NodeInput, Obstacle};
pub use parameters::{ParameterChanges, ParameterStep};

/// Facts beside a graph, and what its conversion may do.
pub struct NormOptions<'a> {
    /// The norm that norms are converted to.
    pub target: NormTarget,
    /// The number that all elements of a state equal, for states where it is known.
    pub known: HashMap<ValueId, f64>,
    /// Whether a state can get new values ahead of time.
    pub is_parameter: &'a dyn Fn(ValueId) -> bool,
    /// Whether a mean may be subtracted from a value where it is computed.
    pub can_recentre: &'a dyn Fn(ValueId) -> bool,
    /// Whether a norm may be replaced by one that has no statistics as further results.
    pub can_convert: &'a dyn Fn(NodeId) -> bool,
}

impl NormOptions<'_> {
    /// No state is known, every mean may be subtracted, and every norm may be replaced.
    pub fn of(target: NormTarget) -> NormOptions<'static> {
        NormOptions {
            target,
            known: HashMap::new(),
            is_parameter: &|_| true,
            can_recentre: &|_| true,
            can_convert: &|_| true,
        }
    }
}

/// How many means may be subtracted in a converted graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// Fewer than the converted norms save.
    Fewer,
    /// Any number: every norm is converted for which that is possible.
    Any,
}

/// Converts the norms of the graph of a forward phase, whose parameters are states. Returns the new graph and the
/// conversion. States of the new graph have the values that [`Conversion::parameters`] computes from the states of the
/// old graph.
pub fn convert_norms(graph: &Graph, options: &NormOptions<'_>) -> (Graph, Conversion) {
    let facts = facts::Facts::of(graph, &options.known, options.is_parameter);
    let conversion = Conversion::of(&facts, options, (Means::Fewer, false));
    (rewrite::rewritten(graph, &conversion), conversion)
}

/// As [`convert_norms`], for parameters that keep their shapes and meaning, as training needs them: the only steps of
/// [`Conversion::parameters`] are [`ParameterStep::Centre`]. Scales and shifts of norms and branches stay where they
/// are, and for CRMSNorm the last element of a state is left out when the state is read.
pub fn convert_norms_in_place(graph: &Graph, options: &NormOptions<'_>, means: Means) -> (Graph, Conversion) {
    let facts = facts::Facts::of(graph, &options.known, options.is_parameter);
    let conversion = Conversion::of(&facts, options, (means, true));
    (rewrite::rewritten(graph, &conversion), conversion)
}
