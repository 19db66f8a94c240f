//! Parts of tensors that are changed in place.

use lessen_graph::{Array, DType, Tensor, Type, concat};

/// Positions of an axis in steps, which is left out where one position is selected.
#[derive(Clone, Copy)]
pub struct Window {
    /// The axis.
    pub axis: usize,
    /// The first position.
    pub start: usize,
    /// The number of positions.
    pub length: usize,
    /// Positions from one to the next.
    pub step: usize,
    /// Whether the axis is left out.
    pub is_selected: bool,
}

impl Window {
    /// A tensor with another part in this window.
    pub fn replaced(self, whole: Tensor, part: Tensor) -> Tensor {
        let axis = self.axis as isize;
        let part = if self.is_selected { part.unsqueeze(axis) } else { part };
        let extent = whole.dim(axis);
        if self.step > 1 {
            let positions: Vec<usize> = (0..extent).map(|at| self.place(at, extent)).collect();
            return taken(concat(&[whole, part], axis), self.axis, &positions);
        }
        let end = self.start + self.length;
        let around = [(0, self.start), (end, extent - end)].map(|(at, length)| whole.slice(axis, at, length));
        let parts = [around[0], part, around[1]];
        let parts: Vec<Tensor> = parts.into_iter().filter(|part| part.dim(axis) > 0).collect();
        if parts.len() == 1 {
            parts[0]
        } else {
            concat(&parts, axis)
        }
    }

    /// Where an element of the result is in the tensor followed by the part.
    fn place(self, at: usize, extent: usize) -> usize {
        match at.checked_sub(self.start) {
            Some(beyond) if beyond.is_multiple_of(self.step) && beyond / self.step < self.length => {
                extent + beyond / self.step
            }
            _ => at,
        }
    }
}

/// The elements at positions of an axis.
pub fn taken(x: Tensor, axis: usize, positions: &[usize]) -> Tensor {
    let positions: Vec<f64> = positions.iter().map(|&position| position as f64).collect();
    let ids = Array::new(Type::new(DType::I32, &[positions.len()]), positions);
    x.take(axis as isize, x.trace().constant(ids))
}
