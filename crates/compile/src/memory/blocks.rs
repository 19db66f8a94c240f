//! Blocks: consecutive parts of the forward phase, each with the backward and update nodes that belong to it.

use lessen_graph::{Node, NodeId, Phase, ValueId};

use crate::passes::remat::{Forward, SMALLEST};

/// A graph with fewer blocks is not cut.
const FEWEST: usize = 3;

/// Cuts that two values cross, as in a reversible network, are taken where they are more than this many times as many
/// as cuts that one value crosses.
const MANY_MORE: usize = 4;

/// Least number of forward readers with which a value is not an entry but may be read by all blocks. Its definition and
/// its last reader must also be more than half of the graph apart.
const COMMON_READERS: usize = 3;

/// The blocks of a graph.
pub(super) struct Blocks {
    /// Number of blocks.
    pub count: usize,
    /// The block of each node. A backward node belongs to the first block whose values it needs, directly or through
    /// gradients; an update to the only block that it needs. None for a node that belongs to no block.
    pub of_node: Vec<Option<usize>>,
    /// For each block its entries: bases that are computed before the block and read inside it. The first block has
    /// none.
    pub entries: Vec<Vec<ValueId>>,
    /// For each base whether it is an entry or read by many blocks: recomputation may read it.
    pub readable: Vec<bool>,
}

/// The forward phase as a line of nodes, with the span of each value on it.
struct Flow<'a> {
    forward: &'a Forward<'a>,
    /// Forward nodes with inputs, in order. Positions below are positions in this list.
    nodes: Vec<NodeId>,
    /// For each position whether its node is a contraction.
    contracts: Vec<bool>,
    /// For each base of at least `SMALLEST` bytes the positions where it is computed and where it is last read.
    spans: Vec<Option<(usize, usize)>>,
    common: Vec<bool>,
}

impl Blocks {
    /// The blocks of a graph; none where they are too few.
    pub fn of(forward: &Forward<'_>) -> Option<Blocks> {
        let flow = Flow::of(forward);
        let (one, two) = (flow.cuts(1), flow.cuts(2));
        let cuts = if two.len() > MANY_MORE * (1 + one.len()) {
            two
        } else {
            one
        };
        (cuts.len() + 1 >= FEWEST).then(|| flow.blocks(&cuts))
    }
}

impl<'a> Flow<'a> {
    fn of(forward: &'a Forward<'a>) -> Flow<'a> {
        let graph = forward.graph;
        let is_run = |node: &Node| node.phase == Phase::Forward && !node.inputs.is_empty();
        let nodes: Vec<NodeId> = (0..graph.nodes.len())
            .filter(|&i| is_run(&graph.nodes[i]))
            .map(|i| NodeId(i as u32))
            .collect();
        let mut flow = Flow {
            forward,
            contracts: nodes
                .iter()
                .map(|id| graph.nodes[id.index()].op.is_contraction())
                .collect(),
            nodes,
            spans: vec![None; graph.values.len()],
            common: vec![false; graph.values.len()],
        };
        let mut readers = vec![0; graph.values.len()];
        for (at, id) in flow.nodes.iter().enumerate() {
            let node = &graph.nodes[id.index()];
            for &input in &node.inputs {
                let base = forward.base(input).index();
                readers[base] += 1;
                if let Some(span) = &mut flow.spans[base] {
                    span.1 = at;
                }
            }
            for &output in node.outputs.iter().filter(|&&v| forward.base(v) == v) {
                if graph.ty(output).bytes() >= SMALLEST {
                    flow.spans[output.index()] = Some((at, at));
                }
            }
        }
        let mut before = vec![0];
        before.extend(flow.contracts.iter().scan(0, |sum, &one| {
            *sum += usize::from(one);
            Some(*sum)
        }));
        let all = before[flow.nodes.len()];
        for (base, span) in flow.spans.iter_mut().enumerate() {
            let Some((first, last)) = *span else { continue };
            if readers[base] >= COMMON_READERS && 2 * (before[last] - before[first]) > all {
                flow.common[base] = true;
                *span = None;
            }
        }
        flow
    }

    /// The last position of each block but the last one. Between two contractions one cut is made where at most `width`
    /// values are alive: the first position at which the fewest of them are values that backward does not read anyway.
    fn cuts(&self, width: usize) -> Vec<usize> {
        let n = self.nodes.len();
        let mut change = vec![0isize; n + 1];
        let mut unread = vec![0isize; n + 1];
        for (base, span) in self.spans.iter().enumerate() {
            if let Some((first, last)) = *span {
                change[first] += 1;
                change[last] -= 1;
                let is_unread = isize::from(!self.forward.kept[base]);
                unread[first] += is_unread;
                unread[last] -= is_unread;
            }
        }
        let (mut cuts, mut open) = (Vec::new(), None);
        let (mut alive, mut alive_unread, mut contracted) = (0, 0, false);
        for at in 0..n {
            if self.contracts[at] {
                cuts.extend(open.take().map(|(cut, _)| cut));
                contracted = true;
            }
            alive += change[at];
            alive_unread += unread[at];
            let is_narrow = contracted && alive > 0 && alive as usize <= width;
            let is_better = open.is_none_or(|(_, best)| alive_unread < best);
            if is_narrow && is_better {
                open = Some((at, alive_unread));
            }
        }
        cuts
    }

    fn blocks(&self, cuts: &[usize]) -> Blocks {
        let graph = self.forward.graph;
        let mut of_node = vec![None; graph.nodes.len()];
        let mut of_value: Vec<Option<usize>> = vec![None; graph.values.len()];
        for (at, id) in self.nodes.iter().enumerate() {
            let block = cuts.partition_point(|&cut| cut < at);
            of_node[id.index()] = Some(block);
            for &output in &graph.nodes[id.index()].outputs {
                let base = self.forward.base(output);
                if base == output && !self.common[base.index()] {
                    of_value[base.index()] = Some(block);
                }
            }
        }
        let mut entries = vec![Vec::new(); cuts.len() + 1];
        let mut readable = self.common.clone();
        for (base, span) in self.spans.iter().enumerate() {
            let Some((first, last)) = *span else { continue };
            let (made, read) = (
                cuts.partition_point(|&cut| cut < first),
                cuts.partition_point(|&cut| cut < last),
            );
            for entry in &mut entries[made + 1..=read.max(made)] {
                entry.push(ValueId(base as u32));
                readable[base] = true;
            }
            if read > made {
                of_value[base] = Some(made + 1);
            }
        }
        let mut blocks = Blocks {
            count: entries.len(),
            of_node,
            entries,
            readable,
        };
        blocks.stages(self.forward, &of_value);
        blocks
    }
}

impl Blocks {
    /// Assigns backward and update nodes to blocks.
    fn stages(&mut self, forward: &Forward<'_>, of_value: &[Option<usize>]) {
        let graph = forward.graph;
        // For each node the first and the last block whose values it needs. A gradient counts as a value of the first
        // block that it needs.
        let mut needs: Vec<Option<(usize, usize)>> = vec![None; graph.nodes.len()];
        for (i, node) in graph.nodes.iter().enumerate() {
            if node.phase == Phase::Forward {
                continue;
            }
            let need = |&input: &ValueId| match graph.producer(input) {
                Some(id) if graph.nodes[id.index()].phase != Phase::Forward => needs[id.index()],
                _ => of_value[forward.base(input).index()].map(|block| (block, block)),
            };
            let joined = (node.inputs.iter().filter_map(need)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
            needs[i] = joined.map(|(first, last)| match node.phase {
                Phase::Update => (first, last),
                _ => (first, first),
            });
            self.of_node[i] = needs[i].filter(|(first, last)| first == last).map(|(first, _)| first);
        }
        self.postpone(forward, of_value);
    }

    /// Moves a backward node that reads gradients alone to the stage of its last reader, if its gradients are read
    /// there anyway. The gradient times a scale, as the derivative of a norm computes it, then need not be kept from
    /// stage to stage.
    fn postpone(&mut self, forward: &Forward<'_>, of_value: &[Option<usize>]) {
        let graph = forward.graph;
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); graph.values.len()];
        for (i, node) in graph
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.phase == Phase::Backward)
        {
            node.inputs.iter().for_each(|v| readers[v.index()].push(i));
        }
        for (i, node) in graph.nodes.iter().enumerate().rev() {
            let reads_block = |v: &ValueId| of_value[forward.base(*v).index()].is_some();
            let Some(own) = self.of_node[i] else { continue };
            if node.phase != Phase::Backward || node.inputs.iter().any(reads_block) {
                continue;
            }
            let later = node.outputs.iter().flat_map(|v| &readers[v.index()]);
            let Some(read) = later.filter_map(|&reader| self.of_node[reader]).max() else {
                continue;
            };
            let is_there = |v: &&ValueId| {
                let others = readers[v.index()].iter().filter(|&&reader| reader != i);
                graph.ty(**v).bytes() < SMALLEST
                    || others
                        .filter_map(|&reader| self.of_node[reader])
                        .any(|stage| stage <= read)
            };
            let gradients = node
                .inputs
                .iter()
                .filter(|v| graph.producer(**v).is_some_and(|id| self.of_node[id.index()].is_some()));
            if read < own && gradients.filter(|v| !is_there(v)).count() == 0 {
                self.of_node[i] = Some(read);
            }
        }
    }

    /// New entries of a block: its entries that are not entries of the block before.
    pub fn first_entries(&self, block: usize) -> impl Iterator<Item = ValueId> {
        let before: &[ValueId] = if block == 0 { &[] } else { &self.entries[block - 1] };
        let entries = self.entries[block].iter().copied();
        entries.filter(move |v| !before.contains(v))
    }

    /// The block that a node's clones belong to; the last one for a node without a block.
    pub fn stage(&self, node: usize) -> usize {
        self.of_node[node].unwrap_or(self.count - 1)
    }
}
