//! Walks over elements in steps, which every view of an array is.

use super::extents::{product, steps};
use lessen_onnx::host::{Data, moved};

/// A view of an array: an element for each index of some extents.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    /// Extents of the view.
    pub shape: Vec<usize>,
    /// The step from an index to the next along each axis, in elements of the array.
    pub steps: Vec<isize>,
    /// The place of the first element.
    pub start: usize,
}

impl Walk {
    /// All elements of an array, in their order.
    pub fn over(shape: &[usize]) -> Walk {
        Walk {
            shape: shape.to_vec(),
            steps: steps(shape).into_iter().map(|step| step as isize).collect(),
            start: 0,
        }
    }

    /// The elements of the view, in the order of its indices. All of them must be there.
    pub fn copy(&self, data: &Data) -> Data {
        moved!(data, v => self.copy_elements(v))
    }

    fn copy_elements<T: Clone>(&self, all: &[T]) -> Vec<T> {
        let mut copied = Vec::with_capacity(product(&self.shape));
        self.for_each_run(|start, len, step| match step {
            1 => copied.extend_from_slice(&all[start..start + len]),
            0 => copied.extend(std::iter::repeat_n(&all[start], len).cloned()),
            _ => copied.extend((0..len as isize).map(|i| all[start.wrapping_add_signed(i * step)].clone())),
        });
        copied
    }

    /// The places of the view's elements, in the order of its indices.
    pub fn places(&self) -> Vec<usize> {
        let mut places = Vec::with_capacity(product(&self.shape));
        self.for_each_run(|start, len, step| {
            places.extend((0..len as isize).map(|i| start.wrapping_add_signed(i * step)));
        });
        places
    }

    /// Calls `each` with the first place, number and step of the elements along the last axis, for each index of the
    /// others.
    fn for_each_run(&self, mut each: impl FnMut(usize, usize, isize)) {
        if self.shape.contains(&0) {
            return;
        }
        let mut axes = self.merged();
        let (len, step) = axes.pop().unwrap_or((1, 0));
        let mut index = vec![0; axes.len()];
        let mut at = self.start;
        loop {
            each(at, len, step);
            let mut axis = axes.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                let (extent, step) = axes[axis];
                index[axis] += 1;
                if index[axis] < extent {
                    at = at.wrapping_add_signed(step);
                    break;
                }
                index[axis] = 0;
                at = at.wrapping_add_signed(-step * (extent as isize - 1));
            }
        }
    }

    /// Extents and steps of as few axes as the view has: axes of extent 1 are left out, and those that follow each
    /// other in memory are one.
    fn merged(&self) -> Vec<(usize, isize)> {
        let mut axes: Vec<(usize, isize)> = Vec::new();
        for (&extent, &step) in self.shape.iter().zip(&self.steps) {
            match axes.last_mut() {
                _ if extent == 1 => {}
                Some(last) if last.1 == step * extent as isize => *last = (last.0 * extent, step),
                _ => axes.push((extent, step)),
            }
        }
        axes
    }
}
