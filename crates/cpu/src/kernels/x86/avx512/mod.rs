//! Loops of AVX-512, on vectors of 512 bits: of F, VL, BW and DQ, and where their names say so of BF16 and VNNI.

pub(crate) mod codes;
pub(crate) mod depthwise;
pub(crate) mod nibbles;
pub(crate) mod pack;
pub(crate) mod pair;
pub(crate) mod transpose;
pub(crate) mod words;
