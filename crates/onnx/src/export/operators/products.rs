//! Products of matrices.

use std::collections::HashMap;

use lessen_base::Result;
use lessen_graph::ops::MatMul;
use lessen_graph::{Array, Graph, Named, Type, ValueId};

use super::parameters::attributes;
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
    if e.shape(output).len() == 4
        && e.is_channels_first(inputs[0])
        && !transpose_a
        && let Some(kernel) = pixel_kernel(e, inputs[1], transpose_b)?
    {
        let x = e.channels_first(inputs[0])?;
        let name = e
            .writer
            .one("Conv", &[&x, &kernel], vec![ints("kernel_shape", &[1, 1])]);
        e.set_channels_first(output, name);
        return Ok(());
    }
    let a = factor(e, inputs[0], transpose_a)?;
    let b = match e.transposed_parameter(inputs[1])? {
        Some(name) if transpose_b => name,
        _ => factor(e, inputs[1], transpose_b)?,
    };
    let name = e.writer.one("MatMul", &[&a, &b], vec![]);
    e.set(output, name);
    Ok(())
}

/// A matrix of constants as the weight of a convolution of single pixels, `[out, in, 1, 1]`.
fn pixel_kernel(e: &mut Emitter<'_>, matrix: ValueId, transposed: bool) -> Result<Option<String>> {
    let Some(known) = e.known(matrix)? else {
        return Ok(None);
    };
    let [rows, columns] = [known.ty.shape[0], known.ty.shape[1]];
    let kernel = if transposed {
        Array::f32(&[rows, columns, 1, 1], known.data.clone())
    } else {
        Array::from_fn(Type::f32(&[columns, rows, 1, 1]), |at| known.at(&[at[1], at[0]]))
    };
    e.constant(&kernel).map(Some)
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
