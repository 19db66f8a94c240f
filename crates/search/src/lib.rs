//! Which architecture and precision answer best under a cost? A search for both together, on a model of hardware
//! (Jiang 2023, "Efficient Machine Learning Software Stack from Algorithms to Compilation", section 2.3).
//!
//! A [`Space`] has networks of MobileNetV2's blocks with a kernel, an expansion and bits each. [`Searcher`] trains a
//! supernet of all of them and learns which choices are best, by the Gumbel softmax for the loss and by
//! [`reinforce`](reinforce()) for the cost that a [`CostTable`] has of a `CostModel` of `lessen-hardware`. It ends
//! with a `MixedArchitecture` of `lessen-nn`, which trains as any other network.
//!
//! For a network that is there already, [`AnyBits`] trains it with bits that are inputs; [`allocate`] chooses the
//! bits of its layers exactly by measured sensitivities, and [`Agent`] by reinforcement learning, as HAQ does.
//!
//! ```
//! use lessen_search::{Item, knapsack};
//!
//! // Bits of two layers: more bits cost more and lose less.
//! let item = |cost, loss: f64| Item { cost, value: -loss };
//! let layers = [vec![item(2.0, 0.9), item(4.0, 0.1)], vec![item(2.0, 0.3), item(4.0, 0.2)]];
//! assert_eq!(knapsack(&layers, 6.0), Some(vec![1, 0]));
//! assert_eq!(knapsack(&layers, 3.0), None);
//! ```
#![forbid(unsafe_code)]

mod allocation;
mod any_bits;
mod batches;
mod cost;
mod ddpg;
mod derive;
mod gates;
mod haq;
mod kept;
mod knapsack;
mod parts;
mod reinforce;
mod rounding;
mod searcher;
mod settings;
mod space;
mod steps;
mod supernet;
mod variables;

pub use allocation::allocate;
pub use any_bits::{AnyBits, BlockBits};
pub use cost::{CostKind, CostTable, Costs};
pub use ddpg::{Agent, AgentSettings, Transition};
pub use derive::derive;
pub use gates::Gates;
pub use haq::{Episode, Haq, HaqSettings, haq};
pub use knapsack::{Item, knapsack};
pub use parts::parted;
pub use reinforce::{Estimate, reinforce};
pub use searcher::{Epoch, SearchStep, Searcher};
pub use settings::{CostGradient, Settings};
pub use space::{Aspect, BlockSpace, Choice, Rows, Space};
pub use variables::{Variable, Variables, gumbel};
