//! Parameters in pieces (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter
//! Models", stage 3): the state of a large parameter is this process's piece, and programs gather the whole just before
//! they read it. Backward gathers it again, so that no whole is kept from forward on, unless plans keep some.

use crate::options::TrainerOptions;
use lessen_base::Result;
use lessen_graph::ops::{AllGather, Permute, Reshape, Slice};
use lessen_graph::{Assign, Graph, InputKind, Node, Output, Phase, Ranks, Type, ValueId};
use lessen_nn::{Centred, ParamSpec, StateInPieces, UpdateRule};
use lessen_rewrite::Rewriter;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// The parameters of which each process has a piece.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sharding {
    ranks: Ranks,
    params: BTreeMap<String, Whole>,
    /// The parameters in the order of the model.
    order: Vec<String>,
    /// The parameters whose wholes are kept from forward on.
    kept: BTreeSet<String>,
}

/// The type of a whole parameter, and the elements at whose multiples its pieces begin.
type Whole = (Type, usize);

/// A value that is gathered: a state, or a new piece before it is assigned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Gathered {
    value: ValueId,
    in_backward: bool,
}

impl Sharding {
    /// The parameters that the options cut into pieces; none where each process has all of them.
    pub fn of(options: &TrainerOptions, params: &[ParamSpec], centred: &Centred) -> Option<Sharding> {
        let rule = UpdateRule {
            centred: centred.clone(),
            ..options.update_rule()
        };
        let is_cut = |param: &&ParamSpec| rule.trains(param) && rule.piece_of(param).is_some();
        let cut = params.iter().filter(is_cut);
        let order = cut.clone().map(|param| param.name.clone()).collect();
        let cut = cut.map(|param| (param.name.clone(), (Type::f32(&param.shape), rule.block_of(param))));
        let params: BTreeMap<String, Whole> = cut.collect();
        let is_sharded = options.is_sharded() && !params.is_empty();
        is_sharded.then(|| Sharding {
            ranks: options.ranks_of_groups(),
            params,
            order,
            kept: BTreeSet::new(),
        })
    }

    /// The sharding that keeps `quarters` quarters of the bytes of all wholes from forward on: those of the last
    /// parameters, which backward reads first.
    pub fn keeping(&self, quarters: usize) -> Sharding {
        let bytes = |name: &&String| self.params.get(*name).map_or(0, |(whole, _)| whole.bytes());
        let all: usize = self.order.iter().map(|name| bytes(&name)).sum();
        let most = all / 4 * quarters + all % 4 * quarters / 4;
        let sums = self.order.iter().rev().scan(0, |sum, name| {
            *sum += bytes(&name);
            Some((name, *sum))
        });
        let kept = sums.take_while(|(_, sum)| *sum <= most).map(|(name, _)| name.clone());
        Sharding {
            kept: kept.collect(),
            ..self.clone()
        }
    }

    /// The parameters as states of which this process has a piece.
    pub fn states(&self) -> impl Iterator<Item = StateInPieces> {
        self.params.iter().map(|(name, (whole, block))| StateInPieces {
            name: name.clone(),
            whole: whole.clone(),
            block: *block,
        })
    }

    /// Whether a parameter is cut.
    pub fn has(&self, param: &str) -> bool {
        self.params.contains_key(param)
    }

    fn owned(&self, (whole, block): &Whole) -> Range<usize> {
        self.ranks.owned(whole.numel(), *block)
    }

    /// A graph that reads and assigns pieces in place of the parameters. It gathers each parameter while what comes
    /// before its first reader computes.
    ///
    /// # Errors
    /// Sizes that cannot be counted.
    pub fn sharded(&self, graph: &Graph) -> Result<Graph> {
        let wholes: HashMap<ValueId, &Whole> = graph
            .inputs
            .iter()
            .filter(|input| input.kind == InputKind::State)
            .filter_map(|input| Some((input.value, self.params.get(&input.name)?)))
            .collect();
        if wholes.is_empty() {
            return Ok(graph.clone());
        }
        let kept = self.kept_values(graph);
        let pieces = self.pieces_read(graph, &wholes);
        let mut rewriter = Rewriter::without_inputs(graph);
        let mut own: HashMap<ValueId, ValueId> = HashMap::new();
        for input in &graph.inputs {
            match wholes.get(&input.value) {
                Some(whole) => {
                    let ty = Type::f32(&[self.owned(whole).len()]);
                    own.insert(input.value, rewriter.new.add_input(&input.name, input.kind, ty)?);
                }
                None => drop(rewriter.input(&input.name, input.kind, input.value)),
            }
        }
        let gathers = Sharding::gathers(graph, &wholes, (&pieces, &kept));
        let mut next = gathers.iter().peekable();
        let mut found: BTreeMap<Gathered, ValueId> = BTreeMap::new();
        for (number, node) in graph.nodes.iter().enumerate() {
            while let Some((_, reader, gathered)) = next.next_if(|(at, ..)| *at <= number) {
                let (piece, op) = match (wholes.get(&gathered.value), gathered_from(graph, gathered.value)) {
                    (Some(whole), _) => (own[&gathered.value], self.gather(whole)),
                    (None, Some((piece, op))) => (rewriter.get(piece), op.clone()),
                    (None, None) => continue,
                };
                let op = AllGather {
                    turn: usize::from(gathered.in_backward),
                    ..op
                };
                let reader = &graph.nodes[*reader];
                let value = rewriter.push(Arc::new(op), &[piece], reader.phase, &reader.scope);
                found.insert(*gathered, value[0]);
            }
            match pieces.get(&number) {
                Some(Read::Flat) => {}
                Some(Read::Piece(whole)) => rewriter.set(node.outputs[0], own[whole]),
                None => {
                    let mut inputs = Vec::with_capacity(node.inputs.len());
                    for value in &node.inputs {
                        let at = Sharding::read_at(graph, node, *value, &kept);
                        inputs.push(match found.get(&at) {
                            Some(whole) => viewed_again(&mut rewriter, graph, (at.value, *whole), *value),
                            None => rewriter.get(*value),
                        });
                    }
                    rewriter.stage = node.stage;
                    rewriter.copy_with(node, &inputs, node.phase);
                }
            }
        }
        let mut outputs = Vec::with_capacity(graph.outputs.len());
        for output in &graph.outputs {
            outputs.push(Output {
                name: output.name.clone(),
                value: rewriter.get(output.value),
            });
        }
        let mut assigns = Vec::with_capacity(graph.assigns.len());
        for assign in &graph.assigns {
            let value = match (wholes.get(&assign.target), gathered_from(graph, assign.value)) {
                (None, _) => rewriter.get(assign.value),
                (Some(_), Some((piece, _))) => rewriter.get(piece),
                (Some(whole), None) => self.sliced(&mut rewriter, assign.value, whole),
            };
            let target = own.get(&assign.target).copied();
            let target = target.unwrap_or_else(|| rewriter.get(assign.target));
            assigns.push(Assign { target, value });
        }
        let mut new = rewriter.new;
        (new.outputs, new.assigns) = (outputs, assigns);
        Ok(new)
    }

    fn gather(&self, (whole, block): &Whole) -> AllGather {
        AllGather {
            rank: self.ranks.rank,
            ranks: self.ranks.count,
            leaves: self.ranks.leaves,
            block: *block,
            shape: whole.shape.to_vec(),
            turn: 0,
        }
    }

    /// This process's piece of a whole that is computed.
    fn sliced(&self, rewriter: &mut Rewriter<'_>, value: ValueId, whole: &Whole) -> ValueId {
        let own = self.owned(whole);
        let flat = Reshape {
            shape: vec![whole.0.numel()],
        };
        let slice = Slice {
            axis: 0,
            start: own.start,
            len: own.len(),
        };
        let (value, scope) = (rewriter.get(value), Arc::from(""));
        let flat = rewriter.push(Arc::new(flat), &[value], Phase::Update, &scope);
        rewriter.push(Arc::new(slice), &flat, Phase::Update, &scope)[0]
    }

    /// What a node reads of a value that is gathered. Backward may read a view of it that forward has.
    fn read_at(graph: &Graph, node: &Node, value: ValueId, kept: &BTreeSet<ValueId>) -> Gathered {
        let whole = viewed(graph, value);
        let in_backward = node.phase == Phase::Backward && !kept.contains(&whole);
        Gathered {
            value: if in_backward { whole } else { value },
            in_backward,
        }
    }

    /// The values of a graph that are wholes which are kept from forward on: parameters and their new values.
    fn kept_values(&self, graph: &Graph) -> BTreeSet<ValueId> {
        let is_kept = |value: ValueId| graph.input(value).is_some_and(|input| self.kept.contains(&input.name));
        let inputs = graph
            .inputs
            .iter()
            .map(|input| input.value)
            .filter(|value| is_kept(*value));
        let new = graph.assigns.iter().filter(|assign| is_kept(assign.target));
        inputs.chain(new.map(|assign| assign.value)).collect()
    }

    /// The nodes that read nothing of a parameter but this process's piece.
    fn pieces_read(&self, graph: &Graph, wholes: &HashMap<ValueId, &Whole>) -> HashMap<usize, Read> {
        let readers = graph.readers();
        let is_own = |node: &Node, whole: &Whole| {
            let own = self.owned(whole);
            let slice = node.op.as_ref().downcast_ref::<Slice>();
            slice.is_some_and(|slice| (slice.start, slice.len) == (own.start, own.len()))
        };
        let mut found = HashMap::new();
        for (value, whole) in wholes {
            for reader in &readers[value.index()] {
                let node = &graph.nodes[reader.index()];
                if whole.0.rank() == 1 && is_own(node, whole) {
                    found.insert(reader.index(), Read::Piece(*value));
                }
                if !node.op.is::<Reshape>() || graph.ty(node.outputs[0]).rank() != 1 {
                    continue;
                }
                let own: Vec<usize> = readers[node.outputs[0].index()].iter().map(|id| id.index()).collect();
                if !own.is_empty() && own.iter().all(|id| is_own(&graph.nodes[*id], whole)) {
                    found.insert(reader.index(), Read::Flat);
                    found.extend(own.into_iter().map(|id| (id, Read::Piece(*value))));
                }
            }
        }
        found
    }

    /// What is gathered: the node before which it begins, its first reader, and the value. It begins before the first
    /// reader of the one before it, so that one is under way while another one is read.
    fn gathers(
        graph: &Graph,
        wholes: &HashMap<ValueId, &Whole>,
        (pieces, kept): (&HashMap<usize, Read>, &BTreeSet<ValueId>),
    ) -> Vec<(usize, usize, Gathered)> {
        let mut known = BTreeSet::new();
        let mut first: Vec<(usize, Gathered)> = Vec::new();
        for (number, node) in graph
            .nodes
            .iter()
            .enumerate()
            .filter(|(at, _)| !pieces.contains_key(at))
        {
            for value in &node.inputs {
                let at = Sharding::read_at(graph, node, *value, kept);
                let is_new = at.in_backward && gathered_from(graph, at.value).is_some();
                let is_gathered = wholes.contains_key(&at.value) || is_new;
                if is_gathered && known.insert(at) {
                    first.push((number, at));
                }
            }
        }
        let mut begins = 0;
        let of = |(reader, gathered): (usize, Gathered)| {
            let producer = graph.producer(gathered.value).map_or(0, |id| id.index() + 1);
            let at = if begins == 0 { reader } else { begins }.max(producer);
            begins = reader;
            (at, reader, gathered)
        };
        let mut gathers: Vec<_> = first.into_iter().map(of).collect();
        gathers.sort_by_key(|(at, reader, _)| (*at, *reader));
        gathers
    }
}

/// The node of forward that a value is a view by.
fn view(graph: &Graph, value: ValueId) -> Option<&Node> {
    let node = &graph.nodes[graph.producer(value)?.index()];
    let is_view = node.op.is::<Permute>() || node.op.is::<Reshape>() || node.op.is::<Slice>();
    (is_view && node.phase == Phase::Forward).then_some(node)
}

/// The value that a value is a view of; itself if it is none.
fn viewed(graph: &Graph, mut value: ValueId) -> ValueId {
    while let Some(node) = view(graph, value) {
        value = node.inputs[0];
    }
    value
}

/// The same view, of a whole that was gathered again, as the value is of the old whole.
fn viewed_again(
    rewriter: &mut Rewriter<'_>,
    graph: &Graph,
    (old, whole): (ValueId, ValueId),
    value: ValueId,
) -> ValueId {
    let node = view(graph, value).filter(|_| value != old);
    node.map_or(whole, |node| {
        let of = viewed_again(rewriter, graph, (old, whole), node.inputs[0]);
        rewriter.push_copy(node, &[of], Phase::Backward)[0]
    })
}

/// What a node reads of a parameter of which this process has a piece.
enum Read {
    /// The piece of this parameter.
    Piece(ValueId),
    /// The whole in another shape, of which others read the piece.
    Flat,
}

/// The piece from which a value is gathered, and how; none where it is computed otherwise.
fn gathered_from(graph: &Graph, value: ValueId) -> Option<(ValueId, &AllGather)> {
    let node = &graph.nodes[graph.producer(value)?.index()];
    Some((*node.inputs.first()?, node.op.as_ref().downcast_ref()?))
}
