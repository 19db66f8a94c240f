//! The condensation that settings ask for.

use crate::condensation::Condensation;
use crate::condenser::Condenser;
use crate::coreset_choice::CoresetChoice;
use crate::distribution::DistributionMatcher;
use crate::network::Network;
use crate::objective::Objective;
use crate::settings::Settings;
use crate::trajectories::TrajectoryMatcher;
use lessen_base::Result;
use lessen_data::images::ImageSource;
use lessen_device::SharedDevice;
use std::path::Path;

/// The condensation that the settings ask for. Files that it keeps lie in the folder `work`; without one they stay in
/// memory.
///
/// # Errors
/// Settings out of range; a class with fewer real images than synthetic ones; images that the network cannot read;
/// an operation without a second derivative, by its name; a budget below the floor.
pub fn condensation<'a>(
    device: impl Into<SharedDevice>,
    network: &'a dyn Network,
    source: &'a dyn ImageSource,
    settings: Settings,
    work: Option<&Path>,
) -> Result<Box<dyn Condensation + 'a>> {
    Ok(match settings.objective {
        Objective::Gradients => Box::new(Condenser::new(device, network, source, settings)?),
        Objective::Distribution => Box::new(DistributionMatcher::new(device, network, source, settings)?),
        Objective::Coreset(_) => Box::new(CoresetChoice::new(device, network, source, settings)?),
        Objective::Trajectories(_) => Box::new(TrajectoryMatcher::new(device, network, source, settings, work)?),
    })
}
