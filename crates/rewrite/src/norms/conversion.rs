//! The conversion of a graph: decides which norms are converted, and which other changes that requires.

use std::collections::{BTreeMap, BTreeSet};

use lessen_graph::{Graph, Node, NodeId, ValueId, WhenCentred};

use super::centring::{Candidate, Centring, Centrings, Method, worthwhile};
use super::facts::{Facts, Lines, NodeInput, Obstacle};
use super::linear_readers::{LinearReader, linear_readers};
use super::parameters::{ParameterChanges, ParameterStep};
use super::{Means, NormOptions};

/// The norm that norms are converted to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NormTarget {
    /// RMSNorm.
    Rms,
    /// CRMSNorm: rows without their last element.
    Crms,
}

/// The shift of a converted norm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NormShift {
    /// It is zero, or absorbed by the biases of the linear layers that read the norm.
    Absorbed,
    /// It is added to the norm's result.
    Added,
}

/// A norm that is converted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConvertedNorm {
    /// The node.
    pub node: NodeId,
    /// Its shift.
    pub shift: NormShift,
    /// Whether its result lacks the last element, and the weights of the layers that read it have absorbed its scale.
    pub is_compressed: bool,
}

/// A norm that is not converted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnconvertedNorm {
    /// The node.
    pub node: NodeId,
    /// The values whose mean would have to be subtracted, each with the obstacle to recentring it ahead of time.
    pub obstacles: Vec<(ValueId, Obstacle)>,
}

/// The changes of a graph.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// The norm that norms are converted to.
    pub target: NormTarget,
    /// Whether states keep their shapes; see [`convert_norms_in_place`](super::convert_norms_in_place).
    pub keeps_states: bool,
    /// Converted norms, in the graph's order.
    pub converted: Vec<ConvertedNorm>,
    /// Norms that are not converted, in the graph's order.
    pub unconverted: Vec<UnconvertedNorm>,
    /// The steps that states go through.
    pub parameters: ParameterChanges,
    /// Values whose mean is subtracted, with the node inputs that read the result.
    pub recentred: BTreeMap<Lines, BTreeSet<NodeInput>>,
    /// Multiplications that parameters have absorbed, with the input that replaces their result.
    pub absorbed: BTreeMap<NodeId, ValueId>,
    /// Values that lack the last element along an axis.
    pub compressed: BTreeSet<Lines>,
    /// Node inputs that read such a compressed value without completing it; other node inputs read it with the missing
    /// element.
    pub reads_compressed: BTreeSet<NodeInput>,
    /// Node inputs that read a complete value without its last element along an axis: a value of mean zero, or one with
    /// constant lines beside an operand that lacks that element.
    pub compresses: BTreeMap<NodeInput, usize>,
}

impl Conversion {
    /// The conversion of the graph of a forward phase. `keeps` says whether states keep their shapes.
    pub(crate) fn of(facts: &Facts<'_>, options: &NormOptions<'_>, (means, keeps): (Means, bool)) -> Conversion {
        let centrings = Centrings::of(facts, options.can_recentre, !keeps);
        let norms = norms(facts);
        let is_replaceable = |node: NodeId| has_no_statistic(facts, node) && (options.can_convert)(node);
        let candidates: Vec<Candidate> = norms
            .iter()
            .filter(|(node, _)| is_replaceable(*node))
            .filter_map(|&(node, lines)| {
                let subtracted = centrings.get(lines)?.subtracted.clone();
                Some(Candidate { node, subtracted })
            })
            .collect();
        let chosen = match means {
            Means::Fewer => worthwhile(&candidates),
            Means::Any => candidates.iter().map(|candidate| candidate.node).collect(),
        };
        let mut conversion = Conversion {
            target: options.target,
            keeps_states: keeps,
            converted: Vec::new(),
            unconverted: Vec::new(),
            parameters: ParameterChanges::default(),
            recentred: BTreeMap::new(),
            absorbed: BTreeMap::new(),
            compressed: BTreeSet::new(),
            reads_compressed: BTreeSet::new(),
            compresses: BTreeMap::new(),
        };
        let mut seen = BTreeSet::new();
        for (node, lines) in norms {
            if chosen.contains(&node) {
                let at = NodeInput { node, input: 0 };
                conversion.demand(facts, &centrings, lines, at, &mut seen);
                conversion.convert(facts, node);
            } else if !is_replaceable(node) {
                let obstacles = vec![(facts.graph.nodes[node.index()].outputs[0], Obstacle::Statistic)];
                conversion.unconverted.push(UnconvertedNorm { node, obstacles });
            } else {
                conversion.leave(facts, node, centrings.get(lines));
            }
        }
        conversion
    }

    fn is_compressing(&self) -> bool {
        self.target == NormTarget::Crms
    }

    /// Records how the lines that a node input reads get mean zero.
    fn demand(
        &mut self,
        facts: &Facts<'_>,
        centrings: &Centrings<'_>,
        lines: Lines,
        at: NodeInput,
        seen: &mut BTreeSet<Lines>,
    ) {
        let mut open = vec![(lines, at)];
        while let Some((lines, at)) = open.pop() {
            let way = centrings.get(lines).expect("the way of a chosen norm has ways");
            let is_compressing = self.is_compressing();
            match &way.method {
                Method::Centred if is_compressing => {
                    self.compresses.insert(at, lines.axis);
                }
                Method::Centred => {}
                Method::Subtracted => {
                    self.recentred.entry(lines).or_default().insert(at);
                }
                Method::AheadOfTime | Method::ThroughInputs | Method::Scaled { .. } => {
                    if is_compressing {
                        self.compressed.insert(lines);
                        self.reads_compressed.insert(at);
                    }
                    if seen.insert(lines) {
                        self.expand(facts, lines, &way.method, &mut open);
                    }
                }
            }
        }
    }

    /// Records the changes of the values that lines are computed from.
    fn expand(&mut self, facts: &Facts<'_>, lines: Lines, method: &Method, open: &mut Vec<(Lines, NodeInput)>) {
        let is_compressing = self.is_compressing();
        match *method {
            Method::AheadOfTime => self.parameters.centre(lines, is_compressing && !self.keeps_states),
            Method::Scaled { of, by } => {
                let node = facts.graph.producer(lines.value).expect("a product");
                self.absorbed.insert(node, of.value);
                self.scale(facts, of, by);
            }
            _ => {
                let node = facts.graph.producer(lines.value).expect("linear in inputs");
                let inputs = &facts.graph.nodes[node.index()].inputs;
                for term in facts.terms(lines) {
                    let places = inputs.iter().enumerate().filter(|(_, value)| **value == term.value);
                    open.extend(places.map(|(input, _)| (term, NodeInput { node, input })));
                }
                if is_compressing {
                    self.compress_constants(facts, node, lines);
                }
            }
        }
    }

    /// Makes a node whose result lacks an element along an axis read constant operands, such as a broadcast number,
    /// without that element, if their extents have to be equal.
    fn compress_constants(&mut self, facts: &Facts<'_>, id: NodeId, lines: Lines) {
        let node = &facts.graph.nodes[id.index()];
        let terms = facts.terms(lines);
        let mut types = facts.graph.input_types(node);
        for (ty, &value) in types.iter_mut().zip(&node.inputs) {
            if let Some(term) = terms.iter().find(|term| term.value == value) {
                ty.shape[term.axis] = ty.shape[term.axis].saturating_sub(1);
            }
        }
        if node.op.infer_checked(&types).is_ok() {
            return;
        }
        let shape = &facts.graph.ty(lines.value).shape;
        for (input, &value) in node.inputs.iter().enumerate() {
            let constant = Lines::of(value, lines.axis);
            let is_beside = facts.graph.ty(value).shape == *shape && facts.is_constant(constant);
            if is_beside && !terms.contains(&constant) {
                self.compresses.insert(NodeInput { node: id, input }, lines.axis);
            }
        }
    }

    /// Multiplies the states that lines are linear in by factors, and recentres them.
    fn scale(&mut self, facts: &Facts<'_>, of: Lines, by: Lines) {
        let mut open = vec![of];
        while let Some(lines) = open.pop() {
            if self.is_compressing() {
                self.compressed.insert(lines);
                self.reads_compressed.extend(facts.only_use(lines.value));
            }
            if facts.graph.input(lines.value).is_some() {
                let (axis, by) = (lines.axis, by.value);
                self.parameters.add(lines.value, ParameterStep::Scale { axis, by });
                self.parameters.centre(lines, self.is_compressing());
            }
            open.extend(facts.terms(lines));
        }
    }

    /// Records the conversion of a norm whose input has mean zero.
    fn convert(&mut self, facts: &Facts<'_>, node: NodeId) {
        let norm = &facts.graph.nodes[node.index()];
        let centred = when_centred(facts.graph, norm).expect("a norm");
        let [scale, shift] = [centred.scale, centred.shift].map(|input| norm.inputs[input]);
        let last = facts.graph.ty(norm.outputs[0]).rank() - 1;
        let linear_readers = linear_readers(facts, Lines::of(norm.outputs[0], last));
        let folds = !self.keeps_states;
        let is_compressed = folds && self.is_compressing() && self.fold_scale(facts, scale, linear_readers.as_deref());
        let is_gone = facts.known[shift.index()] == Some(0.0)
            || (folds && self.fold_shift(facts, shift, linear_readers.as_deref()));
        // A shift, which has all elements, cannot be added to rows that lack one.
        let is_compressed = is_compressed && is_gone;
        if let (true, Some(linear_readers)) = (is_compressed, &linear_readers) {
            self.compress_weights(facts, scale, linear_readers);
            let last = Lines::of(norm.outputs[0], last);
            self.compressed.insert(last);
            for reader in linear_readers {
                self.compressed.extend(reader.path.iter().map(|(lines, _)| *lines));
                self.reads_compressed.extend(reader.path.iter().map(|(_, at)| *at));
            }
        }
        self.converted.push(ConvertedNorm {
            node,
            shift: if is_gone { NormShift::Absorbed } else { NormShift::Added },
            is_compressed,
        });
    }

    /// Whether the weights of the layers that read a norm can absorb its scale, so that these layers read rows without
    /// their last element.
    fn fold_scale(&self, facts: &Facts<'_>, scale: ValueId, linear_readers: Option<&[LinearReader]>) -> bool {
        let is_one = facts.known[scale.index()] == Some(1.0);
        let is_state = facts.state_of(Lines::of(scale, 0)).is_some();
        linear_readers.is_some_and(|all| !all.is_empty()) && (is_one || is_state)
    }

    /// Absorbs the shift of a norm into the biases of the layers that read it, if each has a bias of its own.
    fn fold_shift(&mut self, facts: &Facts<'_>, shift: ValueId, linear_readers: Option<&[LinearReader]>) -> bool {
        let Some(vector) = facts.state_of(Lines::of(shift, 0)) else {
            return false;
        };
        let Some(linear_readers) = linear_readers.filter(|all| !all.is_empty()) else {
            return false;
        };
        if linear_readers.iter().any(|reader| reader.bias.is_none()) {
            return false;
        }
        for LinearReader { weight, bias, .. } in linear_readers {
            let step = ParameterStep::AddProduct {
                weight: weight.value,
                inner: weight.axis,
                vector: vector.value,
            };
            self.parameters.add(bias.expect("checked above").value, step);
        }
        true
    }

    fn compress_weights(&mut self, facts: &Facts<'_>, scale: ValueId, linear_readers: &[LinearReader]) {
        let by = facts.state_of(Lines::of(scale, 0)).map(|state| state.value);
        for LinearReader { weight, operand, .. } in linear_readers {
            let Lines { value, axis } = *weight;
            if let Some(by) = by {
                self.parameters.add(value, ParameterStep::Scale { axis, by });
            }
            self.parameters.add(value, ParameterStep::LessLast { axis });
            for (lines, at) in facts.way_from_state(*operand) {
                self.compressed.insert(lines);
                self.reads_compressed.insert(at);
            }
        }
    }

    fn leave(&mut self, facts: &Facts<'_>, node: NodeId, way: Option<&Centring>) {
        let input = facts.graph.nodes[node.index()].inputs[0];
        let subtracted = way.map(|way| way.subtracted.iter().copied().collect());
        let lines: Vec<Lines> = subtracted.unwrap_or_else(|| vec![Lines::of(input, facts.graph.ty(input).rank() - 1)]);
        let stop = |lines: Lines| (lines.value, facts.obstacle(lines));
        self.unconverted.push(UnconvertedNorm {
            node,
            obstacles: lines.into_iter().map(stop).collect(),
        });
    }
}

/// Whether nothing reads a result of a norm but its first one.
fn has_no_statistic(facts: &Facts<'_>, node: NodeId) -> bool {
    let is_read = |value: &ValueId| !facts.uses[value.index()].is_empty() || facts.is_result[value.index()];
    !facts.graph.nodes[node.index()].outputs[1..].iter().any(is_read)
}

/// The replacement of a node where its input has mean zero, if it is a norm.
pub(super) fn when_centred(graph: &Graph, node: &Node) -> Option<WhenCentred> {
    let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
    graph.ask(node, &inputs, &outputs).when_centred()
}

/// The norms with a mean, and the lines that they normalize.
fn norms(facts: &Facts<'_>) -> Vec<(NodeId, Lines)> {
    let nodes = facts.graph.nodes.iter().enumerate();
    let norms = nodes.filter(|(_, node)| when_centred(facts.graph, node).is_some());
    norms
        .map(|(i, node)| {
            let input = node.inputs[0];
            (NodeId(i as u32), Lines::of(input, facts.graph.ty(input).rank() - 1))
        })
        .collect()
}
