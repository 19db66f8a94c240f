//! Places: the base array and layout of each view, and strided values as matrices of rows and columns.

use lessen_graph::{Def, Graph, Layout, Node, Type, ValueId, numel};

use crate::node_types::NodeTypes;

/// The place of a value: its base array and its layout there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The value whose dense array holds the elements: the value itself unless it is a view.
    pub base: ValueId,
    /// The layout of its elements in that array.
    pub layout: Layout,
}

/// The place of every value. Operations that can be views are views.
pub fn places(graph: &Graph) -> Vec<Place> {
    places_of(graph, &NodeTypes::of(graph))
}

/// Does the work of [`places`] with the types of the graph's nodes given.
pub(crate) fn places_of(graph: &Graph, types: &NodeTypes) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::with_capacity(graph.values.len());
    for (i, value) in graph.values.iter().enumerate() {
        let own = Place {
            base: ValueId(i as u32),
            layout: Layout::dense(&value.ty.shape),
        };
        let Def::Node(id, k) = value.def else {
            places.push(own);
            continue;
        };
        let node = &graph.nodes[id.index()];
        let view = node.inputs.first().and_then(|input| {
            let from = &places[input.index()];
            let (inputs, outputs) = types.of_node(id.index());
            let base = graph.ty(from.base).numel();
            let layouts = graph.ask(node, inputs, outputs).view(&from.layout, base)?;
            Some(Place {
                base: from.base,
                layout: layouts[k].clone(),
            })
        });
        places.push(view.unwrap_or(own));
    }
    places
}

/// Whether a node is a view of its input, so that nothing runs.
pub fn is_view(places: &[Place], node: &Node) -> bool {
    !node.inputs.is_empty() && node.outputs.iter().all(|v| places[v.index()].base != *v)
}

/// A value as a matrix: leading axes that enumerate the rows, and one stride along the columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowLayout {
    /// Position of the first element.
    pub offset: usize,
    /// Extents and strides of the axes that enumerate rows, outermost first, merged where possible.
    pub lead: Vec<(usize, usize)>,
    /// Columns.
    pub columns: usize,
    /// Step between columns.
    pub step: usize,
}

/// Merges adjacent axes that one stride describes; axes of extent 1 vanish.
fn merge(axes: impl Iterator<Item = (usize, usize)>) -> Vec<(usize, usize)> {
    let mut merged: Vec<(usize, usize)> = Vec::new();
    for (extent, stride) in axes.filter(|a| a.0 != 1) {
        match merged.last_mut() {
            Some(last) if last.1 == extent * stride => *last = (last.0 * extent, stride),
            _ => merged.push((extent, stride)),
        }
    }
    merged
}

/// A strided value as `rows` rows, if its shape splits there and one stride describes its columns.
pub fn row_layout(shape: &[usize], layout: &Layout, rows: usize) -> Option<RowLayout> {
    let total = numel(shape);
    if rows == 0 || total == 0 || !total.is_multiple_of(rows) {
        return None;
    }
    let columns = total / rows;
    if layout.is_dense(shape) {
        let lead = if rows == 1 { Vec::new() } else { vec![(rows, columns)] };
        return Some(RowLayout {
            offset: layout.offset,
            lead,
            columns,
            step: 1,
        });
    }
    let (mut split, mut product) = (0, 1);
    while product < rows && split < shape.len() {
        product *= shape[split];
        split += 1;
    }
    if product != rows {
        return None;
    }
    let axes = |range: std::ops::Range<usize>| merge(range.map(|a| (shape[a], layout.strides[a])));
    let trail = axes(split..shape.len());
    if trail.len() > 1 {
        return None;
    }
    let step = trail.first().map_or(1, |t| t.1);
    Some(RowLayout {
        offset: layout.offset,
        lead: axes(0..split),
        columns,
        step,
    })
}

/// Whether row `r` of a strided value lies within row `r` of its base, whose rows have `width` elements.
pub fn row_aligned(row: &RowLayout, rows: usize, width: usize) -> bool {
    let lead = rows == 1 || (row.lead.len() == 1 && row.lead[0] == (rows, width));
    lead && row.offset + (row.columns - 1) * row.step < width
}

/// Number of rows of an elementwise operation by itself: a row runs along the last axis, and a vector is one row.
pub fn natural_rows(ty: &Type) -> usize {
    if ty.rank() <= 1 {
        1
    } else {
        ty.numel() / ty.last().max(1)
    }
}
