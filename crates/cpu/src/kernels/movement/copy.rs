//! Copies between arrays of any strides: transposes, slices, broadcasts.

use std::ops::Range;

/// An axis of a copy: its extent, and its strides in elements of the source and of the target.
#[derive(Clone, Copy, Debug)]
struct Axis {
    extent: usize,
    from: usize,
    to: usize,
}

/// The axes of a copy, outermost first, without axes of extent 1, and with adjacent axes made one where both sides
/// allow it. Made once, used for every range.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    axes: Vec<Axis>,
}

impl CopyPlan {
    /// The plan for a shape and the strides of both sides.
    ///
    /// # Panics
    /// If there is not one stride for every axis.
    pub fn new(shape: &[usize], from: &[usize], to: &[usize]) -> CopyPlan {
        assert!(
            shape.len() == from.len() && shape.len() == to.len(),
            "a stride for every axis"
        );
        let mut axes: Vec<Axis> = Vec::new();
        for ((&extent, &from), &to) in shape.iter().zip(from).zip(to).filter(|((n, _), _)| **n != 1) {
            match axes.last_mut() {
                Some(last) if last.from == from * extent && last.to == to * extent => {
                    *last = Axis {
                        extent: last.extent * extent,
                        from,
                        to,
                    };
                }
                _ => axes.push(Axis { extent, from, to }),
            }
        }
        CopyPlan { axes }
    }

    /// The axes that enumerate rows, and the one along them, if there is one.
    fn split(&self) -> (&[Axis], Option<&Axis>) {
        match self.axes.split_last() {
            Some((last, rows)) => (rows, Some(last)),
            None => (&[], None),
        }
    }

    /// Number of rows: of index tuples of all axes but the last one of the plan. Threads take ranges of them.
    pub fn rows(&self) -> usize {
        self.split().0.iter().map(|axis| axis.extent).product()
    }

    /// Number of elements in each row.
    pub fn columns(&self) -> usize {
        self.split().1.map_or(1, |axis| axis.extent)
    }

    /// Copies a range of rows of elements of `bytes` (1, 2, 4 or 8) bytes. The pointers point to the elements with all
    /// indices 0.
    ///
    /// # Safety
    /// All elements of the rows lie within the memory that the pointers may access, aligned to their size; the written
    /// elements are distinct and overlap no element that is read. `rows` lies within `0..self.rows()`.
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
        let columns = self.columns();
        let (lead, last) = self.split();
        let (s, t) = last.map_or((1, 1), |axis| (axis.from, axis.to));
        // Consecutive rows along the axis before the last one are copied together, as a matrix.
        let (run, s_row, t_row) = lead.last().map_or((1, 0, 0), |axis| (axis.extent, axis.from, axis.to));
        let mut row = rows.start;
        while row < rows.end {
            let count = (run - row % run).min(rows.end - row);
            let (s_at, t_at) = self.offsets(row);
            // SAFETY: these are places of elements of the rows.
            unsafe {
                matrix(count, columns, (from.add(s_at), s_row, s), (to.add(t_at), t_row, t));
            }
            row += count;
        }
    }

    /// Where a row begins on both sides.
    fn offsets(&self, mut row: usize) -> (usize, usize) {
        let (mut s, mut t) = (0, 0);
        for axis in self.split().0.iter().rev() {
            let index = row % axis.extent;
            row /= axis.extent;
            s += index * axis.from;
            t += index * axis.to;
        }
        (s, t)
    }
}

/// Rows and columns of a tile of a transpose.
const TILE: usize = 16;

/// Transposes a tile: columns of adjacent elements become rows of them.
#[inline(always)]
unsafe fn whole_tile<T: Copy>((x, x_col): (*const T, usize), (y, y_row): (*mut T, usize)) {
    // SAFETY: the caller's tile exists on both sides.
    unsafe {
        let columns: [[T; TILE]; TILE] = std::array::from_fn(|j| x.add(j * x_col).cast::<[T; TILE]>().read_unaligned());
        for i in 0..TILE {
            let row: [T; TILE] = std::array::from_fn(|j| columns[j][i]);
            y.add(i * y_row).cast::<[T; TILE]>().write_unaligned(row);
        }
    }
}

/// Copies `n` rows of `c` elements; each side has a pointer, a row stride and a column stride.
unsafe fn matrix<T: Copy>(
    n: usize,
    c: usize,
    (x, x_row, x_col): (*const T, usize, usize),
    (y, y_row, y_col): (*mut T, usize, usize),
) {
    // All accesses below are sound for this reason: `(i, j)` with `i < n` and `j < c` is an element of the rows to be
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
        for i0 in (0..n).step_by(TILE) {
            for j0 in (0..c).step_by(TILE) {
                let (i1, j1) = ((i0 + TILE).min(n), (j0 + TILE).min(c));
                if x_row == 1 && y_col == 1 && i1 - i0 == TILE && j1 - j0 == TILE {
                    // SAFETY: as said above.
                    unsafe { whole_tile((x_at(i0, j0), x_col), (y_at(i0, j0), y_row)) };
                    continue;
                }
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
