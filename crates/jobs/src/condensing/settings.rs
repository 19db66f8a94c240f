//! The settings of a condensation that a recipe's keys make: the method's defaults, and what keys say otherwise.

use crate::schema::CondenseKeys;
use crate::schema::{check_read, unread};
use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_condense::{Method, Objective, Settings as Condensation, Strategy, Trajectories};
use lessen_nn::models::vision::{ConvNet, Network, VisionModel};
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;

/// The network whose gradients are matched where a recipe names none.
const NETWORK: &str = "convnet-3";

/// The method where a recipe names none.
const METHOD: Method = Method::Mda;

/// The recipe whose images are digits, which have no mirror images.
const DIGITS: &str = "mnist";

/// Real images of a class in an update of the images, where gradients are matched and a time is to be filled: updates
/// by few images take less time, and more of them come further.
const QUICK_BATCH: usize = 16;

/// Minutes to fill where no number of iterations is given.
const MINUTES: f64 = 5.0;

/// The number of outer iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Iterations {
    /// A number that is given.
    Count(usize),
    /// The number that fills these minutes.
    Minutes(f64),
}

/// The default number of images of each class.
const PER_CLASS: usize = 1;

/// The settings of a condensation, with the iterations that are named, or else with none.
///
/// # Errors
/// A number that makes no sense, a key that has no part in the method.
pub(crate) fn condensation(config: &Config) -> Result<Condensation> {
    let keys = config.settings.section::<CondenseKeys>()?;
    let per_class = keys.per_class.unwrap_or(PER_CLASS);
    let method = keys.method.unwrap_or(METHOD);
    let own = Condensation::published(method, per_class)?;
    check_read::<CondenseKeys>(config, reader(own.objective), ("condense.method", method))?;
    let is_digits = config.recipe() == DIGITS;
    let published = own.augment.map(|all| if is_digits { Strategy::DIGITS } else { all });
    let settings = Condensation {
        objective: match own.objective {
            Objective::Trajectories(own) => Objective::Trajectories(trajectories(&keys, own)),
            other => other,
        },
        per_class,
        iterations: keys.iterations.unwrap_or(0),
        updates: keys.updates.unwrap_or(own.updates),
        epochs: keys.epochs.unwrap_or(own.epochs),
        level: keys.level.unwrap_or(own.level),
        lambda: keys.lambda.or(own.lambda),
        distance: keys.distance.unwrap_or(own.distance),
        image_rate: keys.image_rate.unwrap_or(published_image_rate(&keys, &own)),
        image_momentum: keys.image_momentum.unwrap_or(own.image_momentum),
        network_rate: keys.network_rate.unwrap_or(own.network_rate),
        network_momentum: keys.network_momentum.unwrap_or(own.network_momentum),
        real_batch: keys.real_batch.unwrap_or(match (keys.iterations, own.objective) {
            (None, Objective::Gradients) => QUICK_BATCH,
            _ => own.real_batch,
        }),
        network_batch: keys.network_batch.unwrap_or(own.network_batch),
        start: keys.start.unwrap_or(own.start),
        augment: keys.augment.or(published),
        soft_labels: keys.soft_labels.filter(|rate| *rate > 0.0).or(own.soft_labels),
        seed: keys.seed.unwrap_or(own.seed),
        precision: keys.precision.unwrap_or(own.precision),
        ..own
    };
    settings.check()?;
    Ok(settings)
}

/// The published learning rate of images where the gradients of an MLP are matched.
const MLP_IMAGE_RATE: f64 = 0.01;

/// The learning rate of images where none is given.
fn published_image_rate(keys: &CondenseKeys, own: &Condensation) -> f64 {
    let is_mlp = keys.network.is_some_and(|network| network.name() == "mlp");
    if is_mlp && own.objective == Objective::Gradients {
        MLP_IMAGE_RATE
    } else {
        own.image_rate
    }
}

/// The settings of trajectory matching that the keys make of the method's.
fn trajectories(keys: &CondenseKeys, own: Trajectories) -> Trajectories {
    Trajectories {
        experts: keys.experts.unwrap_or(own.experts),
        expert_epochs: keys.expert_epochs.unwrap_or(own.expert_epochs),
        start_epochs: keys.start_epochs.unwrap_or(own.start_epochs),
        target_epochs: keys.target_epochs.unwrap_or(own.target_epochs),
        steps: keys.student_steps.unwrap_or(own.steps),
        batch: keys.student_batch.or(own.batch),
        student_rate: keys.student_rate.unwrap_or(own.student_rate),
        student_rate_rate: keys.student_rate_rate.unwrap_or(own.student_rate_rate),
    }
}

/// The reader of keys that an objective is.
fn reader(objective: Objective) -> &'static str {
    match objective {
        Objective::Gradients => "gradients",
        Objective::Distribution => "distribution",
        Objective::Trajectories(_) => "trajectories",
        Objective::Coreset(own) if own.trains() => "trained",
        Objective::Coreset(_) => "chosen",
    }
}

/// Leaves out the keys that have no part in the method of these settings, as far as `may_go` says so by their names.
///
/// # Errors
/// A method that makes no sense.
pub(crate) fn without_unread(settings: &Settings, may_go: &dyn Fn(&str) -> bool) -> Result<Settings> {
    let keys = Config::new(settings.clone())?.settings.section::<CondenseKeys>()?;
    let own = Condensation::published(keys.method.unwrap_or(METHOD), keys.per_class.unwrap_or(PER_CLASS))?;
    let mut found = settings.clone();
    for key in unread::<CondenseKeys>(reader(own.objective)).filter(|key| may_go(key.name)) {
        found.values.remove(key.name);
    }
    Ok(found)
}

/// The iterations of a condensation: those that keys give, or else those that fill a time.
pub(crate) fn iterations(keys: &CondenseKeys, settings: &Condensation) -> Iterations {
    match (settings.objective, keys.iterations) {
        (Objective::Coreset(_), _) => Iterations::Count(0),
        (_, Some(count)) => Iterations::Count(count),
        (_, None) => Iterations::Minutes(keys.minutes.unwrap_or(MINUTES)),
    }
}

/// The network that the keys name, for this number of classes.
///
/// # Errors
/// Sizes for a network that has its own.
pub fn network(config: &Config, classes: usize) -> Result<VisionModel> {
    let keys = config.settings.section::<CondenseKeys>()?;
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

/// Checks that a network reads images of this height, width and number of channels.
///
/// # Errors
/// Images that are too small for it.
pub(super) fn check_network(config: &Config, network: &VisionModel, shape: [usize; 3]) -> Result<()> {
    let name = config
        .settings
        .section::<CondenseKeys>()?
        .network
        .map_or(NETWORK, Network::name);
    let read = network.parameters(shape).map(|_| ());
    read.map_err(|error| error.at(format!("condense.network = \"{name}\"")))
}

/// The settings of a condensation as keys and values in words, which a folder keeps and a resumed run compares.
pub(crate) fn resolved(config: &Config, settings: &Condensation) -> Result<Vec<(&'static str, String)>> {
    let keys = config.settings.section::<CondenseKeys>()?;
    let network = keys.network.map_or(NETWORK, Network::name);
    let (convnet, is_convnet) = (ConvNet::new(1), network == NETWORK);
    let or = |given: Option<String>, word: &str| given.unwrap_or(word.to_string());
    let own = match settings.objective {
        Objective::Trajectories(own) => own,
        _ => Trajectories::default(),
    };
    let all = [
        ("method", keys.method.unwrap_or(METHOD).to_string()),
        ("per_class", settings.per_class.to_string()),
        ("network", network.to_string()),
        ("width", keys.width.unwrap_or(convnet.width).to_string()),
        ("depth", keys.depth.unwrap_or(convnet.depth).to_string()),
        ("updates", settings.updates.to_string()),
        ("image_rate", settings.image_rate.to_string()),
        ("image_momentum", settings.image_momentum.to_string()),
        ("real_batch", settings.real_batch.to_string()),
        ("start", settings.start.to_string()),
        ("augment", or(settings.augment.map(|own| own.to_string()), "none")),
        ("seed", settings.seed.to_string()),
        ("precision", settings.precision.word().to_string()),
        ("network_rate", settings.network_rate.to_string()),
        ("network_momentum", settings.network_momentum.to_string()),
        ("network_batch", settings.network_batch.to_string()),
        (
            "soft_labels",
            or(settings.soft_labels.map(|rate| rate.to_string()), "none"),
        ),
        ("epochs", settings.epochs.to_string()),
        ("level", settings.level.to_string()),
        (
            "lambda",
            or(settings.lambda.map(|lambda| lambda.to_string()), "classes"),
        ),
        ("distance", settings.distance.to_string()),
        ("experts", own.experts.to_string()),
        ("expert_epochs", own.expert_epochs.to_string()),
        ("start_epochs", own.start_epochs.to_string()),
        ("target_epochs", own.target_epochs.to_string()),
        ("student_steps", own.steps.to_string()),
        ("student_batch", or(own.batch.map(|batch| batch.to_string()), "all")),
        ("student_rate", own.student_rate.to_string()),
        ("student_rate_rate", own.student_rate_rate.to_string()),
    ];
    let reader = reader(settings.objective);
    let is_unread = |name: &str| unread::<CondenseKeys>(reader).any(|key| key.name.ends_with(&format!(".{name}")));
    let has_part = |name: &str| (is_convnet || !["width", "depth"].contains(&name)) && !is_unread(name);
    Ok(all.into_iter().filter(|(name, _)| has_part(name)).collect())
}
