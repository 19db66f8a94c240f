//! Attention: as the operator of version 23, or as products with a softmax between, in the order that ONNX Runtime runs
//! fast: heads first, a mask that is added.

use lessen_base::{Error, Result};
use lessen_graph::ops::attention::{Attention, AttentionBias, AttentionSizes, Weighting, alibi_slope};
use lessen_graph::ops::{Broadcast, Concat};
use lessen_graph::{Array, DType, Named, Op, Type, ValueId};

use super::Operation;
use super::norms::reduction;
use super::parameters::{attributes, scalar};
use super::sources::counted;
use crate::export::emitter::Emitter;
use crate::export::writer::{float, int, ints};

pub(super) const OPERATIONS: &[Operation] = &[Operation {
    name: Attention::NAME,
    fits,
    emit: attention,
}];

/// The number that hides a key: the least that is finite, so that no row is without a number.
const HIDDEN: f64 = f32::MIN as f64;

/// Whether it is softmax of scores with no bias but ALiBi, of sequences with rows of their own. With a mask, causal
/// attention has queries without a key at any place; its decomposition gives them zeros.
fn fits(op: &dyn Op) -> bool {
    op.downcast_ref::<Attention>().is_some_and(|op| {
        op.weighting == Weighting::Softmax
            && op.bias != AttentionBias::Fire
            && op.p == 0.0
            && !op.segmented
            && !op.placed
            && !(op.causal && op.masked)
    })
}

/// Queries, keys and what is added to their scores.
struct Scores {
    q: ValueId,
    k: ValueId,
    /// Added scores, which broadcast to `[B, H, Tq, Tk]`.
    added: Option<String>,
}

fn attention(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let op = *attributes::<Attention>(e, node)?;
    let (inputs, output) = (e.node(node).inputs.clone(), e.node(node).outputs[0]);
    let graph = e.family.graph();
    let n = AttentionSizes::of(graph.ty(inputs[0]), graph.ty(inputs[1]), graph.ty(inputs[2]));
    let mask = op.masked.then(|| inputs[3]);
    if op.causal && e.shape(inputs[0])[1] != e.shape(inputs[1])[1] {
        return Err(Error::user("causal attention has other numbers of queries and keys"));
    }
    let scores = apart(e, &op, inputs[0], inputs[1])?;
    let hidden = hidden(e, &op, mask, &inputs, n.heads)?;
    let added = match (scores.added, hidden) {
        (Some(a), Some(b)) => Some(sum_with_heads(e, &a, &b)?),
        (a, b) => a.or(b),
    };
    let result = if e.opset >= 23 {
        as_operator(e, &op, [scores.q, scores.k, inputs[2]], added)?
    } else {
        as_products(e, &op, [scores.q, scores.k, inputs[2]], added, n)?
    };
    // A sequence without a key has zeros, not the mean of its values.
    let result = match mask {
        Some(mask) => {
            let any = any(e, mask)?;
            e.writer.one("Mul", &[&result, &any], vec![])
        }
        None => result,
    };
    e.set(output, result);
    Ok(())
}

/// The operator `Attention`, on heads first.
fn as_operator(e: &mut Emitter<'_>, op: &Attention, qkv: [ValueId; 3], added: Option<String>) -> Result<String> {
    let mut names = Vec::new();
    for value in qkv {
        let name = e.plain(value)?;
        names.push(swapped(e, &name, &[0, 2, 1, 3]));
    }
    if let Some(added) = added {
        // ONNX Runtime does not repeat them for queries.
        let queries = e.shape(qkv[0])[1].clone();
        names.push(e.once(format!("for queries {added} {queries:?}"), |e| {
            let shape = [e.fixed(1), e.fixed(1), queries, e.fixed(1)];
            let shape = e.sizes(&shape);
            Ok(e.writer.one("Expand", &[&added, &shape], vec![]))
        })?);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let y = e.writer.one("Attention", &names, vec![float("scale", op.scale)]);
    Ok(swapped(e, &y, &[0, 2, 1, 3]))
}

/// Two products and a softmax. Where heads share keys and values, the heads of a group have an axis of their own.
fn as_products(
    e: &mut Emitter<'_>,
    op: &Attention,
    [q, k, v]: [ValueId; 3],
    added: Option<String>,
    n: AttentionSizes,
) -> Result<String> {
    let shares = n.heads != n.kv_heads;
    let [queries, keys, values] = [e.plain(q)?, e.plain(k)?, e.plain(v)?];
    let dtype = e.dtype(q);
    let queries = if op.scale == 1.0 {
        queries
    } else {
        let scale = scalar(e, dtype, op.scale);
        e.writer.one("Mul", &[&queries, &scale], vec![])
    };
    let (queries, keys, values) = if shares {
        let (groups, shared) = (n.kv_heads as i64, (n.heads / n.kv_heads) as i64);
        let shape = e.writer.ints(&[0, 0, groups, shared, n.head as i64]);
        let queries = e.writer.one("Reshape", &[&queries, &shape], vec![]);
        let axes = e.writer.ints(&[2]);
        let keys = swapped(e, &keys, &[0, 2, 3, 1]);
        let values = swapped(e, &values, &[0, 2, 1, 3]);
        (
            swapped(e, &queries, &[0, 2, 3, 1, 4]),
            e.writer.one("Unsqueeze", &[&keys, &axes], vec![]),
            e.writer.one("Unsqueeze", &[&values, &axes], vec![]),
        )
    } else {
        (
            swapped(e, &queries, &[0, 2, 1, 3]),
            swapped(e, &keys, &[0, 2, 3, 1]),
            swapped(e, &values, &[0, 2, 1, 3]),
        )
    };
    let mut scores = e.writer.one("MatMul", &[&queries, &keys], vec![]);
    if let Some(added) = added {
        let added = if shares { grouped(e, &added, n)? } else { added };
        scores = e.writer.one("Add", &[&scores, &added], vec![]);
    }
    let weights = e.writer.one("Softmax", &[&scores], vec![int("axis", -1)]);
    let result = e.writer.one("MatMul", &[&weights, &values], vec![]);
    if !shares {
        return Ok(swapped(e, &result, &[0, 2, 1, 3]));
    }
    let result = swapped(e, &result, &[0, 3, 1, 2, 4]);
    let shape = e.writer.ints(&[0, 0, n.heads as i64, n.value as i64]);
    Ok(e.writer.one("Reshape", &[&result, &shape], vec![]))
}

/// Added scores `[B or 1, H or 1, Tq or 1, Tk]` with an axis for the heads of a group.
fn grouped(e: &mut Emitter<'_>, added: &str, n: AttentionSizes) -> Result<String> {
    let has_heads = e.shared.contains_key(&format!("has heads {added}"));
    let (groups, shared) = (n.kv_heads as i64, (n.heads / n.kv_heads) as i64);
    let added = added.to_string();
    e.once(format!("grouped {groups} {added}"), |e| {
        if !has_heads {
            let axes = e.writer.ints(&[2]);
            return Ok(e.writer.one("Unsqueeze", &[&added, &axes], vec![]));
        }
        // The sizes of the axes around the heads are kept.
        let part = |e: &mut Emitter<'_>, start: i64, end: i64| {
            let attributes = vec![int("start", start), int("end", end)];
            e.writer.one("Shape", &[&added], attributes)
        };
        let (before, after) = (part(e, 0, 1), part(e, 2, 4));
        let heads = e.writer.ints(&[groups, shared]);
        let shape = e.writer.one("Concat", &[&before, &heads, &after], vec![int("axis", 0)]);
        Ok(e.writer.one("Reshape", &[&added, &shape], vec![]))
    })
}

fn swapped(e: &mut Emitter<'_>, name: &str, axes: &[i64]) -> String {
    e.writer.one("Transpose", &[name], vec![ints("perm", axes)])
}

/// The scores of queries and keys that were joined with elements which all sequences share, as the scores of the rest
/// and the product of these elements, which is the same in all layers.
fn apart(e: &mut Emitter<'_>, op: &Attention, q: ValueId, k: ValueId) -> Result<Scores> {
    let whole = Scores { q, k, added: None };
    let (Some([q, more_q]), Some([k, more_k])) = (joined(e, q), joined(e, k)) else {
        return Ok(whole);
    };
    let same_width = e.shape(q)[3] == e.shape(k)[3];
    let (Some(more_q), Some(more_k)) = (repeated(e, more_q), repeated(e, more_k)) else {
        return Ok(whole);
    };
    if !same_width || e.shape(more_q)[2] != e.shape(q)[2] {
        return Ok(whole);
    }
    let (queries, keys) = (e.plain(more_q)?, e.plain(more_k)?);
    let (dtype, scale) = (e.dtype(q), op.scale);
    let added = e.once(format!("joined {queries} {keys} {scale:?}"), |e| {
        let queries = swapped(e, &queries, &[0, 2, 1, 3]);
        let keys = swapped(e, &keys, &[0, 2, 3, 1]);
        let product = e.writer.one("MatMul", &[&queries, &keys], vec![]);
        let scale = scalar(e, dtype, scale);
        Ok(e.writer.one("Mul", &[&product, &scale], vec![]))
    })?;
    e.shared.insert(format!("has heads {added}"), String::new());
    Ok(Scores {
        q,
        k,
        added: Some(added),
    })
}

/// The two parts that a value joins along its last axis.
fn joined(e: &Emitter<'_>, value: ValueId) -> Option<[ValueId; 2]> {
    let node = e.producer(value)?;
    let concat = node.op.downcast_ref::<Concat>()?;
    let parts: [ValueId; 2] = node.inputs.clone().try_into().ok()?;
    (concat.axis == 3).then_some(parts)
}

/// What a value repeats for each sequence.
fn repeated(e: &Emitter<'_>, value: ValueId) -> Option<ValueId> {
    let node = e.producer(value)?;
    let inner = node.inputs.first().copied()?;
    let is_repeated = node.op.is::<Broadcast>() && matches!(e.shape(inner), [batch, ..] if batch.is_one());
    (is_repeated && e.shape(inner).len() == 4).then_some(inner)
}

/// What is added to scores: the bias of positions, and a great negative number where a query does not see a key.
fn hidden(
    e: &mut Emitter<'_>,
    op: &Attention,
    mask: Option<ValueId>,
    inputs: &[ValueId],
    heads: usize,
) -> Result<Option<String>> {
    let dtype = e.dtype(inputs[0]);
    let (queries, keys) = (e.shape(inputs[0])[1].clone(), e.shape(inputs[1])[1].clone());
    let hidden = if let Some(mask) = mask {
        let mask = e.plain(mask)?;
        Some(e.once(format!("hidden {mask}"), |e| {
            let axes = e.writer.ints(&[1, 2]);
            let visible = e.writer.one("Unsqueeze", &[&mask, &axes], vec![]);
            Ok(added_where_hidden(e, &visible, dtype))
        })?)
    } else if op.causal {
        Some(e.once(format!("past {queries:?}"), |e| {
            let (rows, columns) = positions(e, &queries, &keys, DType::I32)?;
            let past = e.writer.one("LessOrEqual", &[&columns, &rows], vec![]);
            let axes = e.writer.ints(&[0, 1]);
            let visible = e.writer.one("Unsqueeze", &[&past, &axes], vec![]);
            Ok(added_where_hidden(e, &visible, dtype))
        })?)
    } else {
        None
    };
    if op.bias != AttentionBias::Alibi {
        return Ok(hidden);
    }
    let biases = e.once(format!("alibi {heads} {queries:?} {keys:?} {dtype:?}"), |e| {
        let (rows, columns) = positions(e, &queries, &keys, dtype)?;
        let differences = e.writer.one("Sub", &[&rows, &columns], vec![]);
        let distances = e.writer.one("Abs", &[&differences], vec![]);
        let slopes = (0..heads).map(|head| -alibi_slope(head, heads)).collect();
        let slopes = e.constant(&Array::new(Type::new(dtype, &[1, heads, 1, 1]), slopes))?;
        Ok(e.writer.one("Mul", &[&distances, &slopes], vec![]))
    })?;
    e.shared.insert(format!("has heads {biases}"), String::new());
    match hidden {
        Some(hidden) => sum_with_heads(e, &biases, &hidden).map(Some),
        None => Ok(Some(biases)),
    }
}

/// Zero where a key is visible, and a great negative number elsewhere.
fn added_where_hidden(e: &mut Emitter<'_>, visible: &str, dtype: DType) -> String {
    let [zero, hidden] = [0.0, HIDDEN].map(|number| scalar(e, dtype, number));
    e.writer.one("Where", &[visible, &zero, &hidden], vec![])
}

/// The sum of added scores, of which the first have an axis of heads.
fn sum_with_heads(e: &mut Emitter<'_>, a: &str, b: &str) -> Result<String> {
    let sum = e.once(format!("sum {a:?} {b:?}"), |e| Ok(e.writer.one("Add", &[a, b], vec![])))?;
    e.shared.insert(format!("has heads {sum}"), String::new());
    Ok(sum)
}

/// The names of the positions of queries, `[Tq, 1]`, and keys, `[Tk]`: the last query is at the last key.
fn positions(
    e: &mut Emitter<'_>,
    queries: &crate::export::extent::Extent,
    keys: &crate::export::extent::Extent,
    dtype: DType,
) -> Result<(String, String)> {
    let columns = counted(e, dtype, keys)?;
    let rows = counted(e, dtype, queries)?;
    let axes = e.writer.ints(&[1]);
    let rows = e.once(format!("column {rows}"), |e| {
        Ok(e.writer.one("Unsqueeze", &[&rows, &axes], vec![]))
    })?;
    if queries == keys {
        return Ok((rows, columns));
    }
    let [queries, keys] = [queries, keys].map(|size| e.scalar_size(size));
    let mut offset = e.writer.one("Sub", &[&keys, &queries], vec![]);
    if dtype != DType::I32 {
        let to = e.element(dtype)?;
        offset = e.writer.one("Cast", &[&offset], vec![int("to", to.into())]);
    }
    Ok((e.writer.one("Add", &[&rows, &offset], vec![]), columns))
}

/// 1 for each sequence with a key that may be seen, else 0: `[B, 1, 1, 1]`.
fn any(e: &mut Emitter<'_>, mask: ValueId) -> Result<String> {
    let mask = e.plain(mask)?;
    e.once(format!("any {mask}"), |e| {
        let to = e.element(DType::F32)?;
        let numbers = e.writer.one("Cast", &[&mask], vec![int("to", to.into())]);
        let any = reduction(e, "ReduceMax", &numbers, &[1], true);
        let axes = e.writer.ints(&[2, 3]);
        Ok(e.writer.one("Unsqueeze", &[&any, &axes], vec![]))
    })
}
