//! The schedule: the order of the nodes, cut into plan steps. A plan step is one node, or a row group: row-wise nodes
//! that a worker runs one after another on one row block, while the block is in its cache.

use std::collections::BTreeSet;

use lessen_graph::{Graph, Node, NodeId, OutRole, Phase, Role, RowWise, ValueId};

use crate::lane::{Overlap, reads_token_alone};
use crate::node_types::NodeTypes;
use crate::options::{Options, Placement};
use crate::place::{Place, is_view, natural_rows, row_aligned, row_layout};
use crate::target::Target;

/// The work between two synchronizations of the device's workers.
#[derive(Clone, Debug)]
pub struct Step {
    /// Nodes, in order.
    pub nodes: Vec<NodeId>,
    /// Rows of a row group; none for a single node that is not row-wise.
    pub rows: Option<usize>,
}

/// Facts about the nodes of a graph, by node.
struct NodeRoles {
    /// Whether the node runs: it is neither a view nor a constant.
    runs: Vec<bool>,
    /// Whether only updates and outputs read the node's results, as they read weight gradients. A row group grows past
    /// such nodes.
    side: Vec<bool>,
}

fn node_roles(graph: &Graph, places: &[Place]) -> NodeRoles {
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
    NodeRoles { runs, side }
}

/// For each node whether it belongs to an update and depends on no gradient, such as the norm of a parameter, or a
/// parameter times its weight decay.
fn idle(graph: &Graph, places: &[Place], runs: &[bool]) -> Vec<bool> {
    let mut idle = vec![false; graph.nodes.len()];
    for (i, node) in graph.nodes.iter().enumerate().filter(|(i, _)| runs[*i]) {
        let producers = node.inputs.iter().map(|v| graph.producer(places[v.index()].base));
        let mut from = producers.flatten().map(NodeId::index).filter(|&p| runs[p]);
        idle[i] = node.phase == Phase::Update && from.all(|p| idle[p]);
    }
    idle
}

/// For each idle node whether it leads to states and forward, and to no update that waits for a gradient: a part of an
/// update of the training step before, which [`delay`](crate::passes::delay()) has put at the beginning.
fn late(graph: &Graph, places: &[Place], runs: &[bool], idle: &[bool]) -> Vec<bool> {
    let mut late = idle.to_vec();
    for (i, node) in graph.nodes.iter().enumerate().rev() {
        if runs[i] && node.phase == Phase::Update && !late[i] {
            let producers = node.inputs.iter().map(|v| graph.producer(places[v.index()].base));
            // Exchanges follow each other by tokens, which say nothing of what they lead to.
            let leads = producers
                .flatten()
                .filter(|p| !reads_token_alone(graph, NodeId(i as u32), *p));
            leads.for_each(|p| late[p.index()] = false);
        }
    }
    late
}

/// Orders the nodes and cuts them into plan steps. Besides the edges of the graph, the second node of each pair in
/// `after` runs in a later step than the first.
pub fn schedule(
    (graph, types): (&Graph, &NodeTypes),
    places: &[Place],
    row_wise: &[RowWise],
    after: &[(NodeId, NodeId)],
    options: &Options,
    target: &dyn Target,
) -> Vec<Step> {
    let roles = node_roles(graph, places);
    let n = graph.nodes.len();
    let mut successors: Vec<Vec<usize>> = vec![Vec::new(); n];
    let mut predecessors: Vec<Vec<usize>> = vec![Vec::new(); n];
    let mut waits = vec![0usize; n];
    let mut writes_after: Vec<Vec<usize>> = vec![Vec::new(); n];
    for (a, b) in after {
        writes_after[b.index()].push(a.index());
    }
    for (i, node) in graph.nodes.iter().enumerate().filter(|(i, _)| roles.runs[*i]) {
        let mut from: Vec<usize> = node
            .inputs
            .iter()
            .filter_map(|v| graph.producer(places[v.index()].base))
            .map(NodeId::index)
            .filter(|&p| roles.runs[p])
            .collect();
        from.extend(writes_after[i].iter().copied().filter(|&p| roles.runs[p]));
        from.sort_unstable();
        from.dedup();
        waits[i] = from.len();
        for &p in &from {
            successors[p].push(i);
        }
        predecessors[i] = from;
    }
    let mut idle = idle(graph, places, &roles.runs);
    let late = late(graph, places, &roles.runs, &idle);
    idle.iter_mut().zip(&late).for_each(|(idle, late)| *idle &= !late);
    let others = |from: &Vec<usize>| from.iter().filter(|&&p| !idle[p]).count();
    let is_before_update = |i: &usize| roles.runs[*i] && graph.nodes[*i].phase != Phase::Update;
    let (waits_for_others, before_update) = (
        predecessors.iter().map(others).collect(),
        (0..n).filter(is_before_update).count(),
    );
    let overlap = (!options.waits_at_once).then(|| Overlap::of(graph, types, &predecessors, target));
    let mut scheduler = Scheduler {
        overlap: overlap.flatten(),
        graph,
        places,
        row_wise,
        roles,
        successors,
        predecessors,
        waits,
        waits_for_others,
        due: vec![false; n],
        idle,
        before_update,
        writes_after,
        pending: (0..n).collect(),
        ready: BTreeSet::new(),
        ready_updates: BTreeSet::new(),
        fresh: BTreeSet::new(),
        step_of: vec![usize::MAX; n],
        placement: options.placement,
        widest_row: target.limits().widest_row,
        steps: Vec::new(),
    };
    scheduler.pending.retain(|&i| scheduler.roles.runs[i]);
    scheduler.ready = (scheduler.pending.iter().copied())
        .filter(|&i| scheduler.waits[i] == 0)
        .collect();
    // Scalars that all updates read, such as the bias correction, run first, so that no update waits for them.
    let early =
        |i: &usize| graph.nodes[*i].phase == Phase::Update && scheduler.waits[*i] == 0 && scheduler.is_scalar(*i);
    scheduler.ready_updates = scheduler.pending.iter().copied().filter(early).collect();
    scheduler.run();
    assert!(scheduler.pending.is_empty(), "no two nodes wait for each other");
    next_to_readers(scheduler.steps, &scheduler.step_of, &scheduler.predecessors, &late)
}

/// Moves the steps of delayed updates as late as their readers allow: each stands next to the first reader of its
/// parameter, and splits no row group.
fn next_to_readers(steps: Vec<Step>, step_of: &[usize], predecessors: &[Vec<usize>], late: &[bool]) -> Vec<Step> {
    let is_late = |step: &Step| step.nodes.iter().all(|node| late[node.index()]);
    // For each delayed step the first step that waits for it, directly or through other delayed steps.
    let mut needed: Vec<Option<usize>> = steps.iter().map(|step| is_late(step).then_some(steps.len())).collect();
    for (s, step) in steps.iter().enumerate().rev() {
        let by = needed[s].unwrap_or(s);
        for &before in step.nodes.iter().flat_map(|node| &predecessors[node.index()]) {
            let update = step_of[before];
            if update != s {
                needed[update] = needed[update].map(|needed| needed.min(by));
            }
        }
    }
    let mut waiting: Vec<Vec<Step>> = vec![Vec::new(); steps.len() + 1];
    let mut moved = Vec::with_capacity(steps.len());
    for (s, (step, needed)) in steps.into_iter().zip(needed).enumerate() {
        match needed {
            Some(reader) => waiting[reader].push(step),
            None => {
                moved.append(&mut waiting[s]);
                moved.push(step);
            }
        }
    }
    moved.extend(waiting.into_iter().flatten());
    moved
}

struct Scheduler<'a> {
    graph: &'a Graph,
    /// What is under way between ranks; none where the program waits for it at once.
    overlap: Option<Overlap>,
    places: &'a [Place],
    row_wise: &'a [RowWise],
    roles: NodeRoles,
    successors: Vec<Vec<usize>>,
    predecessors: Vec<Vec<usize>>,
    /// For each node the number of nodes that it waits for.
    waits: Vec<usize>,
    /// For each node whether it belongs to an update and depends on no gradient. Unless it is a scalar, it runs only
    /// once its update waits for nothing else, since its result would be kept until then.
    idle: Vec<bool>,
    /// For each node the number of nodes that it waits for and that are not idle.
    waits_for_others: Vec<usize>,
    /// For each node whether it is due: an update that waits for idle nodes alone, or an idle node that such an update
    /// waits for.
    due: Vec<bool>,
    /// The number of pending nodes of forward and backward.
    before_update: usize,
    /// For each node the readers of the state that it overwrites, which must run in earlier steps.
    writes_after: Vec<Vec<usize>>,
    pending: BTreeSet<usize>,
    /// Pending nodes that wait for nothing.
    ready: BTreeSet<usize>,
    ready_updates: BTreeSet<usize>,
    /// The ready updates that became ready in the open step. All that read its values are among them.
    fresh: BTreeSet<usize>,
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
            self.fresh.clear();
            self.take(first);
            if let Some(rows) = rows {
                while let Some(node) = self.joining(rows) {
                    self.take(node);
                }
            }
        }
    }

    /// The first node of the next step: a ready update, which frees a gradient, or else the earliest ready node. Nodes
    /// that would wait for messages come after those that would not.
    fn next(&mut self) -> Option<usize> {
        let is_free = |node: &&usize| !self.holds(**node);
        if self.placement != Placement::Separate
            && let Some(&update) = self.ready_updates.iter().find(is_free)
        {
            return Some(update);
        }
        self.ready.iter().find(is_free).or(self.ready.first()).copied()
    }

    /// Whether a node would wait for messages while others can compute.
    fn holds(&self, node: usize) -> bool {
        self.overlap.as_ref().is_some_and(|overlap| overlap.holds(node))
    }

    fn take(&mut self, i: usize) {
        self.pending.remove(&i);
        self.ready.remove(&i);
        self.ready_updates.remove(&i);
        self.fresh.remove(&i);
        let step = self.steps.len() - 1;
        self.step_of[i] = step;
        self.steps[step].nodes.push(NodeId(i as u32));
        if self.graph.nodes[i].phase != Phase::Update {
            self.before_update -= 1;
        }
        let successors = std::mem::take(&mut self.successors[i]);
        if let Some(overlap) = &mut self.overlap {
            overlap.take(self.graph, i, &successors);
        }
        for s in successors {
            self.waits[s] -= 1;
            self.waits_for_others[s] -= usize::from(!self.idle[i]);
            let is_update = self.graph.nodes[s].phase == Phase::Update;
            if self.waits[s] == 0 {
                self.ready.insert(s);
                let may_idle = self.idle[s] && self.before_update > 0 && !self.is_scalar(s);
                if is_update && (self.due[s] || !may_idle) {
                    self.make_ready(s);
                }
            } else if is_update && self.waits_for_others[s] == 0 && !self.idle[s] {
                self.demand(s);
            }
        }
    }

    fn make_ready(&mut self, update: usize) {
        self.ready_updates.insert(update);
        self.fresh.insert(update);
    }

    /// Marks an update and the idle nodes that it waits for as due.
    fn demand(&mut self, update: usize) {
        let mut open = vec![update];
        while let Some(i) = open.pop() {
            if std::mem::replace(&mut self.due[i], true) {
                continue;
            }
            if self.waits[i] == 0 {
                self.make_ready(i);
            }
            let pending = |p: &usize| self.idle[*p] && self.step_of[*p] == usize::MAX;
            open.extend(self.predecessors[i].iter().copied().filter(pending));
        }
    }

    /// Whether all results of a node are single numbers.
    fn is_scalar(&self, i: usize) -> bool {
        let outputs = &self.graph.nodes[i].outputs;
        outputs.iter().all(|&v| self.graph.ty(v).numel() == 1)
    }

    /// The rows of a row group that a node opens; none if it is not row-wise.
    fn rows_alone(&self, i: usize) -> Option<usize> {
        match &self.row_wise[i] {
            RowWise::No => None,
            RowWise::Elementwise => Some(natural_rows(self.graph.ty(self.graph.nodes[i].outputs[0]))),
            RowWise::Rows { rows, .. } => Some(*rows),
        }
    }

    /// The next node that joins the open row group: the earliest in order, past nodes that only updates wait for. A
    /// group of updates takes only nodes that read its values: unrelated ones would share the cache to no end.
    fn joining(&self, rows: usize) -> Option<usize> {
        let step = self.steps.len() - 1;
        let Node { phase, stage, .. } = self.graph.nodes[self.steps[step].nodes[0].index()];
        if phase == Phase::Update {
            let mut ready = self.fresh.iter().copied();
            return ready.find(|&i| self.reads_from(i, step) && self.fits(i, rows, step));
        }
        for &i in &self.pending {
            let node = &self.graph.nodes[i];
            if node.phase != phase || node.stage != stage {
                return None;
            }
            if self.waits[i] == 0 && self.fits(i, rows, step) {
                return Some(i);
            }
            if self.waits[i] != 0 || !self.roles.side[i] {
                return None;
            }
        }
        None
    }

    /// Whether a node reads a value that the step produces.
    fn reads_from(&self, i: usize, step: usize) -> bool {
        let bases = self.graph.nodes[i].inputs.iter().map(|v| self.places[v.index()].base);
        bases
            .filter_map(|base| self.graph.producer(base))
            .any(|p| self.step_of[p.index()] == step)
    }

    /// Whether a node works on the rows of the open group.
    fn fits(&self, i: usize, rows: usize, step: usize) -> bool {
        let node = &self.graph.nodes[i];
        if self.holds(i) || self.writes_after[i].iter().any(|&reader| self.step_of[reader] == step) {
            return false;
        }
        match &self.row_wise[i] {
            RowWise::No => false,
            RowWise::Elementwise => {
                let out = self.graph.ty(node.outputs[0]);
                let n = out.numel();
                // In a group of few rows, such as scalars, few workers would share a large value.
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
            RowWise::Rows { rows: own, inputs, .. } => {
                *own == rows
                    && node.inputs.iter().zip(inputs).all(|(&v, role)| match role {
                        Role::Rows => self.rows_readable(v, rows, step),
                        Role::Whole => self.whole_readable(v, step),
                    })
            }
        }
    }

    /// Whether a value is complete before the step begins, so that it can be read whole.
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
                !self.sums_over_rows(&self.graph.nodes[p.index()], place.base) && row_aligned(&row, rows, width)
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
