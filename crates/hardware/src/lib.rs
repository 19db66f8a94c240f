//! What does a network cost on an accelerator? Cycles, stalls, energy and time by layer, from models of hardware.
//!
//! A [`CostModel`] answers for one [`LayerShape`] at some [`Bits`]; [`network_cost`] adds up the layers of a network.
#![forbid(unsafe_code)]

pub mod bitfusion;
mod cost;
mod layer;
pub mod networks;

pub use cost::{CostModel, Energy, LayerCost, NetworkCost, network_cost};
pub use layer::{Bits, Layer, LayerKind, LayerShape};
pub use lessen_base::{Error, Result};
