//! Loops that are written for instructions of x86-64.
//!
//! | folder or file | runs on |
//! |---|---|
//! | `avx2` | AVX2 with FMA: 256 bits; products of codes by AVX-VNNI or by AVX-512 VNNI with VL, too |
//! | `avx512` | AVX-512: 512 bits; products of `bf16` by AVX-512 BF16, of codes by AVX-512 VNNI |
//! | `amx` | AMX: tiles of `bf16` and of codes, beside AVX-512 |
//! | `words` | products over packed words: loops of `avx2`, `avx512` or, of codes, `amx` |
//! | `byte_products` | the choice among the instructions that multiply codes |
//! | `depthwise`, `depthwise_words` | depthwise convolution of codes by VNNI: vectors of `avx2` or `avx512` |

pub(crate) mod amx;
pub(crate) mod avx2;
pub(crate) mod avx512;
pub(crate) mod byte_products;
pub(crate) mod depthwise;
pub(crate) mod depthwise_words;
pub(crate) mod words;
