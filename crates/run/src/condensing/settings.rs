//! The settings of a condensation that a recipe's keys make: the method's defaults, and what keys say otherwise.

use crate::recipe::config::Config;
use crate::recipe::keys::CondenseKeys;
use crate::recipe::settings::Settings;
use lessen_base::{Error, Result};
use lessen_condense::{Method, Settings as Condensation};
use lessen_nn::models::vision::{ConvNet, Network, VisionModel};

/// The network whose gradients are matched where a recipe names none.
const NETWORK: &str = "convnet-3";

/// Minutes to fill where no number of iterations is given.
const MINUTES: f64 = 5.0;

/// The keys with a part in a condensation: names, or sections.
const READ: [&str; 9] = [
    "run",
    "condense",
    "data.path",
    "data.test",
    "data.dev",
    "data.format",
    "data.held_out",
    "data.held_out_seed",
    "image",
];

/// Keys of these sections that have none.
const UNREAD: [&str; 3] = ["image.augment", "image.mixup", "image.cutmix"];

/// The number of outer iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Iterations {
    /// This one.
    Count(usize),
    /// As many as fill these minutes.
    Minutes(f64),
}

/// Refuses a flag over a key that has no part in a condensation.
///
/// # Errors
/// The flag.
pub(crate) fn check_flags(settings: &Settings) -> Result<()> {
    let is_read = |name: &str| {
        let section = name.split_once('.').map_or(name, |(section, _)| section);
        !UNREAD.contains(&name) && (READ.contains(&name) || READ.contains(&section))
    };
    match settings.flags().find(|(name, _)| !is_read(name)) {
        None => Ok(()),
        Some((name, flag)) => Err(Error::user(format!(
            "{flag}: {name} has no part in a condensation; leave it out (keys of `lessen condense` are those of condense, \
             image and data, by `lessen recipes --keys`)"
        ))),
    }
}

/// Refuses a flag over a key of condensations for another command, such as `lessen train`.
///
/// # Errors
/// The flag.
pub fn check_no_condensation(settings: &Settings) -> Result<()> {
    match settings.flags().find(|(name, _)| name.starts_with("condense.")) {
        None => Ok(()),
        Some((name, flag)) => Err(Error::user(format!(
            "{flag}: {name} is for `lessen condense`, and has no part in a training; leave it out"
        ))),
    }
}

/// The settings of a condensation, for as many iterations as are named, or else for none.
///
/// # Errors
/// No number of images of a class, a number that makes no sense.
pub(crate) fn condensation(config: &Config) -> Result<Condensation> {
    let keys = &config.condense;
    let per_class = keys.per_class.ok_or_else(|| {
        Error::user("how many images of a class are to be made is not said; name it with --per-class")
    })?;
    let own = Condensation::published(keys.method.unwrap_or(Method::Mda), per_class)?;
    let settings = Condensation {
        per_class,
        iterations: keys.iterations.unwrap_or(0),
        updates: keys.updates.unwrap_or(own.updates),
        epochs: keys.epochs.unwrap_or(own.epochs),
        level: keys.level.unwrap_or(own.level),
        lambda: keys.lambda.or(own.lambda),
        distance: keys.distance.unwrap_or(own.distance),
        image_rate: keys.image_rate.unwrap_or(own.image_rate),
        image_momentum: keys.image_momentum.unwrap_or(own.image_momentum),
        network_rate: keys.network_rate.unwrap_or(own.network_rate),
        network_momentum: keys.network_momentum.unwrap_or(own.network_momentum),
        real_batch: keys.real_batch.unwrap_or(own.real_batch),
        network_batch: keys.network_batch.unwrap_or(own.network_batch),
        start: keys.start.unwrap_or(own.start),
        seed: keys.seed.unwrap_or(own.seed),
        precision: keys.precision.unwrap_or(own.precision),
        ..own
    };
    settings.check()?;
    Ok(settings)
}

/// How long a condensation goes on.
pub(crate) fn iterations(keys: &CondenseKeys) -> Iterations {
    match keys.iterations {
        Some(count) => Iterations::Count(count),
        None => Iterations::Minutes(keys.minutes.unwrap_or(MINUTES)),
    }
}

/// The network that the keys name, for this number of classes.
///
/// # Errors
/// Sizes for a network that has its own.
pub fn network(config: &Config, classes: usize) -> Result<VisionModel> {
    let keys = &config.condense;
    let network = keys.network.or_else(|| Network::of(NETWORK));
    let network = network.ok_or_else(|| Error::internal("the default network has no name"))?;
    if network.name() == NETWORK {
        let own = ConvNet::new(classes);
        return Ok(ConvNet {
            width: keys.width.unwrap_or(own.width),
            depth: keys.depth.unwrap_or(own.depth),
            ..own
        }
        .into());
    }
    let sizes = [("condense.width", keys.width), ("condense.depth", keys.depth)];
    match sizes.into_iter().find(|(_, size)| size.is_some()) {
        None => Ok(network.with_classes(classes)),
        Some((key, _)) => Err(Error::user(format!(
            "{} is for {NETWORK}, and the network is {}; leave it out",
            config.place(key),
            network.name()
        ))),
    }
}

/// The settings of a condensation as keys and values in words, which a folder keeps and a resumed run compares.
pub(crate) fn resolved(config: &Config, settings: &Condensation) -> Vec<(&'static str, String)> {
    let keys = &config.condense;
    let network = keys.network.map_or(NETWORK, Network::name);
    let convnet = ConvNet::new(1);
    let lambda = settings
        .lambda
        .map_or("classes".to_string(), |lambda| lambda.to_string());
    let mut all = vec![
        ("per_class", settings.per_class.to_string()),
        ("network", network.to_string()),
    ];
    if network == NETWORK {
        all.push(("width", keys.width.unwrap_or(convnet.width).to_string()));
        all.push(("depth", keys.depth.unwrap_or(convnet.depth).to_string()));
    }
    all.extend([
        ("updates", settings.updates.to_string()),
        ("epochs", settings.epochs.to_string()),
        ("level", settings.level.to_string()),
        ("lambda", lambda),
        ("distance", settings.distance.to_string()),
        ("image_rate", settings.image_rate.to_string()),
        ("image_momentum", settings.image_momentum.to_string()),
        ("network_rate", settings.network_rate.to_string()),
        ("network_momentum", settings.network_momentum.to_string()),
        ("real_batch", settings.real_batch.to_string()),
        ("network_batch", settings.network_batch.to_string()),
        ("start", settings.start.to_string()),
        ("seed", settings.seed.to_string()),
        ("precision", format!("{:?}", settings.precision).to_lowercase()),
    ]);
    all
}
