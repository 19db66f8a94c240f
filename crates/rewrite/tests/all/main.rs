//! Tests of rewrites: common subexpressions, patterns, norm conversion.

mod mean_squares;
mod merging;
mod norms;
mod recognized;
