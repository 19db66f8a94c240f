//! Norms without a mean: LayerNorm becomes RMSNorm or CRMSNorm where the mean that it subtracts is redundant (Jiang et
//! al. 2023, section 3.1).
//!
//! LayerNorm ignores a number that is added to all elements of its input. Where every reader of a value ignores it, or
//! passes it on to one that does, the value may have any mean, so it may as well have mean zero. The parameters that it
//! is linear in are recentred for that ahead of time: output projections, embeddings, patch convolutions. What cannot
//! be recentred so has its mean subtracted where it is, if that spares more means than it costs. For CRMSNorm the last
//! element, which follows from the others, is left out of all these values.

mod apply;
mod conversion;
mod demand;
mod facts;
mod parameters;
mod readers;
mod rewrite;

use std::collections::HashMap;

use lessen_graph::{Graph, ValueId};

pub use apply::{Number, Parameter};
pub use conversion::{Conversion, ConvertedNorm, LeftNorm, NormTarget, Shift};
pub use facts::{Runs, Stop, Use};
pub use parameters::{ParameterChanges, ParameterStep};

/// What is known beside a graph, and what its conversion may do.
pub struct NormOptions<'a> {
    /// What norms are converted to.
    pub target: NormTarget,
    /// The number that all elements of a state equal, for those where one is known.
    pub known: HashMap<ValueId, f64>,
    /// Whether new values can be made of a state ahead of time.
    pub is_parameter: &'a dyn Fn(ValueId) -> bool,
    /// Whether a mean may be subtracted from a value where it is.
    pub can_recentre: &'a dyn Fn(ValueId) -> bool,
}

impl NormOptions<'_> {
    /// Nothing is known, and every mean may be subtracted.
    pub fn of(target: NormTarget) -> NormOptions<'static> {
        NormOptions {
            target,
            known: HashMap::new(),
            is_parameter: &|_| true,
            can_recentre: &|_| true,
        }
    }
}

/// How many means may be subtracted in a converted graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// Fewer than the norms spare that are converted for it.
    Fewer,
    /// Any number: each norm is converted for which it is possible.
    Any,
}

/// Converts the norms of a graph of a forward phase, whose parameters are states. Returns the new graph and what was
/// changed; the states of the new graph have the values that [`Conversion::parameters`] makes of those of the old one.
pub fn convert_norms(graph: &Graph, options: &NormOptions<'_>) -> (Graph, Conversion) {
    let facts = facts::Facts::of(graph, &options.known, options.is_parameter);
    let conversion = Conversion::of(&facts, options, (Means::Fewer, false));
    (rewrite::rewritten(graph, &conversion), conversion)
}

/// [`convert_norms`] for parameters that keep their shapes and what they are, as training needs it: the only steps of
/// [`Conversion::parameters`] are [`ParameterStep::Centre`]. Scales and shifts of norms and of branches stay where they
/// are, and for CRMSNorm the last element is left out of a state when it is read.
pub fn convert_norms_in_place(graph: &Graph, options: &NormOptions<'_>, means: Means) -> (Graph, Conversion) {
    let facts = facts::Facts::of(graph, &options.known, options.is_parameter);
    let conversion = Conversion::of(&facts, options, (means, true));
    (rewrite::rewritten(graph, &conversion), conversion)
}
