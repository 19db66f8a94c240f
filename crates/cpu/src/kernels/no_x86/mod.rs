//! Machines of other kinds than x86-64: the products of `x86` that others name, which are never used.

pub(crate) mod amx;
pub(crate) mod avx512;
pub(crate) mod words;
