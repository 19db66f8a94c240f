//! Layouts: offset and strides of a view in its dense base array.

/// The place of a view's elements: element `i` is at `offset + sum(i[a] * strides[a])`, in elements of the dense base
/// array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Position of the first element.
    pub offset: usize,
    /// Step per axis; 0 along a broadcast axis.
    pub strides: Vec<usize>,
}

impl Layout {
    /// The row-major layout of a dense array. Strides of a shape whose size cannot be counted saturate.
    pub fn dense(shape: &[usize]) -> Layout {
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = shape[axis].saturating_mul(strides[axis]);
        }
        Layout { offset: 0, strides }
    }

    /// Whether the elements are contiguous in row-major order (axes of extent 1 do not count), at any offset.
    pub fn is_dense(&self, shape: &[usize]) -> bool {
        let mut expected = 1;
        for axis in (0..shape.len()).rev() {
            if shape[axis] != 1 {
                if self.strides[axis] != expected {
                    return false;
                }
                expected *= shape[axis];
            }
        }
        true
    }

    /// Whether all elements of a view of this shape lie within a base of `len` elements.
    pub fn fits(&self, shape: &[usize], len: usize) -> bool {
        let last = shape
            .iter()
            .zip(&self.strides)
            .try_fold(self.offset, |sum: usize, (&n, &stride)| {
                sum.checked_add(n.saturating_sub(1).checked_mul(stride)?)
            });
        shape.len() == self.strides.len() && (shape.contains(&0) || last.is_some_and(|last| last < len))
    }

    /// The layout of the same elements under another shape, if no copy is needed for it.
    pub fn reshape(&self, from: &[usize], to: &[usize]) -> Option<Layout> {
        if from.contains(&0) {
            // Without elements, any strides are right.
            return Some(Layout {
                offset: self.offset,
                ..Layout::dense(to)
            });
        }
        // Axes of extent 1 carry no information; merge the others greedily, as far as their strides allow.
        let old: Vec<(usize, usize)> = from
            .iter()
            .zip(&self.strides)
            .filter(|(n, _)| **n != 1)
            .map(|(&n, &s)| (n, s))
            .collect();
        let mut strides = vec![0; to.len()];
        let (mut i, mut j) = (0, 0);
        while j < to.len() {
            if to[j] == 1 {
                j += 1;
                continue;
            }
            if i >= old.len() {
                return None;
            }
            let (mut have, mut want) = (old[i].0, to[j]);
            let (first_i, first_j) = (i, j);
            while have != want {
                if have < want {
                    i += 1;
                    have *= old.get(i)?.0;
                } else {
                    j += 1;
                    want *= *to.get(j)?;
                }
            }
            // Axes first_i..=i of the old shape become axes first_j..=j of the new one.
            for k in first_i..i {
                if old[k].1 != old[k + 1].0 * old[k + 1].1 {
                    return None;
                }
            }
            let mut stride = old[i].1;
            for k in (first_j..=j).rev() {
                strides[k] = stride;
                stride *= to[k];
            }
            i += 1;
            j += 1;
        }
        Some(Layout {
            offset: self.offset,
            strides,
        })
    }
}
