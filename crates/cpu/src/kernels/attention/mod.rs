//! Scaled dot-product attention (Vaswani et al. 2017) and its derivative, one head of one example at a time. Scores
//! exist for one block of queries at a time, and the backward pass computes them again, as in FlashAttention
//! (Dao et al. 2022).
//!
//! With queries `Q` of `tq x d`, keys `K` of `tk x d` and values `V` of `tk x dv`: `S = scale Q K^T`, `P =
//! softmax(S)` over the visible keys, `O = dropout(P) V`. Key `j` is visible to query `i` if the mask says so
//! and, when causal, `j <= i + tk - tq`. A query that sees no key gives zeros, and its gradients are zeros. What is
//! behind a key that is not visible may be anything, NaN included.

mod adapter;
mod backward;
mod forward;
mod head;

pub(super) use adapter::{attention_backward_kernel, attention_kernel};
pub use backward::backward;
pub use forward::forward;
pub use head::{BLOCK, Head, WeightDropout};
