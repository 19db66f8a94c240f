//! Loops of AVX2 with FMA, on vectors of 256 bits. Products of codes are compiled for either encoding of VNNI as well:
//! that of AVX-VNNI, and that of AVX-512 VNNI with VL.

pub(crate) mod code_words;
pub(crate) mod codes;
pub(crate) mod depthwise;
pub(crate) mod multiply;
pub(crate) mod nibbles;
pub(crate) mod words;
