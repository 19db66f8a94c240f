//! How good are condensed images? Networks are trained on them from scratch and tested on the test images of the
//! recipe.

use super::CondenseKeys;
use super::folder::CondensedFolder;
use super::judging::{Judged, Judges, warn_of_divergence};
use super::settings::network as own_network;
use crate::job::RecipeImages;
use crate::planning::memory_watch::MemoryWatch;
use lessen_base::{Error, Result};
use lessen_compile::Precision;
use lessen_condense::{Accuracy, Augmentation, ImageSource, LabelledImages, Network, TrainingSettings};
use lessen_data::images::Preprocessing;
use lessen_nn::models::vision::{Network as NamedNetwork, VisionModel};
use lessen_task::device::NewBackend;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::value::SettingValue;
use lessen_task::wording::{counted, tell};
use lessen_train::Peak;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The built-in recipe whose images are digits.
const DIGITS: &str = "mnist";

/// The setting of a condensation that names a strategy of augmentation.
const AUGMENT: &str = "augment";

/// An evaluation that is asked for.
#[derive(Clone, Debug)]
pub struct EvaluationRequest {
    /// Folders of condensed images, each a set.
    pub folders: Vec<PathBuf>,
    /// Other data than that of the first folder.
    pub data: Option<PathBuf>,
    /// The networks that learn; that of the condensation if there are none.
    pub networks: Vec<NamedNetwork>,
    /// Networks that are trained on each set.
    pub count: usize,
    /// Epochs over the images; the published number if `None`.
    pub epochs: Option<usize>,
    /// Learning rate of the first half of the epochs; if `None`, the one that was learned with the images, or else the
    /// published one.
    pub rate: Option<f64>,
    /// How images are changed; as published if `None`.
    pub augmentation: Option<Augmentation>,
    /// Dtype that products and convolutions read.
    pub precision: Precision,
    /// Epochs over the whole training split, on which one network is trained as well.
    pub whole_epochs: Option<usize>,
    /// Most bytes for the whole process.
    pub budget: Option<usize>,
    /// Seed of the networks.
    pub seed: u64,
}

/// What a network learnt.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluatedNetwork {
    /// Its name.
    pub name: String,
    /// How it was trained.
    pub settings: TrainingSettings,
    /// The accuracy of each network from 0 to 1, set by set; `None` where its loss became infinite or NaN.
    pub networks: Vec<Option<f64>>,
    /// The accuracies of the networks that did not diverge; `None` if all diverged.
    pub accuracy: Option<Accuracy>,
    /// The accuracy after the whole training split.
    pub whole: Option<Accuracy>,
}

/// What an evaluation found.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Folders of the sets.
    pub folders: Vec<PathBuf>,
    /// Images of each set.
    pub images: Vec<usize>,
    /// Images by which networks are tested.
    pub tested: usize,
    /// The networks, in the order in which they were asked for.
    pub networks: Vec<EvaluatedNetwork>,
    /// The most bytes that the process announced, and those that it allocated.
    pub peak: Peak,
}

/// Trains networks on condensed images and tests them.
///
/// # Errors
/// A folder without condensed images, folders of different data, data that cannot be read or is normalized in another
/// way, a learning rate for images that have one of their own, a network that does not fit the images, a network on the
/// whole training split whose loss is infinite or NaN.
pub fn evaluate_condensed(request: &EvaluationRequest, new_backend: &NewBackend) -> Result<Evaluation> {
    let mut watch = MemoryWatch::begin();
    let sets = Sets::read(request)?;
    sets.check_rate(request)?;
    let (classes, test) = (sets.images.names.len(), &sets.images.test);
    let mut judges = Judges::new(&mut watch, request.budget, new_backend)?;
    let mut networks = Vec::new();
    let published = TrainingSettings::default();
    for (name, network) in sets.networks(request)? {
        let settings = TrainingSettings {
            epochs: request.epochs,
            rate: request.rate.unwrap_or(published.rate),
            augmentation: match request.augmentation {
                Some(augmentation) => augmentation,
                None => sets.augmentation(&network)?,
            },
            seed: request.seed,
            precision: request.precision,
            ..published.clone()
        };
        let what = format!(
            "{name}: {} on {}, {} with augmentation {}, tested on {} of {classes} classes",
            counted(request.count as u64, "network"),
            sets.counted(),
            counted(settings.epochs() as u64, "epoch"),
            settings.augmentation,
            test.labels().len()
        );
        let found: Vec<&dyn ImageSource> = sets.sets.iter().map(|set| set as &dyn ImageSource).collect();
        let judged = judges.judged(&network, (&found, test), (&settings, request.count), &what)?;
        warn_of_divergence(&judged);
        let whole = match request.whole_epochs {
            None => None,
            Some(epochs) => {
                let what = format!(
                    "{name}: the whole training split of {}, {}",
                    sets.images.train.labels().len(),
                    counted(epochs as u64, "epoch")
                );
                let of_whole = TrainingSettings {
                    epochs: Some(epochs),
                    ..settings.clone()
                };
                Some(judges.accuracy_of_one(&network, (&sets.images.train, test), &of_whole, &what)?)
            }
        };
        networks.push(EvaluatedNetwork::new((name, settings), judged, whole));
    }
    Ok(Evaluation {
        folders: request.folders.clone(),
        images: sets.sets.iter().map(|set| set.labels().len()).collect(),
        tested: test.labels().len(),
        networks,
        peak: judges.peak(),
    })
}

/// Trains the network that a recipe's keys name on the whole training split, and tests it: the accuracy, from 0 to 1.
/// Augmentation is as published where none is given.
///
/// # Errors
/// Data that cannot be read, a network that does not fit the images, a loss that is infinite or NaN,
/// Ctrl-C.
pub(crate) fn evaluate_whole(
    config: &Config,
    (settings, augmentation): (TrainingSettings, Option<Augmentation>),
    new_backend: &NewBackend,
) -> Result<f64> {
    let mut watch = MemoryWatch::begin();
    let images = RecipeImages::read(config)?;
    let network = own_network(config, images.names.len())?;
    let augmentation = match augmentation {
        Some(augmentation) => augmentation,
        None => {
            let is_digits = config.recipe() == DIGITS;
            TrainingSettings::published(&network, images.test.shape(), is_digits)?.augmentation
        }
    };
    let settings = TrainingSettings {
        augmentation,
        ..settings
    };
    let what = format!(
        "the whole training split of {}, {} with augmentation {augmentation}",
        images.train.labels().len(),
        counted(settings.epochs() as u64, "epoch")
    );
    let mut judges = Judges::new(&mut watch, config.run.budget, new_backend)?;
    let accuracy = judges.accuracy_of_one(&network, (&images.train, &images.test), &settings, &what)?;
    Ok(accuracy.mean())
}

/// The network of a condensation by its name, with the sizes that keys gave it.
fn network_in_words(config: &Config, name: String) -> Result<String> {
    let keys = config.settings.section::<CondenseKeys>()?;
    let sizes = [("width", keys.width), ("depth", keys.depth)];
    let sizes = sizes.map(|(what, size)| size.map(|size| format!("{what} {size}")));
    let sizes: Vec<String> = sizes.into_iter().flatten().collect();
    Ok(match sizes.len() {
        0 => name,
        _ => format!("{name} of {}", sizes.join(" and ")),
    })
}

/// The sets of an evaluation.
struct Sets {
    config: Config,
    /// The name of the recipe.
    recipe: String,
    /// The network of the condensation.
    network: String,
    /// The strategy by which the images were augmented in the condensation, in words.
    strategy: Option<String>,
    sets: Vec<LabelledImages>,
    images: RecipeImages,
}

impl Sets {
    /// Reads the sets and the images of the recipe.
    fn read(request: &EvaluationRequest) -> Result<Sets> {
        let Some(first) = request.folders.first() else {
            return Err(Error::user(
                "there is no set to evaluate; name a folder of condensed images",
            ));
        };
        let folder = CondensedFolder::open(first)?;
        let manifest = folder.manifest()?;
        let mut settings = folder.settings()?;
        if let Some(data) = &request.data {
            let shown = data.display().to_string();
            let path = std::path::absolute(data).unwrap_or_else(|_| data.clone());
            settings.set_named("data.path", SettingValue::of_path(&path)?, format!("--data {shown}"))?;
        }
        let config = Config::new(settings)?;
        let images = RecipeImages::read(&config)?;
        images.remarks.iter().for_each(|remark| tell(remark));
        let mut sets = Vec::with_capacity(request.folders.len());
        for path in &request.folders {
            let folder = CondensedFolder::open(path)?;
            let own = folder.manifest()?;
            let other = |what: &str, how: &str| {
                Error::user(format!(
                    "the images in {} have {what} than those of the data {} ({how}); name the data that was condensed",
                    path.display(),
                    config.data.path.as_deref().unwrap_or(first).display()
                ))
            };
            if own.classes != images.names {
                let lists = format!("{}; {}", own.classes.join(", "), images.names.join(", "));
                return Err(other("other classes", &lists));
            }
            let preprocessing = Preprocessing::load(folder.root())?;
            if preprocessing.as_ref() != Some(images.preprocessing()) {
                return Err(other("another size, mean or deviation", "preprocessor_config.json"));
            }
            sets.push(folder.images()?);
        }
        let setting = |name: &str| manifest.own.settings.get(name).cloned();
        Ok(Sets {
            recipe: manifest.recipe.clone(),
            network: network_in_words(&config, setting("network").unwrap_or_default())?,
            strategy: setting(AUGMENT),
            config,
            sets,
            images,
        })
    }

    /// Refuses a learning rate for images that were condensed together with one.
    fn check_rate(&self, request: &EvaluationRequest) -> Result<()> {
        let Some(rate) = request.rate else { return Ok(()) };
        for (set, folder) in self.sets.iter().zip(&request.folders) {
            if let Some(learned) = set.learned_rate() {
                return Err(Error::user(format!(
                    "the learning rate {rate} is not that of the images in {}, {learned}, which was learned with them; leave \
                     it out",
                    folder.display()
                )));
            }
        }
        Ok(())
    }

    /// The networks with their names; all of them fit the images.
    fn networks(&self, request: &EvaluationRequest) -> Result<Vec<(String, VisionModel)>> {
        let classes = self.images.names.len();
        if request.networks.is_empty() {
            return Ok(vec![(self.network.clone(), own_network(&self.config, classes)?)]);
        }
        let named = request.networks.iter().map(|network| {
            let (name, network) = (network.name().to_string(), network.with_classes(classes));
            let checked = network.parameters(self.images.test.shape());
            checked.map_err(|error| error.at(format!("--network {name}")))?;
            Ok((name, network))
        });
        named.collect()
    }

    /// The augmentation where none is asked for: the strategy of the condensation if it had one, or else as published.
    fn augmentation(&self, network: &dyn Network) -> Result<Augmentation> {
        match self.strategy.as_ref().filter(|word| *word != "none") {
            Some(strategy) => strategy.parse(),
            None => {
                let shape = self.images.test.shape();
                let published = TrainingSettings::published(network, shape, self.recipe == DIGITS)?;
                Ok(published.augmentation)
            }
        }
    }

    /// The sets in words.
    fn counted(&self) -> String {
        let images: Vec<String> = self.sets.iter().map(|set| set.labels().len().to_string()).collect();
        let rates = self.sets.iter().filter_map(ImageSource::learned_rate);
        let rates: Vec<String> = rates.map(|rate| rate.to_string()).collect();
        let learned = match rates.len() {
            0 => String::new(),
            _ => format!(" by the learning rate that was learned with them, {}", rates.join(", ")),
        };
        match images.len() {
            1 => format!("{} images{learned}", images[0]),
            count => format!("each of {count} sets of {} images{learned}", images.join(", ")),
        }
    }
}

impl Evaluation {
    /// One JSON object. Accuracies are from 0 to 1.
    pub fn to_json(&self) -> Value {
        let networks: Vec<Value> = self.networks.iter().map(EvaluatedNetwork::to_json).collect();
        json!({
            "folders": self.folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>(),
            "images": self.images,
            "tested": self.tested,
            "networks": networks,
            "peak_bytes": { "planned": self.peak.planned, "measured": self.peak.measured },
        })
    }

    /// Refuses an evaluation in which every network diverged.
    ///
    /// # Errors
    /// No network with an accuracy.
    pub fn check_learned(&self) -> Result<()> {
        if self.networks.iter().any(|network| network.accuracy.is_some()) {
            return Ok(());
        }
        Err(Error::user(
            "no network has an accuracy, since the loss of each became infinite or NaN; choose a smaller learning rate",
        ))
    }

    /// A line for each network.
    pub fn to_text(&self) -> String {
        self.networks.iter().map(EvaluatedNetwork::to_text).collect()
    }
}

impl EvaluatedNetwork {
    fn new((name, settings): (String, TrainingSettings), judged: Vec<Judged>, whole: Option<Accuracy>) -> Self {
        let networks: Vec<Option<f64>> = judged.into_iter().map(std::result::Result::ok).collect();
        EvaluatedNetwork {
            name,
            settings,
            accuracy: Accuracy::new(networks.iter().flatten().copied().collect()).ok(),
            networks,
            whole,
        }
    }

    /// Networks whose loss became infinite or NaN.
    fn diverged(&self) -> usize {
        self.networks.iter().filter(|network| network.is_none()).count()
    }

    /// The mean accuracy as a share of that after the whole training split.
    fn relative(&self) -> Option<f64> {
        Some(self.accuracy.as_ref()?.relative_to(self.whole.as_ref()?))
    }

    fn to_json(&self) -> Value {
        json!({
            "network": self.name,
            "augmentation": self.settings.augmentation.to_string(),
            "epochs": self.settings.epochs(),
            "accuracies": self.networks,
            "diverged": self.diverged(),
            "mean": self.accuracy.as_ref().map(Accuracy::mean),
            "deviation": self.accuracy.as_ref().and_then(Accuracy::deviation),
            "whole": self.whole.as_ref().map(Accuracy::mean),
            "relative": self.relative(),
        })
    }

    fn to_text(&self) -> String {
        let count = self.networks.len();
        let accuracy = match (&self.accuracy, self.diverged()) {
            (None, _) => format!("no accuracy, {} diverged", counted(count as u64, "network")),
            (Some(accuracy), 0) => format!("accuracy {accuracy} % over {}", counted(count as u64, "network")),
            (Some(accuracy), diverged) => format!(
                "accuracy {accuracy} % over {}, {diverged} diverged",
                counted((count - diverged) as u64, "network")
            ),
        };
        let whole = match (&self.whole, self.relative()) {
            (Some(whole), Some(relative)) => format!(
                ", {:.1} % of the {whole} % after the whole training split",
                100.0 * relative
            ),
            _ => String::new(),
        };
        format!("{}: {accuracy}{whole}\n", self.name)
    }
}
