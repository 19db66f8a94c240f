//! Parts of tensors that are changed in place.

use lessen_graph::{Tensor, concat};

/// A range of an axis, which is left out where one position is selected.
#[derive(Clone, Copy)]
pub struct Window {
    /// The axis.
    pub axis: usize,
    /// The first position.
    pub start: usize,
    /// The number of positions.
    pub length: usize,
    /// Whether the axis is left out.
    pub is_selected: bool,
}

impl Window {
    /// A tensor with another part in this window.
    pub fn replaced(self, whole: Tensor, part: Tensor) -> Tensor {
        let axis = self.axis as isize;
        let part = if self.is_selected { part.unsqueeze(axis) } else { part };
        let (extent, end) = (whole.dim(axis), self.start + self.length);
        let around = [(0, self.start), (end, extent - end)].map(|(at, length)| whole.slice(axis, at, length));
        let parts = [around[0], part, around[1]];
        let parts: Vec<Tensor> = parts.into_iter().filter(|part| part.dim(axis) > 0).collect();
        if parts.len() == 1 {
            parts[0]
        } else {
            concat(&parts, axis)
        }
    }
}
