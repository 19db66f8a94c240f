//! Copies between arrays of any strides: transposes, slices, broadcasts.

use std::ops::Range;

/// Most axes that a copy can have.
pub const MAX_RANK: usize = 16;

/// Extents and strides (in elements, of the source and of the target) of the axes of a copy, outermost first,
/// without axes of extent 1, and with adjacent axes made one where both sides allow it. Made once, used for
/// every range.
#[derive(Clone, Copy, Debug)]
pub struct CopyPlan {
    rank: usize,
    shape: [usize; MAX_RANK],
    from: [usize; MAX_RANK],
    to: [usize; MAX_RANK],
}

impl CopyPlan {
    /// The plan for a shape and the strides of both sides; none if it has more than [`MAX_RANK`] axes.
    pub fn new(shape: &[usize], from: &[usize], to: &[usize]) -> Option<CopyPlan> {
        assert!(
            shape.len() == from.len() && shape.len() == to.len(),
            "a stride for every axis"
        );
        let mut plan = CopyPlan {
            rank: 0,
            shape: [1; MAX_RANK],
            from: [0; MAX_RANK],
            to: [0; MAX_RANK],
        };
        for axis in 0..shape.len() {
            let (extent, s, t) = (shape[axis], from[axis], to[axis]);
            if extent == 1 {
                continue;
            }
            let last = plan.rank.wrapping_sub(1);
            if plan.rank > 0 && plan.from[last] == s * extent && plan.to[last] == t * extent {
                plan.shape[last] *= extent;
                (plan.from[last], plan.to[last]) = (s, t);
                continue;
            }
            if plan.rank == MAX_RANK {
                return None;
            }
            (plan.shape[plan.rank], plan.from[plan.rank], plan.to[plan.rank]) = (extent, s, t);
            plan.rank += 1;
        }
        Some(plan)
    }

    /// Number of rows: of index tuples of all axes but the last one of the plan. Threads take ranges of them.
    pub fn rows(&self) -> usize {
        self.shape[..self.rank.saturating_sub(1)].iter().product()
    }

    /// Number of elements in each row.
    pub fn columns(&self) -> usize {
        if self.rank == 0 {
            1
        } else {
            self.shape[self.rank - 1]
        }
    }

    /// Copies a range of rows of elements of `bytes` (1, 2, 4 or 8) bytes. The pointers are those of the
    /// elements with all indices 0.
    ///
    /// # Safety
    /// All elements of the rows lie within what the pointers may access, aligned to their size; those written
    /// are distinct and overlap nothing that is read. `rows` lies within `0..self.rows()`.
    ///
    /// # Panics
    /// With another number of bytes.
    pub unsafe fn copy(&self, bytes: usize, from: *const u8, to: *mut u8, rows: Range<usize>) {
        // SAFETY: passed on.
        unsafe {
            match bytes {
                1 => self.copy_elements::<u8>(from, to, rows),
                2 => self.copy_elements::<u16>(from.cast(), to.cast(), rows),
                4 => self.copy_elements::<u32>(from.cast(), to.cast(), rows),
                8 => self.copy_elements::<u64>(from.cast(), to.cast(), rows),
                _ => panic!("elements of {bytes} bytes"),
            }
        }
    }

    unsafe fn copy_elements<T: Copy>(&self, from: *const T, to: *mut T, rows: Range<usize>) {
        let last = self.rank.saturating_sub(1);
        let columns = self.columns();
        let (s, t) = if self.rank == 0 {
            (1, 1)
        } else {
            (self.from[last], self.to[last])
        };
        // Consecutive rows along the axis before the last one are copied together, as a matrix.
        let (run, s_row, t_row) = if last == 0 {
            (1, 0, 0)
        } else {
            (self.shape[last - 1], self.from[last - 1], self.to[last - 1])
        };
        let mut row = rows.start;
        while row < rows.end {
            let count = (run - row % run).min(rows.end - row);
            let (s_at, t_at) = self.offsets(row);
            // SAFETY: these are places of elements of the rows.
            unsafe {
                matrix(
                    count,
                    columns,
                    (from.add(s_at), s_row, s),
                    (to.add(t_at), t_row, t),
                );
            }
            row += count;
        }
    }

    /// Where a row begins on both sides.
    fn offsets(&self, mut row: usize) -> (usize, usize) {
        let (mut s, mut t) = (0, 0);
        for axis in (0..self.rank.saturating_sub(1)).rev() {
            let index = row % self.shape[axis];
            row /= self.shape[axis];
            s += index * self.from[axis];
            t += index * self.to[axis];
        }
        (s, t)
    }
}

/// Copies `n` rows of `c` elements; each side has a pointer, a row stride and a column stride.
unsafe fn matrix<T: Copy>(
    n: usize,
    c: usize,
    (x, x_row, x_col): (*const T, usize, usize),
    (y, y_row, y_col): (*mut T, usize, usize),
) {
    // What makes all accesses below sound: `(i, j)` with `i < n` and `j < c` is an element of the rows to be
    // copied.
    let x_at = |i: usize, j: usize| x.wrapping_add(i * x_row + j * x_col);
    let y_at = |i: usize, j: usize| y.wrapping_add(i * y_row + j * y_col);
    if x_col == 1 && y_col == 1 {
        for i in 0..n {
            // SAFETY: as said above.
            unsafe { std::ptr::copy_nonoverlapping(x_at(i, 0), y_at(i, 0), c) };
        }
    } else if n > 1 && x_row < x_col && x_row != 0 {
        // A transpose: in square tiles, so that each cache line of either side is used up while it is there.
        const TILE: usize = 16;
        for i0 in (0..n).step_by(TILE) {
            for j0 in (0..c).step_by(TILE) {
                let (i1, j1) = ((i0 + TILE).min(n), (j0 + TILE).min(c));
                for i in i0..i1 {
                    for j in j0..j1 {
                        // SAFETY: as said above.
                        unsafe { *y_at(i, j) = *x_at(i, j) };
                    }
                }
            }
        }
    } else {
        for i in 0..n {
            for j in 0..c {
                // SAFETY: as said above.
                unsafe { *y_at(i, j) = *x_at(i, j) };
            }
        }
    }
}
