//! The order in which plans exchange messages with other processes, which is the same on all of them.

use lessen_base::{Error, Result};
use lessen_compile::Plan;
use lessen_graph::{Begun, Ended};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The exchanges of plans in the order in which they begin and end: the operation, and the elements of the whole array.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Exchanges(Vec<(bool, &'static str, usize)>);

impl Exchanges {
    /// The exchanges of plans that run one after another.
    pub fn of<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> Exchanges {
        Exchanges(plans.into_iter().flat_map(of_plan).collect())
    }

    /// Refuses other exchanges than the last ones here.
    ///
    /// # Errors
    /// A compiler that orders the exchanges of one training in two ways.
    pub fn check_end(&self, other: &Exchanges) -> Result<()> {
        match self.0.ends_with(&other.0) {
            true => Ok(()),
            false => Err(Error::internal("two plans of a training exchange in another order")),
        }
    }

    /// A text that tells the exchanges from others.
    pub fn checksum(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        format!("{} ({:016x})", self.0.len() / 2, hasher.finish())
    }
}

fn of_plan(plan: &Plan) -> impl Iterator<Item = (bool, &'static str, usize)> {
    let nodes = plan.steps().iter().flat_map(|step| &step.nodes);
    nodes.filter_map(|id| {
        let graph = plan.graph();
        let node = &graph.nodes[id.index()];
        let ended = node.op.downcast_ref::<Ended>();
        let begun = node.op.downcast_ref::<Begun>().or(ended.map(|ended| &ended.0))?;
        let inputs = &node.inputs[..begun.inputs];
        let types: Vec<_> = inputs.iter().map(|v| graph.ty(*v).clone()).collect();
        let outputs = begun.op.infer(&types).unwrap_or_default();
        let whole = types.iter().chain(&outputs).map(|ty| ty.numel()).max();
        Some((ended.is_some(), begun.op.name(), whole.unwrap_or(0)))
    })
}
