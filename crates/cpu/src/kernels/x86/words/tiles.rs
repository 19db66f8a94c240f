//! Loops over register tiles, whose extents and indices are constants to the compiler.

/// Runs a block for each index below a bound. The indices are constants, so that arrays which only they index lie in
/// registers: a compiler that has to unroll loops first may store 24 sums at each step.
macro_rules! unrolled {
    ($i:ident < $bound:expr, $body:block) => {
        unrolled!(@ $i, $bound, $body, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
    };
    (@ $i:ident, $bound:expr, $body:block, $($index:literal),+) => {
        $(if $index < $bound {
            const $i: usize = $index;
            $body
        })+
    };
}
pub(crate) use unrolled;

/// Calls a function for register tiles of `most` rows, and for tiles of 4, 2 and 1 rows for the rows that are left.
macro_rules! in_tiles {
    ($most:ident, $rows:expr, |$R:ident, $row:ident| $call:expr) => {{
        let (rows, mut $row): (usize, usize) = ($rows, 0);
        while $row + $most <= rows {
            $call;
            $row += $most;
        }
        in_tiles!(@ rows, $R, $row, $call, 4, 2, 1);
    }};
    (@ $rows:ident, $R:ident, $row:ident, $call:expr, $($size:literal),+) => {
        $(while $rows - $row >= $size {
            const $R: usize = $size;
            $call;
            $row += $size;
        })+
    };
}
pub(crate) use in_tiles;
