//! Arrays of different extents that are combined element by element, as NumPy does it: extents count from the last one,
//! and an extent of one stands for any other.

use lessen_base::{Error, Result};

use lessen_onnx::host::numel;

/// The most elements of a combination that is larger than each of its arrays.
const MOST: usize = 1 << 31;

/// The extents of what arrays of these extents are together.
///
/// # Errors
/// Extents that do not go together, or more elements than can be meant.
pub(crate) fn broadcast_shape(shapes: &[&[usize]]) -> Result<Vec<usize>> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut all = vec![1; rank];
    let mut largest = MOST;
    for shape in shapes {
        largest = largest.max(numel(shape)?);
        for (extent, own) in all[rank - shape.len()..].iter_mut().zip(*shape) {
            if *extent == 1 {
                *extent = *own;
            } else if *own != 1 && own != extent {
                return Err(Error::user(format!(
                    "arrays of the extents {shapes:?} do not go together"
                )));
            }
        }
    }
    if numel(&all)? > largest {
        return Err(Error::user(format!(
            "an array of extents {all:?} is more than can be meant"
        )));
    }
    Ok(all)
}

/// How the elements of `N` arrays lie beside those of their combination: in rows, within which an array goes from
/// element to element or stays where it is.
#[derive(Debug)]
pub(crate) struct Broadcast<const N: usize> {
    /// The combination's extents.
    shape: Vec<usize>,
    /// Elements of a row.
    row: usize,
    /// Whether the arrays move within a row.
    moves: [bool; N],
    /// The number of rows.
    rows: usize,
    /// The axes of rows, from the innermost one: extent and how far the arrays move.
    axes: Vec<(usize, [usize; N])>,
}

impl<const N: usize> Broadcast<N> {
    /// The combination of arrays of these extents.
    ///
    /// # Errors
    /// As for [`broadcast_shape`].
    pub(crate) fn of(shapes: [&[usize]; N]) -> Result<Broadcast<N>> {
        let shape = broadcast_shape(&shapes)?;
        if shape.contains(&0) {
            return Ok(Broadcast {
                shape,
                row: 0,
                moves: [true; N],
                rows: 0,
                axes: Vec::new(),
            });
        }
        // Joins neighbouring axes along which the same arrays move.
        let mut joined: Vec<(usize, [bool; N])> = Vec::new();
        for (back, &extent) in shape.iter().rev().enumerate().filter(|(_, extent)| **extent != 1) {
            let moves = shapes.map(|own| back < own.len() && own[own.len() - 1 - back] != 1);
            match joined.last_mut() {
                Some((inner, same)) if *same == moves => *inner *= extent,
                _ => joined.push((extent, moves)),
            }
        }
        let mut joined = joined.into_iter();
        let (row, moves) = joined.next().unwrap_or((1, [true; N]));
        let mut far = moves.map(|moves| if moves { row } else { 1 });
        let mut rows = 1;
        let mut axes = Vec::new();
        for (extent, moves) in joined {
            let mut steps = [0; N];
            for array in (0..N).filter(|array| moves[*array]) {
                steps[array] = far[array];
                far[array] *= extent;
            }
            axes.push((extent, steps));
            rows *= extent;
        }
        Ok(Broadcast {
            shape,
            row,
            moves,
            rows,
            axes,
        })
    }

    /// The combination's extents.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.rows * self.row
    }

    /// Calls `each` with the place of every row's first element in the arrays.
    fn for_each_row(&self, each: &mut dyn FnMut([usize; N])) {
        let mut index = vec![0; self.axes.len()];
        let mut places = [0; N];
        for _ in 0..self.rows {
            each(places);
            for (i, (extent, steps)) in index.iter_mut().zip(&self.axes) {
                *i += 1;
                (0..N).for_each(|array| places[array] += steps[array]);
                if *i < *extent {
                    break;
                }
                *i = 0;
                (0..N).for_each(|array| places[array] -= steps[array] * extent);
            }
        }
    }
}

impl Broadcast<2> {
    /// `f` of every pair of elements of two arrays, which have the extents that this was made for.
    pub(crate) fn map<A, B, C>(&self, a: &[A], b: &[B], f: impl Fn(&A, &B) -> C) -> Vec<C> {
        let mut all = Vec::with_capacity(self.len());
        let row = self.row;
        self.for_each_row(&mut |[i, j]| match self.moves {
            [true, true] => all.extend(a[i..i + row].iter().zip(&b[j..j + row]).map(|(x, y)| f(x, y))),
            [true, false] => {
                let y = &b[j];
                all.extend(a[i..i + row].iter().map(|x| f(x, y)));
            }
            [false, _] => {
                let x = &a[i];
                all.extend(b[j..j + row].iter().map(|y| f(x, y)));
            }
        });
        all
    }
}

impl Broadcast<3> {
    /// `f` of every three elements of three arrays.
    pub(crate) fn map<A, B, C, D>(&self, a: &[A], b: &[B], c: &[C], f: impl Fn(&A, &B, &C) -> D) -> Vec<D> {
        let mut all = Vec::with_capacity(self.len());
        let [u, v, w] = self.moves.map(usize::from);
        self.for_each_row(&mut |[i, j, k]| {
            all.extend((0..self.row).map(|at| f(&a[i + u * at], &b[j + v * at], &c[k + w * at])));
        });
        all
    }
}
