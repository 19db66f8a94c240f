//! Attention and its derivative, and rotary position embeddings of queries and keys.

mod backward;
pub mod bias;
mod forward;
mod operation;
mod query;
mod rope;
mod rope_scaling;
mod scores;
pub mod weighting;

pub use bias::{AttentionBias, FIRE_EPSILON, FIRE_LENGTH, Fire, FireMiddle, alibi_slope};
pub use forward::{AttentionOptions, PositionBias, attention};
pub use operation::{AttentionSizes, Extras};
pub use rope_scaling::RopeScaling;
pub use scores::AttentionScores;
pub use weighting::{Divisor, Weighting};

operations! {
    backward::{AttentionBackward},
    operation::{Attention},
    rope::{Rope},
}
