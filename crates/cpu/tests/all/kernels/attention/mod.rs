//! Attention on a CPU against its reference evaluation in `f64`.

mod case;
mod extremes;
mod kinds;
mod lengths;
mod moments;
mod skipping;
mod threads;
