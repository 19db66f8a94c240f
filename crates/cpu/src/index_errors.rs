//! Index errors: what kernels find wrong in indices that a step computes. The first one is kept and ends the run;
//! kernels go on without touching memory out of bounds.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use lessen_base::Error;
use lessen_compile::Plan;
use lessen_graph::{Def, Graph, Node, ValueId};

/// Most inputs that an error names.
const NAMED: usize = 3;

/// Collects the first index error of a run.
#[derive(Debug, Default)]
pub(crate) struct IndexErrors {
    /// 0: none. Else the bits of the index found in the low half and of one more than the limit in the high half.
    first: AtomicU64,
}

impl IndexErrors {
    /// Notes an index that is not below its limit.
    #[cold]
    pub(crate) fn note(&self, index: i32, limit: usize) {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX - 1).saturating_add(1);
        let code = (u64::from(limit) << 32) | u64::from(index as u32);
        // Which of several errors is kept does not matter; each names a true one.
        let _ = self
            .first
            .compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether every index is below `limit`; notes the first that is not.
    pub(crate) fn check(&self, indices: &[i32], limit: usize) -> bool {
        // Negative indices become large.
        match indices.iter().find(|&&i| i as u32 as usize >= limit) {
            Some(&i) => {
                self.note(i, limit);
                false
            }
            None => true,
        }
    }

    /// Whether an error has been noted.
    fn any(&self) -> bool {
        self.first.load(Ordering::Relaxed) != 0
    }

    /// The first error, which is then forgotten, in this step of a plan.
    pub(crate) fn take(&self, plan: &Plan, step: usize) -> Option<Error> {
        if !self.any() {
            return None;
        }
        let code = self.first.swap(0, Ordering::Relaxed);
        let (index, limit) = (code as u32 as i32, (code >> 32) as u32 - 1);
        let (who, of) = reader(plan, step, limit as usize).unwrap_or(("the step".to_string(), String::new()));
        Some(Error::user(format!(
            "{who} reads the index {index}{of}, but indices there must be at least 0 and below {limit}; no state has been updated"
        )))
    }
}

/// The operation of a step that reads indices below this limit, and the inputs that they are computed from.
fn reader(plan: &Plan, step: usize, limit: usize) -> Option<(String, String)> {
    let graph = plan.graph();
    let nodes = plan.steps().get(step)?.nodes.iter().map(|id| &graph.nodes[id.index()]);
    let reads = |node: &Node| {
        node.op
            .index_input(&graph.input_types(node))
            .filter(|index| index.limit == limit)
    };
    let (node, index) = nodes.filter_map(|node| Some((node, reads(node)?))).next()?;
    let gap = if node.scope.is_empty() { "" } else { " " };
    let mut names: Vec<String> = inputs_of(graph, node.inputs[index.input]).into_iter().collect();
    names.truncate(NAMED);
    let of = match names.is_empty() {
        true => String::new(),
        false => format!(" that is computed from `{}`", names.join("` and `")),
    };
    Some((format!("`{}{gap}{}`", node.scope, node.op.name()), of))
}

/// The names of the inputs that a value is computed from.
fn inputs_of(graph: &Graph, value: ValueId) -> BTreeSet<String> {
    let (mut names, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![value]);
    while let Some(value) = open.pop() {
        if !seen.insert(value) {
            continue;
        }
        match (graph.producer(value), graph.values[value.index()].def) {
            (Some(node), _) => open.extend(&graph.nodes[node.index()].inputs),
            (None, Def::Input(input)) => drop(names.insert(graph.inputs[input].name.clone())),
            (None, Def::Node(..)) => {}
        }
    }
    names
}
