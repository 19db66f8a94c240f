//! Experiments on condensed sets: other networks than the one that made them, choosing among networks, and learning
//! classes one after another (Zhao, Mopuri and Bilen 2021, section 4; Jiang 2023, table 2.4).

mod class_view;
mod continual;
mod cross_architecture;
mod proxy;
mod rank_correlation;

pub use class_view::ClassView;
pub use continual::{NetworkOf, Remember, continual};
pub use cross_architecture::{
    CrossArchitecture, NamedNetwork, NamedSets, SettingsOf, condensed_sets, cross_architecture,
};
pub use proxy::{Candidate, Proxy, proxy, small_convnets};
pub use rank_correlation::rank_correlation;
