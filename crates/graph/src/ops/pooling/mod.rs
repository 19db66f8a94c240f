//! Pooling and resizing of images `[N, H, W, C]`, channel by channel.
//!
//! Averages of windows and interpolation are linear and are one pair of operations, each the derivative of the other:
//! [`Resample2d`], and its transpose [`Resample2dGrad`]. The largest of a window is [`MaxPool2d`], which says which tap
//! of the window that is; cotangents go to that tap ([`MaxPool2dScatter`]), and the derivative of this is to read it
//! ([`MaxPool2dGather`]).

pub mod max_gather;
pub mod max_pool;
pub mod max_scatter;
mod one_dimension;
pub mod resample;
pub mod resample_grad;
mod sampling;
mod window;

pub use one_dimension::Pool1d;
pub use sampling::Sampling;
pub use window::{Pool2d, reached_beyond};

operations! {
    max_gather::{MaxPool2dGather},
    max_pool::{MaxPool2d},
    max_scatter::{MaxPool2dScatter},
    resample::{Resample2d},
    resample_grad::{Resample2dGrad},
}
