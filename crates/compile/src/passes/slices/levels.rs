//! Levels: the order in which the nodes of a stage run in slices.

use std::collections::{BTreeSet, HashMap};

use lessen_graph::NodeId;

use super::cut::{Kind, Slicing};

impl Slicing<'_> {
    /// The level of each node of a stage, higher ones first: even for what is row-wise, odd for what runs as a whole
    /// between two of these. A node is as late as its readers allow, but sums over rows and what they alone read are as
    /// early as they can be.
    pub fn levels(&self, nodes: &[NodeId], kinds: &HashMap<NodeId, Kind>) -> HashMap<NodeId, i32> {
        let sums: BTreeSet<NodeId> = nodes.iter().copied().filter(|&id| self.is_sum(id, kinds)).collect();
        let at_least = |level: i32, id: &NodeId| level + i32::from(level.rem_euclid(2) != kinds[id].parity());
        let at_most = |level: i32, id: &NodeId| level - i32::from(level.rem_euclid(2) != kinds[id].parity());
        let mut levels: HashMap<NodeId, i32> = HashMap::new();
        for &id in nodes.iter().rev().filter(|id| !sums.contains(id)) {
            if let Some(level) = self.before_readers(id, kinds, &levels) {
                levels.insert(id, at_least(level, &id));
            }
        }
        for &id in nodes {
            let behind = self.producers(id).filter_map(|(producer, output)| {
                let level = levels.get(&producer)?;
                Some(level - self.apart((producer, output), id, kinds))
            });
            if let Some(level) = behind.min().filter(|_| !levels.contains_key(&id)) {
                levels.insert(id, at_most(level, &id));
            }
        }
        let first = levels.values().copied().max().unwrap_or(0);
        for &id in &sums {
            levels.entry(id).or_insert(at_least(first, &id));
        }
        for &id in nodes.iter().rev() {
            if !levels.contains_key(&id) {
                let level = self.before_readers(id, kinds, &levels).unwrap_or(0);
                levels.insert(id, at_least(level, &id));
            }
        }
        levels
    }

    /// Whether a node is a sum over rows that nothing of the stage reads.
    fn is_sum(&self, id: NodeId, kinds: &HashMap<NodeId, Kind>) -> bool {
        let outputs = &self.node(id).outputs;
        let sums = match &kinds[&id] {
            Kind::Adds(_) => true,
            Kind::Rows(_, roles) => roles.sums.iter().all(|is_sum| *is_sum),
            Kind::Whole => false,
        };
        let mut readers = outputs.iter().flat_map(|v| &self.readers[v.index()]);
        sums && !readers.any(|reader| kinds.contains_key(reader))
    }

    /// The least level of a node for its readers' sake, as far as they have one.
    fn before_readers(&self, id: NodeId, kinds: &HashMap<NodeId, Kind>, levels: &HashMap<NodeId, i32>) -> Option<i32> {
        let outputs = self.node(id).outputs.iter().enumerate();
        let levels = outputs.flat_map(|(k, output)| {
            let readers = self.readers[output.index()].iter().filter_map(move |reader| {
                if !kinds.contains_key(reader) {
                    return Some(-1);
                }
                let level = levels.get(reader)?;
                Some(level + self.apart((id, k), *reader, kinds))
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

    /// Whether every node comes behind what it reads, where levels run one after another.
    pub fn are_in_order(&self, nodes: &[NodeId], kinds: &HashMap<NodeId, Kind>, levels: &HashMap<NodeId, i32>) -> bool {
        nodes.iter().all(|&id| {
            self.producers(id)
                .filter(|(producer, _)| kinds.contains_key(producer))
                .all(|(producer, output)| {
                    let apart = match &kinds[&producer] {
                        Kind::Adds(_) => 1,
                        _ => self.apart((producer, output), id, kinds),
                    };
                    levels[&producer] >= levels[&id] + apart
                })
        })
    }

    /// How far apart the levels of a producer, of whose outputs this one is read, and of its reader are at least.
    fn apart(&self, (producer, output): (NodeId, usize), reader: NodeId, kinds: &HashMap<NodeId, Kind>) -> i32 {
        let (Kind::Rows(_, writes), Kind::Rows(_, reads)) = (&kinds[&producer], &kinds[&reader]) else {
            return 0;
        };
        let value = self.node(producer).outputs[output];
        let inputs = self.node(reader).inputs.iter().zip(&reads.whole);
        let is_whole = inputs.filter(|(v, _)| **v == value).any(|(_, is_whole)| *is_whole);
        if writes.sums[output] || is_whole { 2 } else { 0 }
    }
}
