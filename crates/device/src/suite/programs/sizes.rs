//! Shapes for random programs: odd extents, extents of one, and rows of more than one tile.

use crate::suite::random::Random;

/// The most elements of a value of a random program.
pub const LIMIT: usize = 28_000;

const EXTENTS: [usize; 8] = [1, 1, 2, 3, 4, 5, 7, 9];
const ROWS: [usize; 6] = [1, 33, 129, 257, 520, 780];
const COLUMNS: [usize; 6] = [1, 2, 5, 8, 17, 33];

/// A shape of rank 0 to 4, often a matrix of many rows.
pub fn shape(random: &mut Random) -> Vec<usize> {
    match random.below(10) {
        0..4 => vec![random.pick(&ROWS), random.pick(&COLUMNS)],
        4 => vec![2, random.pick(&[3, 65, 100]), random.pick(&COLUMNS)],
        _ => {
            let rank = random.pick(&[0, 1, 1, 2, 3, 3, 4]);
            (0..rank).map(|_| random.pick(&EXTENTS)).collect()
        }
    }
}

/// Another shape of as many elements.
pub fn reshaped(random: &mut Random, shape: &[usize]) -> Vec<usize> {
    let mut shape = shape.to_vec();
    for _ in 0..2 {
        match random.below(4) {
            // Two neighbours become one.
            0 if shape.len() > 1 => {
                let at = random.below(shape.len() - 1);
                let next = shape.remove(at + 1);
                shape[at] *= next;
            }
            // One becomes two.
            1 | 2 if !shape.is_empty() && shape.len() < 4 => {
                let at = random.below(shape.len());
                let n = shape[at];
                let divisors: Vec<usize> = (1..=n.min(16)).filter(|d| n.is_multiple_of(*d)).collect();
                let d = random.pick(&divisors);
                shape[at] = n / d;
                shape.insert(at + random.below(2), d);
            }
            3 if shape.len() < 4 => shape.insert(random.below(shape.len() + 1), 1),
            _ => {}
        }
    }
    shape
}

/// A shape that broadcasts to this one.
pub fn narrower(random: &mut Random, shape: &[usize]) -> Vec<usize> {
    let mut shape = shape.to_vec();
    for extent in &mut shape {
        if random.chance(35) {
            *extent = 1;
        }
    }
    let drop = if random.chance(40) {
        random.below(shape.len() + 1)
    } else {
        0
    };
    shape.split_off(drop)
}

/// A random order of the axes.
pub fn order(random: &mut Random, rank: usize) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..rank).collect();
    for i in (1..rank).rev() {
        axes.swap(i, random.below(i + 1));
    }
    axes
}
