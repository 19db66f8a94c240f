//! Clones: makes backward recompute forward values, as late as it can.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use lessen_graph::ops::{PackBits, UnpackBits};
use lessen_graph::{Graph, Node, Op, Phase, ValueId};

use super::remat::Forward;
use super::rounded::Form;
use lessen_rewrite::Rewriter;

/// What backward recomputes, and for whom.
#[derive(Default)]
pub(crate) struct Recomputation<'a> {
    /// The values that are recomputed.
    pub values: Vec<ValueId>,
    /// Truth values with rows that are kept as bits.
    pub bits: Vec<ValueId>,
    /// Values that are kept in another form.
    pub rounded: Vec<(ValueId, Form)>,
    /// The stage of each node behind the forward phase. What is recomputed for one stage no other one reads. All are of
    /// one stage where this is empty.
    pub stages: &'a [usize],
    /// Of the recomputed values those that are recomputed once for all stages, and the stage, of a numbering of its
    /// own, whose nodes lead to each.
    pub lasting: HashMap<ValueId, usize>,
    /// Values that follow from the output of an operation that read them.
    pub inverted: HashMap<ValueId, Inverted>,
    /// The stages that run slice by slice where that spares memory.
    pub sliced: Vec<usize>,
    /// For each base whether recomputation may read it though backward does not; none may where this is empty.
    pub held: &'a [bool],
}

/// How a value follows from the output of an operation that read it.
#[derive(Clone, Debug)]
pub(crate) struct Inverted {
    /// The operation whose output 0 it is.
    pub op: Arc<dyn Op>,
    /// Its inputs: the output, and what is recomputed or kept.
    pub operands: Vec<ValueId>,
    /// The stage that has the value first, which recomputes the operands for itself.
    pub stage: usize,
}

impl Recomputation<'_> {
    /// The numbers in the new graph of the stages that run slice by slice.
    pub fn sliced_stages(&self) -> BTreeSet<u32> {
        let number = |&stage: &usize| Reader::Stage(stage).number(self.stages.len());
        self.sliced.iter().map(number).collect()
    }

    /// The values that are kept as something else.
    fn stored(&self) -> HashMap<ValueId, Stored> {
        let bits = self.bits.iter().map(|&value| (value, None));
        let rounded = self.rounded.iter().map(|&(value, form)| (value, Some(form)));
        let not_yet = |form| Stored {
            form,
            values: Vec::new(),
        };
        bits.chain(rounded)
            .map(|(value, form)| (value, not_yet(form)))
            .collect()
    }

    /// The inverted values by the stage that has them first, in order.
    fn to_invert(&self) -> HashMap<usize, Vec<ValueId>> {
        let mut stages: HashMap<usize, Vec<ValueId>> = HashMap::new();
        for (&value, inverted) in &self.inverted {
            stages.entry(inverted.stage).or_default().push(value);
        }
        stages.values_mut().for_each(|values| values.sort_unstable());
        stages
    }
}

/// For whom a value is recomputed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Reader {
    /// For the nodes of a stage.
    Stage(usize),
    /// For the recomputation of lasting values.
    Lasting(usize),
    /// For everybody.
    All,
}

impl Reader {
    /// The number of its stage in a schedule, where there are fewer than `most` stages; 0 where there is one.
    fn number(self, most: usize) -> u32 {
        let number = match self {
            _ if most == 0 => 0,
            Reader::Stage(stage) => 1 + stage,
            Reader::Lasting(stage) => 1 + most + stage,
            Reader::All => 0,
        };
        number as u32
    }
}

/// Makes backward recompute these forward values, each once, just before its first reader in backward. Those of `bits`,
/// which are truth values with rows, it takes from bits that the forward phase packs.
pub fn recompute(graph: &Graph, values: &[ValueId], bits: &[ValueId]) -> Graph {
    let (values, bits) = (values.to_vec(), bits.to_vec());
    recompute_by_stages(
        &Forward::new(graph),
        &Recomputation {
            values,
            bits,
            ..Recomputation::default()
        },
    )
}

/// Makes backward recompute forward values, each just before its first reader in a stage.
pub(crate) fn recompute_by_stages(forward: &Forward<'_>, what: &Recomputation<'_>) -> Graph {
    let graph = forward.graph;
    let mut dropped = vec![false; graph.values.len()];
    let rounded = what.rounded.iter().map(|(value, _)| value);
    let kept_otherwise = what.bits.iter().chain(rounded).chain(what.inverted.keys());
    for value in what.values.iter().chain(kept_otherwise) {
        dropped[value.index()] = true;
    }
    let mut clones = Clones {
        forward,
        what,
        dropped,
        rewriter: Rewriter::new(graph),
        made: HashMap::new(),
        to_invert: what.to_invert(),
        stored: what.stored(),
    };
    for (i, node) in graph.nodes.iter().enumerate() {
        if node.phase == Phase::Forward {
            clones.rewriter.copy(node);
            clones.store(node);
            continue;
        }
        let stage = what.stages.get(i).copied().unwrap_or(0);
        if node.phase == Phase::Backward {
            clones.invert(stage);
        }
        let stage = Reader::Stage(stage);
        let inputs: Vec<ValueId> = node.inputs.iter().map(|&v| clones.read(v, stage)).collect();
        clones.rewriter.stage = stage.number(what.stages.len());
        clones.rewriter.copy_with(node, &inputs, node.phase);
    }
    clones.rewriter.finish()
}

/// A value that is kept as something else.
struct Stored {
    /// None for bits.
    form: Option<Form>,
    values: Vec<ValueId>,
}

struct Clones<'a> {
    forward: &'a Forward<'a>,
    what: &'a Recomputation<'a>,
    dropped: Vec<bool>,
    rewriter: Rewriter<'a>,
    made: HashMap<(ValueId, Reader), ValueId>,
    /// The values that each stage begins with, since they follow from what it reads, until it has begun.
    to_invert: HashMap<usize, Vec<ValueId>>,
    /// What is kept for the values that are kept as bits or in another form, once it is there.
    stored: HashMap<ValueId, Stored>,
}

impl Clones<'_> {
    /// Stores those of a forward node's outputs that are kept as bits or in another form.
    fn store(&mut self, node: &Node) {
        for output in &node.outputs {
            if let Some(stored) = self.stored.get_mut(output) {
                let value = self.rewriter.get(*output);
                let op = stored
                    .form
                    .map_or_else(|| Arc::new(PackBits) as Arc<dyn Op>, Form::store);
                stored.values = self.rewriter.push(op, &[value], Phase::Forward, &node.scope);
            }
        }
    }

    /// Makes a value again of what is stored for it, if something is.
    fn restored(&mut self, value: ValueId, scope: &Arc<str>) -> Option<ValueId> {
        let stored = self.stored.get(&value).filter(|stored| !stored.values.is_empty())?;
        let width = self.forward.graph.ty(value).last();
        let unpack = || Arc::new(UnpackBits { width }) as Arc<dyn Op>;
        let op = stored.form.map_or_else(unpack, Form::restore);
        Some(self.rewriter.push(op, &stored.values, Phase::Backward, scope)[0])
    }

    /// Begins a stage with the values that it inverts, so that the outputs that they follow from need not wait for
    /// their readers.
    fn invert(&mut self, stage: usize) {
        for value in self.to_invert.remove(&stage).unwrap_or_default() {
            self.recomputed(value, Reader::All);
        }
    }

    /// What backward reads for a value: a recomputation if it is dropped.
    fn read(&mut self, value: ValueId, reader: Reader) -> ValueId {
        let base = self.forward.base(value);
        if self.forward.source(base) || !self.dropped[base.index()] {
            self.rewriter.get(value)
        } else {
            self.recomputed(value, reader)
        }
    }

    /// A recomputation of a value for a reader, with all that it takes. Pending values are on a stack of their own,
    /// since chains may be as long as a network is deep.
    fn recomputed(&mut self, value: ValueId, reader: Reader) -> ValueId {
        let forward = self.forward;
        let first = (value, self.shared_by(value, reader));
        let mut pending = vec![first];
        while let Some(&(value, reader)) = pending.last() {
            if self.made.contains_key(&(value, reader)) {
                pending.pop();
                continue;
            }
            let producer = forward.graph.producer(value);
            let node = &forward.graph.nodes[producer.expect("sources are read, not recomputed").index()];
            let inverted = self.what.inverted.get(&value);
            let within = match (reader, inverted) {
                (_, Some(inverted)) => Reader::Stage(inverted.stage),
                (Reader::All, None) => Reader::Lasting(self.what.lasting[&value]),
                (reader, None) => reader,
            };
            self.rewriter.stage = within.number(self.what.stages.len());
            if let Some(restored) = self.restored(value, &node.scope) {
                self.made.insert((value, reader), restored);
                pending.pop();
                continue;
            }
            let (operands, results) = match inverted {
                Some(inverted) => (&inverted.operands, std::slice::from_ref(&value)),
                None => (&node.inputs, node.outputs.as_slice()),
            };
            let missing = |input: ValueId| {
                let key = (input, self.shared_by(input, within));
                (!self.at_hand(input) && !self.made.contains_key(&key)).then_some(key)
            };
            let open: Vec<(ValueId, Reader)> = operands.iter().filter_map(|&input| missing(input)).collect();
            if !open.is_empty() {
                // The first input is recomputed first.
                pending.extend(open.into_iter().rev());
                continue;
            }
            let inputs: Vec<ValueId> = (operands.iter())
                .map(|&input| match self.at_hand(input) {
                    true => self.rewriter.get(input),
                    false => self.made[&(input, self.shared_by(input, within))],
                })
                .collect();
            let outputs = match inverted {
                Some(inverted) => (self.rewriter).push(inverted.op.clone(), &inputs, Phase::Backward, &node.scope),
                None => self.rewriter.push_copy(node, &inputs, Phase::Backward),
            };
            for (&old, new) in results.iter().zip(outputs) {
                let key = (old, self.shared_by(old, within));
                self.made.entry(key).or_insert(new);
            }
            pending.pop();
        }
        self.made[&first]
    }

    /// For whom a value is recomputed where this reader needs it.
    fn shared_by(&self, value: ValueId, reader: Reader) -> Reader {
        if self.what.lasting.contains_key(&value) || self.what.inverted.contains_key(&value) {
            Reader::All
        } else {
            reader
        }
    }

    /// Whether a recomputation can read the forward value itself.
    fn at_hand(&self, value: ValueId) -> bool {
        let base = self.forward.base(value);
        let held = self.what.held.get(base.index()).copied().unwrap_or(false);
        self.forward.source(base) || ((self.forward.kept[base.index()] || held) && !self.dropped[base.index()])
    }
}
