//! Do images that were condensed with one network teach another one? (Table 2.4.)

use crate::chosen::condensation;
use crate::condensation::ImageUpdate;
use crate::evaluation::{Accuracy, evaluate};
use crate::network::Network;
use crate::settings::Settings;
use crate::training::TrainingSettings;
use lessen_base::{Error, Result};
use lessen_data::images::{ImageSource, LabelledImages};
use lessen_device::SharedDevice;

/// A network with a name.
pub type NamedNetwork<'a> = (&'a str, &'a dyn Network);

/// Condensed sets with the name of the network that made them.
pub type NamedSets<'a> = (&'a str, &'a [LabelledImages]);

/// Accuracies by the network that made the images and the network that learnt from them.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossArchitecture {
    /// Names of the networks that made images.
    pub sources: Vec<String>,
    /// Names of the networks that learnt from them.
    pub targets: Vec<String>,
    /// For each source the accuracies of each target.
    pub accuracies: Vec<Vec<Accuracy>>,
}

/// Condenses as many sets with a network, by the seeds from that of the settings on. `progress` hears the number of the
/// set and each update of its images.
///
/// # Errors
/// As [`condensation`], an image that cannot be read, a device that fails, an error of `progress`.
pub fn condensed_sets(
    device: &SharedDevice,
    network: &dyn Network,
    source: &dyn ImageSource,
    (settings, sets): (&Settings, usize),
    progress: &mut dyn FnMut(usize, &ImageUpdate) -> Result<()>,
) -> Result<Vec<LabelledImages>> {
    let of_set = |set: usize| {
        let own = Settings {
            seed: settings.seed.wrapping_add(set as u64),
            ..settings.clone()
        };
        let mut condensation = condensation(device.clone(), network, source, own, None)?;
        condensation.prepare(&mut |_| Ok(()))?;
        while condensation.done() < settings.iterations {
            condensation.iterate(&mut |update| progress(set, update))?;
        }
        condensation.images()
    };
    (0..sets).map(of_set).collect()
}

/// How a network is trained.
pub type SettingsOf<'a> = dyn Fn(&dyn Network) -> Result<TrainingSettings> + 'a;

/// Trains each target on the sets of each source, `networks` networks a set. `settings` says how a target is trained;
/// [`TrainingSettings::published`] does. `progress` hears the numbers of source and target and their accuracy.
///
/// # Errors
/// No source or target; the errors of [`evaluate`]; an error of `progress`.
pub fn cross_architecture(
    device: &SharedDevice,
    (sources, targets): (&[NamedSets<'_>], &[NamedNetwork<'_>]),
    test: &dyn ImageSource,
    (settings, networks): (&SettingsOf<'_>, usize),
    progress: &mut dyn FnMut(usize, usize, &Accuracy) -> Result<()>,
) -> Result<CrossArchitecture> {
    if sources.is_empty() || targets.is_empty() {
        return Err(Error::user(
            "the matrix of networks has no cell; give at least one network that made images and one that learns",
        ));
    }
    let mut accuracies = Vec::with_capacity(sources.len());
    for (row, (_, sets)) in sources.iter().enumerate() {
        let sets: Vec<&dyn ImageSource> = sets.iter().map(|set| set as &dyn ImageSource).collect();
        let mut of_source = Vec::with_capacity(targets.len());
        for (column, (_, network)) in targets.iter().enumerate() {
            let how = (&settings(*network)?, networks);
            let accuracy = evaluate(device.clone(), *network, (&sets, test), how, &mut |_| Ok(()))?;
            progress(row, column, &accuracy)?;
            of_source.push(accuracy);
        }
        accuracies.push(of_source);
    }
    Ok(CrossArchitecture {
        sources: sources.iter().map(|(name, _)| name.to_string()).collect(),
        targets: targets.iter().map(|(name, _)| name.to_string()).collect(),
        accuracies,
    })
}
