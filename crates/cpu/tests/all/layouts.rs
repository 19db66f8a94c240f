//! Layouts in which kernels read their inputs.

#[path = "../../src/kernels/layouts.rs"]
mod declared;

use std::panic::catch_unwind;

use lessen_graph::Layout;

use self::declared::Reads;

const ALL: [Reads; 8] = [
    Reads::Dense,
    Reads::Rows,
    Reads::Runs,
    Reads::Matrix,
    Reads::MatrixOfRuns,
    Reads::RowsOrColumns,
    Reads::DenseLastAxis,
    Reads::Any,
];

/// All layouts with strides below 8 of shapes of up to three axes of one to three elements.
fn layouts() -> Vec<(Vec<usize>, Layout)> {
    let mut shapes = vec![vec![]];
    let mut all = Vec::new();
    for _ in 0..3 {
        let longer = |shape: &Vec<usize>| (1..4).map(|n| [&shape[..], &[n]].concat()).collect::<Vec<_>>();
        shapes = shapes.iter().flat_map(longer).collect();
        for shape in &shapes {
            let count = 8usize.pow(shape.len() as u32);
            all.extend((0..count).map(|at| {
                let strides = (0..shape.len()).map(|axis| at >> (3 * axis) & 7).collect();
                (shape.clone(), Layout { offset: 1, strides })
            }));
        }
    }
    all
}

/// Numbers of rows into which leading axes split a shape.
fn rows_of(shape: &[usize]) -> impl Iterator<Item = usize> {
    (0..shape.len()).map(|lead| shape[..lead].iter().product())
}

#[test]
fn layouts_that_are_among_others_are_admitted_where_they_are() {
    let all = layouts();
    for own in ALL {
        for others in ALL {
            let is_odd = |(shape, layout): &&(Vec<usize>, Layout)| {
                rows_of(shape).any(|rows| {
                    let [own, others] = [own, others].map(|reads| reads.planned(rows).admits(shape, layout));
                    own && !others
                })
            };
            let odd = all.iter().find(is_odd);
            assert_eq!(own.are_among(others), odd.is_none(), "{own:?} and {others:?}: {odd:?}");
        }
    }
}

#[test]
fn layouts_that_a_kernel_reads_are_those_that_lie_as_it_is_told() {
    for (shape, layout) in layouts() {
        let count: usize = shape.iter().product();
        let place = |mut element: usize| {
            let axes = shape.iter().zip(&layout.strides).rev();
            axes.fold(0, |at, (extent, stride)| {
                let index = element % extent;
                element /= extent;
                at + index * stride
            })
        };
        let places: Vec<usize> = (0..count).map(place).collect();
        for rows in rows_of(&shape) {
            let columns = count / rows;
            // Whether row `i` begins at `i row`, and column `j` lies `j column` after the begin of its row.
            let lies = |row: Option<usize>, column: Option<usize>| {
                (0..count).all(|at| {
                    let (i, j) = (at / columns, at % columns);
                    let begin = places[i * columns];
                    row.is_none_or(|row| begin == i * row)
                        && column.is_none_or(|column| places[at] == begin + j * column)
                })
            };
            let mut strides = (0..8).map(Some);
            let are_rows = strides.clone().any(|column| lies(None, column));
            let are_runs = lies(None, Some(1));
            let is_matrix = are_rows && strides.any(|row| lies(row, None));
            let last = shape[shape.len() - 1];
            let expected = [
                (Reads::Dense, lies(Some(columns), Some(1))),
                (Reads::Rows, are_rows),
                (Reads::Runs, are_runs),
                (Reads::Matrix, is_matrix),
                (Reads::MatrixOfRuns, is_matrix && are_runs),
                (
                    Reads::RowsOrColumns,
                    is_matrix && (are_runs || rows > 1 && lies(Some(1), None)),
                ),
                (
                    Reads::DenseLastAxis,
                    (0..count).all(|at| places[at] == places[at - at % last] + at % last),
                ),
                (Reads::Any, true),
            ];
            for (reads, expected) in expected {
                let found = reads.planned(rows).admits(&shape, &layout);
                let strides = &layout.strides;
                assert_eq!(found, expected, "{reads:?}: {rows} rows of {shape:?} at {strides:?}");
            }
        }
    }
}

#[test]
fn more_than_what_was_declared_is_not_read() {
    for own in [&ALL[..], &[Reads::Packed]].concat() {
        for asked in [&ALL[..], &[Reads::Packed]].concat() {
            assert_eq!(catch_unwind(|| own.admit(asked)).is_ok(), own.are_among(asked));
        }
        assert!(own.with_runs().are_among(own));
    }
}
