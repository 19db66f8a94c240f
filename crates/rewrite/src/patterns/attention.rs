//! Attention in products, a softmax, and operations between them.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_graph::ops::{
    Attention, Binary, BinaryKind, Broadcast, Cast, Compare, Identity, MatMul, Permute, Reshape, Select, Softmax,
};
use lessen_graph::{Array, Graph, Node, Op, ValueId};

use super::norm_parts::known_numbers;
use super::replace::{Pattern, replaced};
use crate::rewriter::Rewriter;

/// Scores below this have no weight in a softmax of `f32`.
const HIDDEN: f64 = -1e4;

/// Replaces attention by one operation each, and drops nodes that nothing reads any more. `constants` holds the
/// elements of states that never change: a mask of scores must be one of them.
pub fn recognize_attention(graph: &Graph, constants: &HashMap<ValueId, &Array>) -> Graph {
    let finder = Finder::of(graph, constants);
    replaced(graph, |node| finder.attention(node)).0
}

/// An attention that was found. Queries, keys and values have the axis of heads before that of tokens, or no axis of
/// heads.
struct Found {
    q: ValueId,
    /// Keys, and whether their last two axes are exchanged.
    k: (ValueId, bool),
    v: ValueId,
    scale: f64,
    causal: bool,
}

impl Pattern for Found {
    fn inputs(&self) -> Vec<ValueId> {
        vec![self.q, self.k.0, self.v]
    }

    fn write(&self, rewriter: &mut Rewriter<'_>, graph: &Graph, node: &Node) -> ValueId {
        let (phase, scope) = (node.phase, &node.scope);
        let has_heads = graph.ty(self.q).rank() == 4;
        let inputs = [(self.q, false), self.k, (self.v, false)];
        let operands = inputs.map(|(value, is_exchanged)| operand(rewriter, graph, node, value, is_exchanged));
        let op = Attention {
            scale: self.scale,
            causal: self.causal,
            ..Attention::default()
        };
        let y = rewriter.push(Arc::new(op), &operands, phase, scope)[0];
        let back: Arc<dyn Op> = if has_heads {
            Arc::new(Permute { axes: vec![0, 2, 1, 3] })
        } else {
            Arc::new(Reshape {
                shape: graph.ty(node.outputs[0]).shape.to_vec(),
            })
        };
        rewriter.push(back, &[y], phase, scope)[0]
    }
}

/// An operand as attention reads it: tokens before heads; one head where there are none.
fn operand(rewriter: &mut Rewriter<'_>, graph: &Graph, node: &Node, value: ValueId, is_exchanged: bool) -> ValueId {
    let shape = &graph.ty(value).shape;
    let mut x = rewriter.get(value);
    let axes: &[usize] = match (shape.len(), is_exchanged) {
        (4, false) => &[0, 2, 1, 3],
        (4, true) => &[0, 3, 1, 2],
        (_, false) => &[0, 1, 2],
        (_, true) => &[0, 2, 1],
    };
    if shape.len() == 4 || is_exchanged {
        let permute = Permute { axes: axes.to_vec() };
        x = rewriter.push(Arc::new(permute), &[x], node.phase, &node.scope)[0];
    }
    if shape.len() == 3 {
        let shape = vec![shape[axes[0]], shape[axes[1]], 1, shape[axes[2]]];
        x = rewriter.push(Arc::new(Reshape { shape }), &[x], node.phase, &node.scope)[0];
    }
    x
}

/// The keys that queries see.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sight {
    All,
    Causal,
}

struct Finder<'a> {
    graph: &'a Graph,
    constants: &'a HashMap<ValueId, &'a Array>,
    known: Vec<Option<f64>>,
}

impl Finder<'_> {
    fn of<'a>(graph: &'a Graph, constants: &'a HashMap<ValueId, &'a Array>) -> Finder<'a> {
        Finder {
            graph,
            constants,
            known: known_numbers(graph),
        }
    }

    fn producer(&self, value: ValueId) -> Option<&Node> {
        Some(&self.graph.nodes[self.graph.producer(value)?.index()])
    }

    /// The attention that ends in this product of weights and values.
    fn attention(&self, node: &Node) -> Option<Found> {
        let product = node.op.downcast_ref::<MatMul>()?;
        let rank = self.graph.ty(node.outputs[0]).rank();
        if *product != MatMul::default() || !(3..=4).contains(&rank) {
            return None;
        }
        let (weights, v) = (node.inputs[0], node.inputs[1]);
        if self.graph.ty(v).rank() != rank {
            return None;
        }
        let softmax = self.producer(self.weights(weights)?)?;
        let mut found = self.scores(softmax.inputs[0], rank)?;
        found.v = v;
        Some(found)
    }

    /// The softmax that weights are: itself, with zeros in place of NaN, or with NaN in rows that see nothing.
    fn weights(&self, value: ValueId) -> Option<ValueId> {
        let node = self.producer(value)?;
        if node.op.is::<Softmax>() {
            return Some(value);
        }
        if node.op.is::<Cast>() || node.op.is::<Identity>() {
            return self.weights(node.inputs[0]);
        }
        if let (&[softmax, nothing], Some(Binary { kind: BinaryKind::Add })) =
            (&node.inputs[..], node.op.downcast_ref::<Binary>())
        {
            return self.weights(softmax).filter(|_| self.is_nothing_or_nan(nothing));
        }
        if node.op.is::<Select>() && self.known[node.inputs[1].index()] == Some(0.0) {
            let softmax = self.weights(node.inputs[2])?;
            return self.is_nan_of(node.inputs[0], node.inputs[2]).then_some(softmax);
        }
        None
    }

    /// Whether a value is a product with zero, which is NaN for numbers that are not finite.
    fn is_nothing_or_nan(&self, value: ValueId) -> bool {
        let Some(node) = self.producer(value) else { return false };
        if node.op.is::<Broadcast>() {
            return self.is_nothing_or_nan(node.inputs[0]);
        }
        let is_product = node
            .op
            .downcast_ref::<Binary>()
            .is_some_and(|own| own.kind == BinaryKind::Mul);
        is_product && node.inputs.iter().any(|input| self.known[input.index()] == Some(0.0))
    }

    /// Whether a truth value says where another value differs from itself.
    fn is_nan_of(&self, mut condition: ValueId, value: ValueId) -> bool {
        while let Some(node) = self.producer(condition) {
            if node.op.is::<Compare>() && node.inputs == [value, value] {
                return true;
            }
            let is_step = node.op.is::<Compare>() || node.op.is::<Cast>() || node.op.is::<Select>();
            let Some(&next) = node.inputs.first().filter(|_| is_step) else {
                return false;
            };
            condition = next;
        }
        false
    }

    /// Queries, keys, scale and mask of scores; values are not known yet.
    fn scores(&self, mut value: ValueId, rank: usize) -> Option<Found> {
        let (mut scale, mut sight) = (1.0, Sight::All);
        loop {
            let node = self.producer(value)?;
            if let Some(product) = node.op.downcast_ref::<MatMul>() {
                let [(q, of_q), (k, of_k)] = [0, 1].map(|input| self.unscaled(node.inputs[input]));
                let fits = !product.transpose_a && !product.widens && self.graph.ty(k).rank() == rank;
                return fits.then_some(Found {
                    q,
                    k: (k, !product.transpose_b),
                    v: k,
                    scale: scale * of_q * of_k,
                    causal: sight == Sight::Causal,
                });
            }
            let seen;
            (value, seen) = match node.op.downcast_ref::<Binary>().map(|binary| binary.kind) {
                Some(BinaryKind::Mul) => {
                    let (x, factor) = self.with_number(node)?;
                    scale *= factor;
                    (x, Sight::All)
                }
                Some(BinaryKind::Div) => {
                    scale /= self.known[node.inputs[1].index()]?;
                    (node.inputs[0], Sight::All)
                }
                // A term added before scores are scaled would be scaled, too; a mask stays a mask.
                Some(BinaryKind::Add) => self.with_mask(node)?,
                Some(_) => return None,
                None if node.op.is::<Select>() => self.selected(node)?,
                None if node.op.is::<Cast>() || node.op.is::<Identity>() => (node.inputs[0], Sight::All),
                None => return None,
            };
            if seen == Sight::Causal {
                sight = Sight::Causal;
            }
        }
    }

    /// The value that a value is a multiple of, and the factor.
    fn unscaled(&self, value: ValueId) -> (ValueId, f64) {
        let factor = self
            .producer(value)
            .and_then(|node| match node.op.downcast_ref::<Binary>()?.kind {
                BinaryKind::Mul => self.with_number(node),
                BinaryKind::Div => Some((node.inputs[0], 1.0 / self.known[node.inputs[1].index()]?)),
                _ => None,
            });
        let has_heads = |x: &ValueId| self.graph.ty(*x) == self.graph.ty(value);
        match factor.filter(|(x, _)| has_heads(x)) {
            Some((x, number)) => (x, number),
            None => (value, 1.0),
        }
    }

    /// The other factor of a product with a number, and the number.
    fn with_number(&self, node: &Node) -> Option<(ValueId, f64)> {
        let (a, b) = (node.inputs[0], node.inputs[1]);
        let number = |value: ValueId| self.known[value.index()];
        number(b)
            .map(|factor| (a, factor))
            .or_else(|| number(a).map(|factor| (b, factor)))
    }

    /// The other term of a sum with a mask, and the mask.
    fn with_mask(&self, node: &Node) -> Option<(ValueId, Sight)> {
        let (a, b) = (node.inputs[0], node.inputs[1]);
        let sight = |mask: ValueId| {
            self.sight(mask, &|x| {
                if x == 0.0 {
                    Some(true)
                } else {
                    (x <= HIDDEN).then_some(false)
                }
            })
        };
        sight(b)
            .map(|sight| (a, sight))
            .or_else(|| sight(a).map(|sight| (b, sight)))
    }

    /// Scores where a constant truth value holds, and a very negative number elsewhere.
    fn selected(&self, node: &Node) -> Option<(ValueId, Sight)> {
        let [condition, a, b] = node.inputs[..] else {
            return None;
        };
        let is_hidden = |value: ValueId| self.known[value.index()].is_some_and(|x| x <= HIDDEN);
        let truth = |x: f64| Some(x != 0.0);
        let lie = |x: f64| Some(x == 0.0);
        if is_hidden(b) {
            return Some((a, self.sight(condition, &truth)?));
        }
        is_hidden(a).then_some((b, self.sight(condition, &lie)?))
    }

    /// The keys that a mask lets queries see; none for another mask, or one that is not constant.
    fn sight(&self, mask: ValueId, is_visible: &dyn Fn(f64) -> Option<bool>) -> Option<Sight> {
        if let Some(number) = self.known[mask.index()] {
            return is_visible(number)?.then_some(Sight::All);
        }
        let shape = &self.graph.ty(mask).shape;
        let (queries, keys) = (*shape.get(shape.len().checked_sub(2)?)?, *shape.last()?);
        let mut base = mask;
        let array = loop {
            if let Some(array) = self.constants.get(&base) {
                break *array;
            }
            let node = self.producer(base)?;
            let is_step = node.op.is::<Broadcast>() || node.op.is::<Cast>() || node.op.is::<Identity>();
            base = *node.inputs.first().filter(|_| is_step)?;
        };
        let from = &array.ty.shape;
        let (rows, columns) = (*from.get(from.len().checked_sub(2)?)?, *from.last()?);
        if columns != keys || rows != queries {
            return None;
        }
        let (mut all, mut causal) = (true, true);
        for (i, &x) in array.data.iter().enumerate() {
            let visible = is_visible(x)?;
            let is_past = i % columns + queries <= i / columns % rows + keys;
            all &= visible;
            causal &= visible == is_past;
        }
        if all {
            return Some(Sight::All);
        }
        causal.then_some(Sight::Causal)
    }
}
