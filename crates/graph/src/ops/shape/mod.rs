//! Operations that move elements: views, and copies that join, extend or overwrite.

pub mod broadcast;
pub mod concat;
pub mod pad;
pub mod permute;
pub mod reshape;
pub mod slice;
pub mod split;
pub mod stack;
pub mod update_slice;

operations! {
    broadcast::{Broadcast},
    concat::{Concat},
    pad::{Pad},
    permute::{Permute},
    reshape::{Reshape},
    slice::{Slice},
    split::{Split},
    update_slice::{UpdateSlice},
}
