//! Products of matrices.

use std::collections::HashMap;

use lessen_base::Result;
use lessen_graph::ops::MatMul;
use lessen_graph::{Graph, Named, ValueId};

use super::elementwise::attributes;
use super::{Operation, always};
use crate::export::emitter::Emitter;
use crate::export::writer::ints;

pub(super) const OPERATIONS: &[Operation] = &[always(MatMul::NAME, matmul)];

/// For each value that is read, whether it is only read as a matrix that is stored transposed.
pub(crate) fn only_transposed(graph: &Graph) -> HashMap<ValueId, bool> {
    let mut found = HashMap::new();
    for node in &graph.nodes {
        let product = node.op.downcast_ref::<MatMul>();
        for (place, value) in node.inputs.iter().enumerate() {
            let is_matrix = graph.ty(*value).rank() == 2;
            let transposes = is_matrix && place == 1 && product.is_some_and(|product| product.transpose_b);
            let all = found.entry(*value).or_insert(true);
            *all &= transposes;
        }
    }
    found
}

fn matmul(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let MatMul {
        transpose_a,
        transpose_b,
        ..
    } = *attributes::<MatMul>(e, node)?;
    let (inputs, output) = (&e.node(node).inputs, e.node(node).outputs[0]);
    let a = factor(e, inputs[0], transpose_a)?;
    let b = match e.transposed_parameter(inputs[1])? {
        Some(name) if transpose_b => name,
        _ => factor(e, inputs[1], transpose_b)?,
    };
    let name = e.writer.one("MatMul", &[&a, &b], vec![]);
    e.set(output, name);
    Ok(())
}

/// A factor, with its last two axes swapped where it is stored transposed.
fn factor(e: &mut Emitter<'_>, value: ValueId, transposed: bool) -> Result<String> {
    let name = e.plain(value)?;
    if !transposed {
        return Ok(name);
    }
    let rank = e.shape(value).len();
    let mut axes: Vec<i64> = (0..rank as i64).collect();
    axes.swap(rank - 1, rank - 2);
    e.once(format!("swapped {name}"), |e| {
        Ok(e.writer.one("Transpose", &[&name], vec![ints("perm", &axes)]))
    })
}
