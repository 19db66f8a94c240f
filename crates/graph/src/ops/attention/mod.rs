//! Attention and its derivative.

mod backward;
mod forward;
mod scores;

pub use forward::{AttentionOptions, attention};
pub use scores::AttentionSizes;

operations! {
    backward::{AttentionBackward},
    scores::{Attention},
}
