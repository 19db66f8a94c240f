//! Which norms become which, and what else changes for it.

use std::collections::{BTreeMap, BTreeSet};

use lessen_graph::{NodeId, ValueId};

use super::demand::{Candidate, Centring, Demands, How, worthwhile};
use super::facts::{Facts, Runs, Stop, Use};
use super::parameters::{ParameterChanges, ParameterStep};
use super::readers::{Destination, destinations};
use super::{Means, NormOptions};

/// What norms are converted to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NormTarget {
    /// RMSNorm.
    Rms,
    /// CRMSNorm: rows without their last element.
    Crms,
}

/// What becomes of the shift of a converted norm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shift {
    /// It is zero, or in the biases of the linear layers that read the norm.
    Gone,
    /// It is added to the norm's result.
    Added,
}

/// A norm that is converted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConvertedNorm {
    /// The node.
    pub node: NodeId,
    /// What becomes of its shift.
    pub shift: Shift,
    /// Whether its result lacks the last element, and its scale is in the weights of the layers that read it.
    pub is_compressed: bool,
}

/// A norm that is left as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftNorm {
    /// The node.
    pub node: NodeId,
    /// The values from which a mean would have to be subtracted, each with what would notice if it were recentred where
    /// it comes from.
    pub stopped_by: Vec<(ValueId, Stop)>,
}

/// A conversion: what changes of a graph.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// What norms are converted to.
    pub target: NormTarget,
    /// Whether states keep their shapes; see [`convert_norms_in_place`](super::convert_norms_in_place).
    pub keeps_states: bool,
    /// The norms that are converted, in the graph's order.
    pub converted: Vec<ConvertedNorm>,
    /// The norms that are not.
    pub left: Vec<LeftNorm>,
    /// What becomes of the states.
    pub parameters: ParameterChanges,
    /// Values whose mean is subtracted, and the uses that read the result.
    pub recentred: BTreeMap<Runs, BTreeSet<Use>>,
    /// Multiplications that are in the parameters now, and the input that stands for their results.
    pub absorbed: BTreeMap<NodeId, ValueId>,
    /// Values that lack the last element along an axis.
    pub compressed: BTreeSet<Runs>,
    /// The uses that read a compressed value as it is; others read it with the element that was left out.
    pub reads_compressed: BTreeSet<Use>,
    /// Uses that read a value without its last element along an axis, which the value itself has: one of mean zero, or
    /// one whose runs are constant, beside an operand that lacks that element.
    pub compresses: BTreeMap<Use, usize>,
}

impl Conversion {
    /// The conversion of a graph of a forward phase with so many means; states may have to keep their shapes.
    pub(crate) fn of(facts: &Facts<'_>, options: &NormOptions<'_>, (means, keeps): (Means, bool)) -> Conversion {
        let demands = Demands::of(facts, options.can_recentre, !keeps);
        let norms = norms(facts);
        let candidates: Vec<Candidate> = norms
            .iter()
            .filter_map(|&(node, runs)| {
                let explicit = demands.get(runs)?.explicit.clone();
                Some(Candidate { node, explicit })
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
            left: Vec::new(),
            parameters: ParameterChanges::default(),
            recentred: BTreeMap::new(),
            absorbed: BTreeMap::new(),
            compressed: BTreeSet::new(),
            reads_compressed: BTreeSet::new(),
            compresses: BTreeMap::new(),
        };
        let mut seen = BTreeSet::new();
        for (node, runs) in norms {
            if chosen.contains(&node) {
                let at = Use { node, input: 0 };
                conversion.demand(facts, &demands, runs, at, &mut seen);
                conversion.convert(facts, node);
            } else {
                conversion.leave(facts, node, demands.get(runs));
            }
        }
        conversion
    }

    fn is_compressing(&self) -> bool {
        self.target == NormTarget::Crms
    }

    /// Enters what makes the mean of runs zero, which a use reads.
    fn demand(&mut self, facts: &Facts<'_>, demands: &Demands<'_>, runs: Runs, at: Use, seen: &mut BTreeSet<Runs>) {
        let mut open = vec![(runs, at)];
        while let Some((runs, at)) = open.pop() {
            let way = demands.get(runs).expect("the way of a chosen norm has ways");
            let is_compressing = self.is_compressing();
            match &way.how {
                How::Centred if is_compressing => {
                    self.compresses.insert(at, runs.axis);
                }
                How::Centred => {}
                How::Explicit => {
                    self.recentred.entry(runs).or_default().insert(at);
                }
                How::Ahead | How::Through | How::Scaled { .. } => {
                    if is_compressing {
                        self.compressed.insert(runs);
                        self.reads_compressed.insert(at);
                    }
                    if seen.insert(runs) {
                        self.expand(facts, runs, &way.how, &mut open);
                    }
                }
            }
        }
    }

    /// Enters what a value's runs follow from.
    fn expand(&mut self, facts: &Facts<'_>, runs: Runs, how: &How, open: &mut Vec<(Runs, Use)>) {
        let is_compressing = self.is_compressing();
        match *how {
            How::Ahead => self.parameters.centre(runs, is_compressing && !self.keeps_states),
            How::Scaled { of, by } => {
                let node = facts.graph.producer(runs.value).expect("a product");
                self.absorbed.insert(node, of.value);
                self.scale(facts, of, by);
            }
            _ => {
                let node = facts.graph.producer(runs.value).expect("linear in inputs");
                let inputs = &facts.graph.nodes[node.index()].inputs;
                for term in facts.terms(runs) {
                    let places = inputs.iter().enumerate().filter(|(_, value)| **value == term.value);
                    open.extend(places.map(|(input, _)| (term, Use { node, input })));
                }
                if is_compressing {
                    self.compress_constants(facts, node, runs);
                }
            }
        }
    }

    /// Lets a node whose result lacks an element along an axis read operands without it whose runs are constant, such
    /// as a number that is broadcast, if their extents have to be the same.
    fn compress_constants(&mut self, facts: &Facts<'_>, id: NodeId, runs: Runs) {
        let node = &facts.graph.nodes[id.index()];
        let terms = facts.terms(runs);
        let mut types = facts.graph.input_types(node);
        for (ty, &value) in types.iter_mut().zip(&node.inputs) {
            if let Some(term) = terms.iter().find(|term| term.value == value) {
                ty.shape[term.axis] = ty.shape[term.axis].saturating_sub(1);
            }
        }
        if node.op.infer(&types).is_ok() {
            return;
        }
        let shape = &facts.graph.ty(runs.value).shape;
        for (input, &value) in node.inputs.iter().enumerate() {
            let constant = Runs::of(value, runs.axis);
            let is_beside = facts.graph.ty(value).shape == *shape && facts.is_constant(constant);
            if is_beside && !terms.contains(&constant) {
                self.compresses.insert(Use { node: id, input }, runs.axis);
            }
        }
    }

    /// Multiplies the states that runs are linear in by factors, and recentres them.
    fn scale(&mut self, facts: &Facts<'_>, of: Runs, by: Runs) {
        let mut open = vec![of];
        while let Some(runs) = open.pop() {
            if self.is_compressing() {
                self.compressed.insert(runs);
                self.reads_compressed.extend(facts.only_use(runs.value));
            }
            if facts.graph.input(runs.value).is_some() {
                let (axis, by) = (runs.axis, by.value);
                self.parameters.add(runs.value, ParameterStep::Scale { axis, by });
                self.parameters.centre(runs, self.is_compressing());
            }
            open.extend(facts.terms(runs));
        }
    }

    /// Enters the conversion of a norm whose input has mean zero.
    fn convert(&mut self, facts: &Facts<'_>, node: NodeId) {
        let norm = &facts.graph.nodes[node.index()];
        let centred = norm.op.when_centred().expect("a norm");
        let [scale, shift] = [centred.scale, centred.shift].map(|input| norm.inputs[input]);
        let last = facts.graph.ty(norm.outputs[0]).rank() - 1;
        let destinations = destinations(facts, Runs::of(norm.outputs[0], last));
        let folds = !self.keeps_states;
        let is_compressed = folds && self.is_compressing() && self.fold_scale(facts, scale, destinations.as_deref());
        let is_gone = facts.known[shift.index()] == Some(0.0)
            || (folds && self.fold_shift(facts, shift, destinations.as_deref()));
        // A shift cannot be added to rows that lack an element, which has a shift, too.
        let is_compressed = is_compressed && is_gone;
        if let (true, Some(destinations)) = (is_compressed, &destinations) {
            self.compress_weights(facts, scale, destinations);
            let last = Runs::of(norm.outputs[0], last);
            self.compressed.insert(last);
            for destination in destinations {
                self.compressed.extend(destination.path.iter().map(|(runs, _)| *runs));
                self.reads_compressed.extend(destination.path.iter().map(|(_, at)| *at));
            }
        }
        self.converted.push(ConvertedNorm {
            node,
            shift: if is_gone { Shift::Gone } else { Shift::Added },
            is_compressed,
        });
    }

    /// Whether the scale of a norm can be in the weights of the layers that read it, and these read rows without their
    /// last element.
    fn fold_scale(&self, facts: &Facts<'_>, scale: ValueId, destinations: Option<&[Destination]>) -> bool {
        let is_one = facts.known[scale.index()] == Some(1.0);
        let is_state = facts.state_of(Runs::of(scale, 0)).is_some();
        destinations.is_some_and(|all| !all.is_empty()) && (is_one || is_state)
    }

    /// Puts the shift of a norm into the biases of the layers that read it, if all have one that is only theirs.
    fn fold_shift(&mut self, facts: &Facts<'_>, shift: ValueId, destinations: Option<&[Destination]>) -> bool {
        let Some(vector) = facts.state_of(Runs::of(shift, 0)) else {
            return false;
        };
        let Some(destinations) = destinations.filter(|all| !all.is_empty()) else {
            return false;
        };
        if destinations.iter().any(|destination| destination.bias.is_none()) {
            return false;
        }
        for Destination { weight, bias, .. } in destinations {
            let step = ParameterStep::AddProduct {
                weight: weight.value,
                inner: weight.axis,
                vector: vector.value,
            };
            self.parameters.add(bias.expect("checked above").value, step);
        }
        true
    }

    fn compress_weights(&mut self, facts: &Facts<'_>, scale: ValueId, destinations: &[Destination]) {
        let by = facts.state_of(Runs::of(scale, 0)).map(|state| state.value);
        for Destination { weight, operand, .. } in destinations {
            let Runs { value, axis } = *weight;
            if let Some(by) = by {
                self.parameters.add(value, ParameterStep::Scale { axis, by });
            }
            self.parameters.add(value, ParameterStep::LessLast { axis });
            for (runs, at) in facts.way_from_state(*operand) {
                self.compressed.insert(runs);
                self.reads_compressed.insert(at);
            }
        }
    }

    fn leave(&mut self, facts: &Facts<'_>, node: NodeId, way: Option<&Centring>) {
        let input = facts.graph.nodes[node.index()].inputs[0];
        let explicit = way.map(|way| way.explicit.iter().copied().collect());
        let runs: Vec<Runs> = explicit.unwrap_or_else(|| vec![Runs::of(input, facts.graph.ty(input).rank() - 1)]);
        let stop = |runs: Runs| (runs.value, facts.stop(runs));
        self.left.push(LeftNorm {
            node,
            stopped_by: runs.into_iter().map(stop).collect(),
        });
    }
}

/// The nodes that are norms with a mean, of which only the first output is read, and the runs that they normalize.
fn norms(facts: &Facts<'_>) -> Vec<(NodeId, Runs)> {
    let nodes = facts.graph.nodes.iter().enumerate();
    let norms = nodes.filter(|(_, node)| {
        let is_read = |value: &ValueId| !facts.uses[value.index()].is_empty() || facts.is_result[value.index()];
        node.op.when_centred().is_some() && !node.outputs[1..].iter().any(is_read)
    });
    norms
        .map(|(i, node)| {
            let input = node.inputs[0];
            (NodeId(i as u32), Runs::of(input, facts.graph.ty(input).rank() - 1))
        })
        .collect()
}
