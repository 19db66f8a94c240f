//! Clones: backward recomputes forward values, each as late as possible.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use lessen_graph::ops::{PackBits, UnpackBits};
use lessen_graph::{Graph, Node, Op, Phase, ValueId};

use super::remat::Forward;
use super::storage_format::StorageFormat;
use lessen_rewrite::Rewriter;

/// Replacements for the reads of kept forward values in backward.
#[derive(Default)]
pub(crate) struct Recomputation<'a> {
    /// Recomputed values.
    pub values: Vec<ValueId>,
    /// Truth values that are kept as bits; they have at least one axis.
    pub bits: Vec<ValueId>,
    /// Values that are kept in a storage format.
    pub rounded: Vec<(ValueId, StorageFormat)>,
    /// The stage of each backward and update node. A value recomputed for one stage is not read by another one. All
    /// nodes are of one stage where this is empty.
    pub stages: &'a [usize],
    /// Recomputed values that all stages share, with the stage whose nodes compute each. These stages are numbered
    /// apart from the others.
    pub shared: HashMap<ValueId, usize>,
    /// Values that are inverted: computed from the output of an operation that read them.
    pub inverted: HashMap<ValueId, Inverted>,
    /// The stages that run in slices where that saves memory.
    pub sliced: Vec<usize>,
    /// For each base whether recomputation may read it though backward does not; none may be read so where this is
    /// empty.
    pub readable: &'a [bool],
}

/// The inversion of a value: how it is computed from the output of an operation that read it.
#[derive(Clone, Debug)]
pub(crate) struct Inverted {
    /// The operation whose output 0 is the value.
    pub op: Arc<dyn Op>,
    /// Its inputs: the output, and values that are kept or recomputed.
    pub operands: Vec<ValueId>,
    /// The stage that needs the value first. It recomputes the operands for itself.
    pub stage: usize,
}

impl Recomputation<'_> {
    /// The numbers that the new graph gives to the stages that run in slices.
    pub fn sliced_stages(&self) -> BTreeSet<u32> {
        let number = |&stage: &usize| CloneReader::Stage(stage).number(self.stages.len());
        self.sliced.iter().map(number).collect()
    }

    /// The values that are kept as bits or in a storage format.
    fn stored(&self) -> HashMap<ValueId, Stored> {
        let bits = self.bits.iter().map(|&value| (value, None));
        let rounded = self.rounded.iter().map(|&(value, format)| (value, Some(format)));
        let not_yet = |format| Stored {
            format,
            values: Vec::new(),
        };
        bits.chain(rounded)
            .map(|(value, format)| (value, not_yet(format)))
            .collect()
    }

    /// The inverted values, in order, by the stage that needs them first.
    fn to_invert(&self) -> HashMap<usize, Vec<ValueId>> {
        let mut stages: HashMap<usize, Vec<ValueId>> = HashMap::new();
        for (&value, inverted) in &self.inverted {
            stages.entry(inverted.stage).or_default().push(value);
        }
        stages.values_mut().for_each(|values| values.sort_unstable());
        stages
    }
}

/// The readers of a recomputed value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum CloneReader {
    /// The nodes of a stage.
    Stage(usize),
    /// The recomputation of shared values.
    Shared(usize),
    /// All stages.
    All,
}

impl CloneReader {
    /// The number of its stage in the new graph, where the planner has cut backward into `most` stages; 0 where
    /// backward is one stage.
    fn number(self, most: usize) -> u32 {
        let number = match self {
            _ if most == 0 => 0,
            CloneReader::Stage(stage) => 1 + stage,
            CloneReader::Shared(stage) => 1 + most + stage,
            CloneReader::All => 0,
        };
        number as u32
    }
}

/// Makes backward recompute these forward values, each once, just before its first backward reader. Truth values of
/// `bits` are unpacked from bits that the forward phase packs.
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
pub(crate) fn recompute_by_stages(forward: &Forward<'_>, recomputation: &Recomputation<'_>) -> Graph {
    let graph = forward.graph;
    let mut dropped = vec![false; graph.values.len()];
    let rounded = recomputation.rounded.iter().map(|(value, _)| value);
    let kept_otherwise = recomputation
        .bits
        .iter()
        .chain(rounded)
        .chain(recomputation.inverted.keys());
    for value in recomputation.values.iter().chain(kept_otherwise) {
        dropped[value.index()] = true;
    }
    let mut clones = Clones {
        forward,
        recomputation,
        dropped,
        rewriter: Rewriter::new(graph),
        made: HashMap::new(),
        to_invert: recomputation.to_invert(),
        stored: recomputation.stored(),
    };
    for (i, node) in graph.nodes.iter().enumerate() {
        if node.phase == Phase::Forward {
            clones.rewriter.copy(node);
            clones.store(node);
            continue;
        }
        let stage = recomputation.stages.get(i).copied().unwrap_or(0);
        if node.phase == Phase::Backward {
            clones.invert(stage);
        }
        let stage = CloneReader::Stage(stage);
        let inputs: Vec<ValueId> = node.inputs.iter().map(|&v| clones.read(v, stage)).collect();
        clones.rewriter.stage = stage.number(recomputation.stages.len());
        clones.rewriter.copy_with(node, &inputs, node.phase);
    }
    clones.rewriter.finish()
}

/// A value that is kept as bits or in a storage format.
struct Stored {
    /// None for bits.
    format: Option<StorageFormat>,
    values: Vec<ValueId>,
}

struct Clones<'a> {
    forward: &'a Forward<'a>,
    recomputation: &'a Recomputation<'a>,
    dropped: Vec<bool>,
    rewriter: Rewriter<'a>,
    made: HashMap<(ValueId, CloneReader), ValueId>,
    /// The inverted values that each stage begins with, until it has begun.
    to_invert: HashMap<usize, Vec<ValueId>>,
    /// The kept values that stand for others, once they exist.
    stored: HashMap<ValueId, Stored>,
}

impl Clones<'_> {
    /// Stores outputs of a forward node that are kept as bits or in a storage format.
    fn store(&mut self, node: &Node) {
        for output in &node.outputs {
            if let Some(stored) = self.stored.get_mut(output) {
                let value = self.rewriter.get(*output);
                let op = stored
                    .format
                    .map_or_else(|| Arc::new(PackBits) as Arc<dyn Op>, StorageFormat::store);
                stored.values = self.rewriter.push(op, &[value], Phase::Forward, &node.scope);
            }
        }
    }

    /// Restores a value from the one that is kept for it, if there is one.
    fn restored(&mut self, value: ValueId, scope: &Arc<str>) -> Option<ValueId> {
        let stored = self.stored.get(&value).filter(|stored| !stored.values.is_empty())?;
        let width = self.forward.graph.ty(value).last();
        let unpack = || Arc::new(UnpackBits { width }) as Arc<dyn Op>;
        let op = stored.format.map_or_else(unpack, StorageFormat::restore);
        Some(self.rewriter.push(op, &stored.values, Phase::Backward, scope)[0])
    }

    /// Begins a stage with the values that it inverts, so that the outputs that they are computed from need not wait
    /// for later readers.
    fn invert(&mut self, stage: usize) {
        for value in self.to_invert.remove(&stage).unwrap_or_default() {
            self.recomputed(value, CloneReader::All);
        }
    }

    /// The value that backward reads for a forward value: a recomputation if it is not kept.
    fn read(&mut self, value: ValueId, reader: CloneReader) -> ValueId {
        let base = self.forward.base(value);
        if self.forward.source(base) || !self.dropped[base.index()] {
            self.rewriter.get(value)
        } else {
            self.recomputed(value, reader)
        }
    }

    /// Recomputes a value for a reader, with all values that this takes. Pending values are on an explicit stack, since
    /// chains may be as long as a network is deep.
    fn recomputed(&mut self, value: ValueId, reader: CloneReader) -> ValueId {
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
            let inverted = self.recomputation.inverted.get(&value);
            let within = match (reader, inverted) {
                (_, Some(inverted)) => CloneReader::Stage(inverted.stage),
                (CloneReader::All, None) => CloneReader::Shared(self.recomputation.shared[&value]),
                (reader, None) => reader,
            };
            self.rewriter.stage = within.number(self.recomputation.stages.len());
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
            let open: Vec<(ValueId, CloneReader)> = operands.iter().filter_map(|&input| missing(input)).collect();
            if !open.is_empty() {
                // The first input is recomputed first.
                pending.extend(open.into_iter().rev());
                continue;
            }
            let inputs: Vec<ValueId> = (operands.iter())
                .map(|&input| {
                    if self.at_hand(input) {
                        self.rewriter.get(input)
                    } else {
                        self.made[&(input, self.shared_by(input, within))]
                    }
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

    /// The readers that share the recomputation of a value, where this reader needs it.
    fn shared_by(&self, value: ValueId, reader: CloneReader) -> CloneReader {
        if self.recomputation.shared.contains_key(&value) || self.recomputation.inverted.contains_key(&value) {
            CloneReader::All
        } else {
            reader
        }
    }

    /// Whether a recomputation can read the forward value itself.
    fn at_hand(&self, value: ValueId) -> bool {
        let base = self.forward.base(value);
        let readable = self.recomputation.readable.get(base.index()).copied().unwrap_or(false);
        self.forward.source(base) || ((self.forward.kept[base.index()] || readable) && !self.dropped[base.index()])
    }
}
