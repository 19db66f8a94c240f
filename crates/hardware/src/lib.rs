//! What does a network cost on an accelerator? Cycles, stalls, energy and time by layer, from models of hardware.
//!
//! A [`CostModel`] answers for one [`LayerShape`] at some [`Bits`]; [`network_cost`] adds up the layers of a network.
//! Layers come from a traced graph ([`layers_of_graph`]), from a TOML file ([`read_network`]), or from the published
//! [`networks`].
//! Units of attention functions as Verilog are in [`rtl`].
//!
//! ```
//! use lessen_hardware::bitfusion::{Accelerator, BitFusion, GroupMapping};
//! use lessen_hardware::{Bits, network_cost, networks};
//!
//! let accelerator = Accelerator::named("bf_e").unwrap();
//! let model = BitFusion::new(accelerator, GroupMapping::PerGroup);
//! let layers = networks::vgg16(16, 1000, Bits::both(8));
//! let cost = network_cost(&model, &layers)?;
//! assert_eq!(cost.layers.len(), 16);
//! assert!(cost.total.milliseconds > 1000.0);
//! # Ok::<(), lessen_hardware::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bit_serial;
pub mod bitfusion;
mod cost;
mod graph_layers;
mod layer;
mod network_file;
pub mod networks;
mod roofline;
pub mod rtl;
mod toml_text;

pub use bit_serial::BitSerial;
pub use cost::{CostModel, Energy, LayerCost, NetworkCost, network_cost};
pub use graph_layers::{GraphLayers, Uncounted, layers_of_graph, layers_of_graphs};
pub use layer::{Bits, Layer, LayerKind, LayerShape};
pub use lessen_base::{Error, Result};
pub use network_file::{BitsByLayer, ReadNetwork, read_network};
pub use roofline::Roofline;
