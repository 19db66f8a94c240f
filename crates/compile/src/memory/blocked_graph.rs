//! A graph cut into blocks, with the ways of each block. Translates the choices of the composition into a recomputation
//! of the whole graph.

use std::cell::RefCell;
use std::collections::HashMap;

use lessen_graph::{Graph, InputKind, Phase, ValueId};

use super::block::Block;
use super::blocks::Blocks;
use super::compose::{Choice, Composed};
use super::inversion::Inversion;
use super::sample::{Sample, SampleValues, Source};
use super::ways::Ways;
use crate::offsets::aligned;
use crate::options::Options;
use crate::passes::remat::{Forward, SMALLEST};
use crate::passes::{Packed, Recomputation, Recompute, StorageFormat, narrow};
use crate::target::{KernelKind, Target};
use crate::value_name::describe;

/// The forward values that backward does not keep as they are.
pub(crate) struct Selection<'a> {
    /// Recomputed values, for the report.
    pub recomputed: Vec<Recompute>,
    pub inverted: Vec<Recompute>,
    /// Values kept in each storage format, for the report.
    pub rounded: [Vec<Recompute>; StorageFormat::ALL.len()],
    /// The selected values, for the pass that rewrites the graph.
    pub recomputation: Recomputation<'a>,
}

/// A graph cut into blocks, with the ways of each block.
pub(crate) struct BlockedGraph {
    blocks: Blocks,
    stages: Vec<usize>,
    /// For each block its candidates, grouped by the node that computes them. A way keeps or recomputes a group as a
    /// whole.
    candidates: Vec<Vec<Vec<ValueId>>>,
    always: Vec<ValueId>,
    /// The class of each block. Blocks with equal samples are of one class.
    class_of: Vec<usize>,
    pub(super) classes: Vec<(Sample, Ways)>,
    /// Whether blocks may be joined into segments.
    pub(super) has_segments: bool,
    /// For each block its inversion, if it has one, with the class of the inverted block.
    inversions: Vec<Option<(Inversion, usize)>>,
    /// For each block the bytes of its new entry values.
    entry_bytes: Vec<usize>,
    rounded_entry_bytes: Vec<[usize; StorageFormat::ALL.len()]>,
    /// For each block its new entry values that may be rounded.
    rounded_entries: Vec<Vec<ValueId>>,
    /// For each storage format and each value the format that the value gets where others are kept in this one.
    formats: [Vec<Option<StorageFormat>>; StorageFormat::ALL.len()],
    /// Reports of the values that choices can recompute.
    reports: HashMap<ValueId, Recompute>,
    /// Bytes of states, constants and data, which every plan takes.
    pub(super) fixed: usize,
    /// Choices found so far, by their position in the grid of limits.
    pub(super) composed: RefCell<HashMap<usize, Option<Composed>>>,
}

/// The distinct samples of a graph, with their ways.
struct Classes<'a> {
    all: Vec<(Sample, Ways)>,
    known: HashMap<Vec<u64>, usize>,
    options: &'a Options,
    target: &'a dyn Target,
}

impl Classes<'_> {
    /// The class of a sample; a new one where no equal sample has come before.
    fn class(&mut self, sample: Sample) -> usize {
        let all = &mut self.all;
        let (options, target) = (self.options, self.target);
        *self.known.entry(sample.description(target)).or_insert_with(|| {
            let ways = Ways::of(&sample, options, target);
            all.push((sample, ways));
            all.len() - 1
        })
    }
}

impl BlockedGraph {
    /// Cuts a graph into blocks and finds their ways; none where the graph has too few blocks.
    pub fn of(forward: &Forward<'_>, bits: &[Packed], options: &Options, target: &dyn Target) -> Option<BlockedGraph> {
        let graph = forward.graph;
        let blocks = Blocks::of(forward)?;
        let source = Source::of(forward, &blocks);
        let bits: HashMap<ValueId, usize> = bits.iter().map(|packed| (packed.value, packed.bytes)).collect();
        let is_wide = |v: ValueId| forward.kept[v.index()] && narrow::widened_from(graph, v).is_some();
        let mut candidates = vec![Vec::new(); blocks.count];
        let mut always = vec![Vec::new(); blocks.count];
        let mut kept_bits = vec![Vec::new(); blocks.count];
        for (block, nodes) in source.nodes.iter().enumerate() {
            let nodes = nodes.iter().map(|id| &graph.nodes[id.index()]);
            for node in nodes.filter(|node| node.phase == Phase::Forward) {
                let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
                let is_slow = target.lower(node.op.as_ref(), &inputs, &outputs).kind == KernelKind::Reference;
                let is_choice = |v: &&ValueId| {
                    let bytes = bits.get(*v).copied().unwrap_or(graph.ty(**v).bytes());
                    forward.kept[v.index()]
                        && !blocks.readable[v.index()]
                        && bytes >= SMALLEST
                        && forward.base(**v) == **v
                };
                let (wide, own): (Vec<ValueId>, Vec<ValueId>) =
                    node.outputs.iter().filter(is_choice).partition(|v| is_wide(**v));
                always[block].extend(wide);
                if !own.is_empty() && !is_slow {
                    candidates[block].push(own);
                }
                let packed = node.outputs.iter().filter(|v| bits.contains_key(*v));
                kept_bits[block].extend(packed.copied());
            }
        }
        let mut classes = Classes {
            all: Vec::new(),
            known: HashMap::new(),
            options,
            target,
        };
        let inversions = Inversion::of_blocks(forward, &blocks, options.allowed_error);
        let rounded_entries: Vec<Vec<ValueId>> = (0..blocks.count)
            .map(|block| {
                if block > 0 && inversions[block - 1].is_some() {
                    Vec::new()
                } else {
                    blocks.first_entries(block).collect()
                }
            })
            .collect();
        let mut sampled = |block: usize, inversion: Option<&Inversion>| {
            let values = SampleValues {
                candidates: &candidates[block],
                always: &always[block],
                bits: &kept_bits[block],
                rounded_entries: &rounded_entries[block],
            };
            classes.class(source.sample(block, &values, inversion))
        };
        let class_of = (0..blocks.count).map(|block| sampled(block, None)).collect();
        let inversions = (inversions.into_iter().enumerate())
            .map(|(block, inversion)| inversion.map(|found| (found.clone(), sampled(block, Some(&found)))))
            .collect();
        let classes = classes.all;
        let entry = |block: usize, format: Option<StorageFormat>| -> usize {
            let bytes = |v: ValueId| {
                let format = format.filter(|_| rounded_entries[block].contains(&v));
                aligned(format.map_or(graph.ty(v).bytes(), |format| format.bytes(graph, v)))
            };
            blocks.first_entries(block).map(bytes).sum()
        };
        let states = graph.inputs.iter().filter(|i| i.kind == InputKind::State);
        let data = graph.inputs.iter().filter(|i| i.kind == InputKind::Data);
        let constants = graph
            .nodes
            .iter()
            .filter(|n| n.inputs.is_empty())
            .flat_map(|n| &n.outputs);
        let in_arena = data.map(|i| i.value).chain(constants.copied());
        let fixed = states.map(|i| graph.ty(i.value).bytes()).sum::<usize>()
            + in_arena.map(|v| aligned(graph.ty(v).bytes())).sum::<usize>();
        let values = || (0..graph.values.len() as u32).map(ValueId);
        let choices = candidates.iter().flatten().chain(&always).chain(&blocks.entries);
        let reports = choices.flatten().map(|&value| (value, report(graph, value))).collect();
        Some(BlockedGraph {
            formats: StorageFormat::ALL.map(|format| values().map(|v| format.of_value(graph, v)).collect()),
            reports,
            stages: (0..graph.nodes.len()).map(|node| blocks.stage(node)).collect(),
            entry_bytes: (0..blocks.count).map(|block| entry(block, None)).collect(),
            rounded_entry_bytes: (0..blocks.count)
                .map(|block| StorageFormat::ALL.map(|format| entry(block, Some(format))))
                .collect(),
            rounded_entries,
            always: always.concat(),
            blocks,
            candidates,
            class_of,
            classes,
            has_segments: true,
            inversions,
            fixed,
            composed: RefCell::default(),
        })
    }

    /// The blocks as the composition sees them.
    pub(super) fn blocks(&self) -> Vec<Block<'_>> {
        let inversion = |block: usize| self.inversions.get(block).and_then(Option::as_ref);
        let waits = |block: usize| self.classes[self.class_of[block]].0.waiting;
        let mut blocks: Vec<Block<'_>> = Vec::new();
        let mut waiting = 0;
        for block in (0..self.blocks.count).rev() {
            blocks.push(Block {
                ways: &self.classes[self.class_of[block]].1,
                inverted: inversion(block).map(|(_, class)| &self.classes[*class].1),
                entry: self.entry_bytes[block],
                rounded_entry: self.rounded_entry_bytes[block],
                inverted_next: inversion(block + 1).map_or(0, |(inversion, _)| aligned(inversion.bytes)),
                waiting,
            });
            waiting += waits(block);
        }
        blocks.reverse();
        blocks
    }

    /// Whether a block has an inversion.
    pub(super) fn can_invert(&self, block: usize) -> bool {
        self.inversions[block].is_some()
    }

    /// For each block the number of its candidates.
    pub(super) fn candidate_counts(&self) -> Vec<usize> {
        self.candidates.iter().map(Vec::len).collect()
    }

    /// The recomputation of the whole graph that follows from the choices of all blocks.
    pub(super) fn selection(&self, choices: &[Choice]) -> Selection<'_> {
        let mut values = self.always.clone();
        let (mut shared, mut inverted) = (HashMap::new(), HashMap::new());
        let (mut from_outputs, mut rounded) = (Vec::new(), Vec::new());
        let mut said: [Vec<Recompute>; StorageFormat::ALL.len()] = Default::default();
        for (block, choice) in choices.iter().enumerate() {
            let candidates = &self.candidates[block];
            let chosen = choice.recomputed.iter().flat_map(|&i| &candidates[i]).copied();
            values.extend(chosen);
            if let Some((inversion, _)) = self.inversions[block].as_ref().filter(|_| choice.is_inverted) {
                inverted.insert(inversion.value, inversion.how.clone());
                from_outputs.push(Recompute {
                    error: inversion.error,
                    ..self.reports[&inversion.value].clone()
                });
            }
            if choice.is_inner {
                for value in self.blocks.first_entries(block) {
                    values.push(value);
                    shared.insert(value, block - 1);
                }
            }
            if let Some(format) = choice.format {
                let others = (0..candidates.len()).filter(|i| !choice.recomputed.contains(i));
                let kept = others.flat_map(|i| &candidates[i]).chain(&self.rounded_entries[block]);
                for (value, format) in
                    kept.filter_map(|&value| Some((value, self.formats[format as usize][value.index()]?)))
                {
                    rounded.push((value, format));
                    said[format as usize].push(Recompute {
                        error: format.error(),
                        ..self.reports[&value].clone()
                    });
                }
            }
            if choice.in_segment {
                let others = (0..candidates.len()).filter(|i| !choice.recomputed.contains(i));
                for &value in others.flat_map(|i| &candidates[i]) {
                    values.push(value);
                    shared.insert(value, block);
                }
            }
        }
        values.sort_unstable();
        values.dedup();
        let reported = |values: &[ValueId]| values.iter().map(|value| self.reports[value].clone()).collect();
        Selection {
            recomputed: reported(&values),
            inverted: from_outputs,
            rounded: said,
            recomputation: Recomputation {
                values,
                bits: Vec::new(),
                rounded,
                sliced: (0..choices.len()).filter(|&block| choices[block].is_sliced).collect(),
                stages: &self.stages,
                shared,
                inverted,
                readable: &self.blocks.readable,
            },
        }
    }
}

/// The report of a recomputed value.
pub(super) fn report(graph: &Graph, value: ValueId) -> Recompute {
    let producer = graph.producer(value).expect("a node's output");
    let node = &graph.nodes[producer.index()];
    let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
    let cost = graph.ask(node, &inputs, &outputs).cost();
    Recompute {
        value,
        name: describe(graph, value).0,
        bytes: graph.ty(value).bytes(),
        flops: cost.product_flops,
        error: 0.0,
    }
}
