//! Tests of rewrites: common subexpressions, patterns, norm conversion.

mod dead_code;
mod mean_squares;
mod merging;
mod norms;
mod recognized;
