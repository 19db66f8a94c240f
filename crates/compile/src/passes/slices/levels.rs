//! Levels: the order in which the nodes of a sliced stage run.

use std::collections::{BTreeSet, HashMap};

use lessen_graph::NodeId;

use super::cut::{Execution, Slicing};

impl Slicing<'_> {
    /// The level of each node of a stage; higher levels run first. Nodes that run in slices have even levels, nodes
    /// that run as a whole odd ones. A node is as late as its readers allow, but sums over rows, and values that they
    /// alone read, are as early as possible.
    pub fn levels(&self, nodes: &[NodeId], executions: &HashMap<NodeId, Execution>) -> HashMap<NodeId, i32> {
        let sums: BTreeSet<NodeId> = nodes
            .iter()
            .copied()
            .filter(|&id| self.is_sum(id, executions))
            .collect();
        let at_least = |level: i32, id: &NodeId| level + i32::from(level.rem_euclid(2) != executions[id].parity());
        let at_most = |level: i32, id: &NodeId| level - i32::from(level.rem_euclid(2) != executions[id].parity());
        let mut levels: HashMap<NodeId, i32> = HashMap::new();
        for &id in nodes.iter().rev().filter(|id| !sums.contains(id)) {
            if let Some(level) = self.before_readers(id, executions, &levels) {
                levels.insert(id, at_least(level, &id));
            }
        }
        for &id in nodes {
            let below = self.producers(id).filter_map(|(producer, output)| {
                let level = levels.get(&producer)?;
                Some(level - self.apart((producer, output), id, executions))
            });
            if let Some(level) = below.min().filter(|_| !levels.contains_key(&id)) {
                levels.insert(id, at_most(level, &id));
            }
        }
        let first = levels.values().copied().max().unwrap_or(0);
        for &id in &sums {
            levels.entry(id).or_insert(at_least(first, &id));
        }
        for &id in nodes.iter().rev() {
            if !levels.contains_key(&id) {
                let level = self.before_readers(id, executions, &levels).unwrap_or(0);
                levels.insert(id, at_least(level, &id));
            }
        }
        levels
    }

    /// Whether a node is a sum over rows that no node of the stage reads.
    fn is_sum(&self, id: NodeId, executions: &HashMap<NodeId, Execution>) -> bool {
        let outputs = &self.node(id).outputs;
        let sums = match &executions[&id] {
            Execution::Accumulated(_) => true,
            Execution::BySlices(_, roles) => roles.sums.iter().all(|is_sum| *is_sum),
            Execution::Whole => false,
        };
        let mut readers = outputs.iter().flat_map(|v| &self.readers[v.index()]);
        sums && !readers.any(|reader| executions.contains_key(reader))
    }

    /// The least level that a node's readers allow, as far as they have levels.
    fn before_readers(
        &self,
        id: NodeId,
        executions: &HashMap<NodeId, Execution>,
        levels: &HashMap<NodeId, i32>,
    ) -> Option<i32> {
        let outputs = self.node(id).outputs.iter().enumerate();
        let levels = outputs.flat_map(|(k, output)| {
            let readers = self.readers[output.index()].iter().filter_map(move |reader| {
                if !executions.contains_key(reader) {
                    return Some(-1);
                }
                let level = levels.get(reader)?;
                Some(level + self.apart((id, k), *reader, executions))
            });
            readers.chain(self.results.contains(output).then_some(-1))
        });
        levels.max()
    }

    /// The nodes that a node reads from, each with the position of the output.
    fn producers(&self, id: NodeId) -> impl Iterator<Item = (NodeId, usize)> {
        self.node(id).inputs.iter().filter_map(|&v| {
            let producer = self.graph.producer(v)?;
            let output = self.node(producer).outputs.iter().position(|&output| output == v)?;
            Some((producer, output))
        })
    }

    /// Whether every node runs after the nodes that it reads, if levels run one after another.
    pub fn are_in_order(
        &self,
        nodes: &[NodeId],
        executions: &HashMap<NodeId, Execution>,
        levels: &HashMap<NodeId, i32>,
    ) -> bool {
        nodes.iter().all(|&id| {
            self.producers(id)
                .filter(|(producer, _)| executions.contains_key(producer))
                .all(|(producer, output)| {
                    let apart = match &executions[&producer] {
                        Execution::Accumulated(_) => 1,
                        _ => self.apart((producer, output), id, executions),
                    };
                    levels[&producer] >= levels[&id] + apart
                })
        })
    }

    /// The least distance between the levels of a producer, by one of its outputs, and of a reader.
    fn apart(
        &self,
        (producer, output): (NodeId, usize),
        reader: NodeId,
        executions: &HashMap<NodeId, Execution>,
    ) -> i32 {
        let (Execution::BySlices(_, writes), Execution::BySlices(_, reads)) =
            (&executions[&producer], &executions[&reader])
        else {
            return 0;
        };
        let value = self.node(producer).outputs[output];
        let inputs = self.node(reader).inputs.iter().zip(&reads.whole);
        let is_whole = inputs.filter(|(v, _)| **v == value).any(|(_, is_whole)| *is_whole);
        if writes.sums[output] || is_whole { 2 } else { 0 }
    }
}
