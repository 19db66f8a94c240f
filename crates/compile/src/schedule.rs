//! The schedule: the order of the nodes, cut into steps. A step is one node, or a group of row-wise nodes that a
//! thread runs over one block of rows after another while the block is in its cache.

use std::collections::BTreeSet;

use lessen_graph::{Graph, Node, NodeId, OutRole, Phase, Role, RowWise, ValueId};

use crate::options::Placement;
use crate::place::{Place, is_view, natural_rows, row_aligned, row_layout};
use crate::target::Target;

/// What runs between two synchronisations of the threads.
#[derive(Clone, Debug)]
pub struct Step {
    /// Nodes, in order.
    pub nodes: Vec<NodeId>,
    /// For a group the number of rows; none for a single node that does not work row by row.
    pub rows: Option<usize>,
}

/// How each node takes part.
struct Kinds {
    /// Nodes that run: no views, no constants.
    runs: Vec<bool>,
    /// Nodes whose results only updates and outputs read: a group may go on past them.
    side: Vec<bool>,
}

fn kinds(graph: &Graph, places: &[Place]) -> Kinds {
    let n = graph.nodes.len();
    let (mut runs, mut side) = (vec![false; n], vec![true; n]);
    for (i, node) in graph.nodes.iter().enumerate() {
        runs[i] = !node.inputs.is_empty() && !is_view(places, node);
        if runs[i] && node.phase != Phase::Update {
            for input in &node.inputs {
                if let Some(p) = graph.producer(places[input.index()].base) {
                    side[p.index()] = false;
                }
            }
        }
    }
    Kinds { runs, side }
}

/// Orders the nodes. `after` holds pairs of nodes of which the second must run after the first, besides the edges of
/// the graph.
pub fn schedule(
    graph: &Graph,
    places: &[Place],
    row_wise: &[RowWise],
    after: &[(NodeId, NodeId)],
    placement: Placement,
    target: &dyn Target,
) -> Vec<Step> {
    let kinds = kinds(graph, places);
    let n = graph.nodes.len();
    let mut successors: Vec<Vec<usize>> = vec![Vec::new(); n];
    let mut waits = vec![0usize; n];
    let mut writes_after: Vec<Vec<usize>> = vec![Vec::new(); n];
    for (a, b) in after {
        writes_after[b.index()].push(a.index());
    }
    for (i, node) in graph.nodes.iter().enumerate().filter(|(i, _)| kinds.runs[*i]) {
        let mut from: Vec<usize> = node
            .inputs
            .iter()
            .filter_map(|v| graph.producer(places[v.index()].base))
            .map(NodeId::index)
            .filter(|&p| kinds.runs[p])
            .collect();
        from.extend(writes_after[i].iter().copied().filter(|&p| kinds.runs[p]));
        from.sort_unstable();
        from.dedup();
        waits[i] = from.len();
        for p in from {
            successors[p].push(i);
        }
    }
    let mut scheduler = Scheduler {
        graph,
        places,
        row_wise,
        kinds,
        successors,
        waits,
        writes_after,
        pending: (0..n).collect(),
        ready: BTreeSet::new(),
        ready_updates: BTreeSet::new(),
        step_of: vec![usize::MAX; n],
        placement,
        widest_row: target.widest_row(),
        steps: Vec::new(),
    };
    scheduler.pending.retain(|&i| scheduler.kinds.runs[i]);
    scheduler.ready = (scheduler.pending.iter().copied())
        .filter(|&i| scheduler.waits[i] == 0)
        .collect();
    // What updates share and nothing has to come before, such as the count of steps, must not hold them up.
    let scalar = |i: usize| graph.nodes[i].outputs.iter().all(|&v| graph.ty(v).numel() == 1);
    let early = |i: &usize| graph.nodes[*i].phase == Phase::Update && scheduler.waits[*i] == 0 && scalar(*i);
    scheduler.ready_updates = scheduler.pending.iter().copied().filter(early).collect();
    scheduler.run();
    assert!(scheduler.pending.is_empty(), "no two nodes wait for each other");
    scheduler.steps
}

struct Scheduler<'a> {
    graph: &'a Graph,
    places: &'a [Place],
    row_wise: &'a [RowWise],
    kinds: Kinds,
    successors: Vec<Vec<usize>>,
    /// How many nodes each still waits for.
    waits: Vec<usize>,
    /// The readers of the state that each node overwrites: they belong to earlier steps.
    writes_after: Vec<Vec<usize>>,
    pending: BTreeSet<usize>,
    /// Pending nodes that wait for nothing.
    ready: BTreeSet<usize>,
    ready_updates: BTreeSet<usize>,
    step_of: Vec<usize>,
    placement: Placement,
    widest_row: usize,
    steps: Vec<Step>,
}

impl Scheduler<'_> {
    fn run(&mut self) {
        while let Some(first) = self.next() {
            let rows = self.rows_alone(first);
            self.steps.push(Step {
                nodes: Vec::new(),
                rows,
            });
            self.take(first);
            if let Some(rows) = rows {
                while let Some(node) = self.joining(rows) {
                    self.take(node);
                }
            }
        }
    }

    /// The node that opens the next step: an update that could free a gradient, or else the earliest that waits for
    /// nothing.
    fn next(&mut self) -> Option<usize> {
        if self.placement == Placement::BackwardFused
            && let Some(&update) = self.ready_updates.first()
        {
            return Some(update);
        }
        self.ready.first().copied()
    }

    fn take(&mut self, i: usize) {
        self.pending.remove(&i);
        self.ready.remove(&i);
        self.ready_updates.remove(&i);
        let step = self.steps.len() - 1;
        self.step_of[i] = step;
        self.steps[step].nodes.push(NodeId(i as u32));
        for s in std::mem::take(&mut self.successors[i]) {
            self.waits[s] -= 1;
            if self.waits[s] == 0 {
                self.ready.insert(s);
                if self.graph.nodes[s].phase == Phase::Update {
                    self.ready_updates.insert(s);
                }
            }
        }
    }

    /// The rows of a node by itself.
    fn rows_alone(&self, i: usize) -> Option<usize> {
        match &self.row_wise[i] {
            RowWise::No => None,
            RowWise::Elementwise => Some(natural_rows(self.graph.ty(self.graph.nodes[i].outputs[0]))),
            RowWise::Rows { rows, .. } => Some(*rows),
        }
    }

    /// The next node to join the open group: in order, past nodes that only updates wait for.
    fn joining(&self, rows: usize) -> Option<usize> {
        let step = self.steps.len() - 1;
        let phase = self.graph.nodes[self.steps[step].nodes[0].index()].phase;
        for &i in &self.pending {
            let node = &self.graph.nodes[i];
            if node.phase != phase {
                return None;
            }
            if self.waits[i] == 0 && self.fits(i, rows, step) {
                return Some(i);
            }
            if self.waits[i] != 0 || !self.kinds.side[i] {
                return None;
            }
        }
        None
    }

    /// Whether a node can work on the rows of the open group.
    fn fits(&self, i: usize, rows: usize, step: usize) -> bool {
        let node = &self.graph.nodes[i];
        if self.writes_after[i]
            .iter()
            .any(|&reader| self.step_of[reader] == step)
        {
            return false;
        }
        match &self.row_wise[i] {
            RowWise::No => false,
            RowWise::Elementwise => {
                let out = self.graph.ty(node.outputs[0]);
                let n = out.numel();
                // In a group of few rows, such as one of scalars, few threads would work on a large value.
                let shared = rows >= natural_rows(out) || n / rows <= self.widest_row;
                n >= rows
                    && n.is_multiple_of(rows)
                    && shared
                    && node.inputs.iter().all(|&v| {
                        if self.graph.ty(v).rank() == 0 && out.rank() > 0 {
                            self.whole_readable(v, step)
                        } else {
                            self.rows_readable(v, rows, step)
                        }
                    })
            }
            RowWise::Rows {
                rows: own, inputs, ..
            } => {
                *own == rows
                    && node.inputs.iter().zip(inputs).all(|(&v, role)| match role {
                        Role::Rows => self.rows_readable(v, rows, step),
                        Role::Whole => self.whole_readable(v, step),
                    })
            }
        }
    }

    /// Whether a value is complete before the step begins.
    fn whole_readable(&self, v: ValueId, step: usize) -> bool {
        self.graph
            .producer(self.places[v.index()].base)
            .is_none_or(|p| self.step_of[p.index()] != step)
    }

    fn rows_readable(&self, v: ValueId, rows: usize, step: usize) -> bool {
        let place = &self.places[v.index()];
        let Some(row) = row_layout(&self.graph.ty(v).shape, &place.layout, rows) else {
            return false;
        };
        match self.graph.producer(place.base) {
            Some(p) if self.step_of[p.index()] == step => {
                let width = self.graph.ty(place.base).numel() / rows;
                !self.sums_over_rows(&self.graph.nodes[p.index()], place.base)
                    && row_aligned(&row, rows, width)
            }
            _ => true,
        }
    }

    fn sums_over_rows(&self, node: &Node, output: ValueId) -> bool {
        let at = node
            .outputs
            .iter()
            .position(|&v| v == output)
            .expect("the producer's output");
        let producer = self.graph.producer(output).expect("a node's output");
        matches!(&self.row_wise[producer.index()], RowWise::Rows { outputs, .. } if outputs[at] == OutRole::Sum)
    }
}
