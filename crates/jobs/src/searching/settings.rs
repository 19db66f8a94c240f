//! The settings of a search that a recipe's keys make: the dissertation's, and what keys say otherwise.

use super::hardware::Candidate;
use crate::job::RecipeImages;
use crate::schema::check_read;
use crate::schema::{SearchKeys, SearchMethod, SpaceKind};
use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_data::images::ImageSource;
use lessen_hardware::CostModel;
use lessen_hardware::bitfusion::GroupMapping;
use lessen_nn::models::vision::MixedArchitecture;
use lessen_search::{BlockSpace, Choice, CostKind, CostTable, Costs, HaqSettings, Settings, Space};
use lessen_task::recipe::config::Config;
use std::fs;

/// Rows of images up to which the space is that for CIFAR, where a recipe names none.
const SMALL: usize = 64;

/// Images that go through a network together where its cost is told, as in the dissertation.
const COST_BATCH: usize = 16;

/// How far a search has come that has done so much, in words. Searches for bits have epochs, and then tests of bits.
///
/// # Errors
/// A value that a key does not take.
pub(super) fn reached(config: &Config, done: usize) -> Result<String> {
    let keys = config.settings.section::<SearchKeys>()?;
    let epochs = keys.epochs.unwrap_or(Settings::default().epochs);
    Ok(match keys.method {
        Some(SearchMethod::Allocation) if done > epochs => format!("test {}", done - epochs),
        Some(SearchMethod::Haq) if done > epochs => format!("episode {}", done - epochs),
        _ => format!("epoch {done}"),
    })
}

/// A search that is ready to be planned.
pub(super) struct Job {
    pub method: SearchMethod,
    pub hardware: Box<dyn CostModel>,
    /// How the hardware computes convolutions with groups, where it has several ways.
    pub mapping: Option<GroupMapping>,
    pub space: Space,
    pub table: CostTable,
    pub settings: Settings,
    /// Images that go through a network together where its cost is told.
    pub cost_batch: u64,
    /// HAQ's settings.
    pub haq: HaqSettings,
    /// Epochs of a training with other bits before they are tested, and its learning rate.
    pub tuning: (usize, f64),
}

impl Job {
    /// The share of the hardware's units that the cheapest network uses.
    ///
    /// # Errors
    /// A network that the hardware cannot model.
    pub(super) fn least_utilisation(&self, images: &RecipeImages) -> Result<f64> {
        let cheapest = |(block, costs): (&BlockSpace, &Vec<f64>)| {
            let places = 0..costs.len();
            block.choice(places.min_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap_or(0))
        };
        let choices: Vec<Choice> = self.space.blocks.iter().zip(&self.table.blocks).map(cheapest).collect();
        let costs = self.costs(images.train.shape(), images.train.classes());
        Ok(costs.network(&self.space.architecture(&choices))?.total.utilisation)
    }

    /// How costs are told of images of this shape.
    pub(super) fn costs(&self, image: [usize; 3], classes: usize) -> Costs<'_> {
        Costs {
            model: self.hardware.as_ref(),
            kind: self.settings.cost,
            batch: self.cost_batch,
            image,
            classes,
        }
    }
}

/// The search that a recipe's keys make.
///
/// # Errors
/// Keys that do not go together, a description of a network that cannot be read, bits that the hardware does not have,
/// a limit that no network meets.
pub(super) fn job(config: &Config, images: &RecipeImages, candidates: Vec<Candidate>) -> Result<Job> {
    let keys = config.settings.section::<SearchKeys>()?;
    let method = keys.method.unwrap_or(SearchMethod::Joint);
    check_read::<SearchKeys>(config, reader(method), ("search.method", method))?;
    let (shape, classes) = (images.train.shape(), images.train.classes());
    let own = Settings::default();
    let kind = keys.cost.unwrap_or(own.cost);
    let limit = keys.limit.as_deref().map(|text| kind.parse(text)).transpose();
    let is_small = match keys.space {
        Some(SpaceKind::Cifar) => true,
        Some(SpaceKind::Imagenet) => false,
        None => shape[0] <= SMALL,
    };
    let bits = list(config, "search.bits", keys.bits.as_deref())?;
    let narrow = |bits: usize| u32::try_from(bits).unwrap_or(u32::MAX);
    let bits: Option<Vec<u32>> = bits.map(|all| all.into_iter().map(narrow).collect());
    let usual = || vec![2, 4, 6, 8];
    let space = match method {
        SearchMethod::Joint | SearchMethod::Architecture => {
            let space = space(config, is_small)?;
            let bits = match method {
                SearchMethod::Architecture => bits.unwrap_or(vec![8]),
                _ => bits.unwrap_or_else(usual),
            };
            space.with_bits(&bits)
        }
        SearchMethod::Allocation | SearchMethod::Haq => {
            let network = network(config, is_small)?;
            Space::of_bits(&network, &bits.unwrap_or_else(usual))
        }
    };
    space
        .check()
        .map_err(|error| error.at(format!("the recipe {}", config.recipe())))?;
    let settings = Settings {
        epochs: keys.epochs.unwrap_or(own.epochs),
        frozen_epochs: keys.frozen_epochs.unwrap_or(own.frozen_epochs),
        batch: keys.batch.unwrap_or(own.batch),
        validation: keys.validation.unwrap_or(own.validation),
        weight_rate: keys.weight_rate.unwrap_or(own.weight_rate),
        weight_momentum: keys.weight_momentum.unwrap_or(own.weight_momentum),
        weight_decay: keys.weight_decay.unwrap_or(own.weight_decay),
        clip: keys.clip.unwrap_or(own.clip),
        logit_rate: keys.logit_rate.unwrap_or(own.logit_rate),
        logit_decay: keys.logit_decay.unwrap_or(own.logit_decay),
        temperature: keys.temperature.unwrap_or(own.temperature),
        cooling: keys.cooling.unwrap_or(own.cooling),
        unrolled: keys.unrolled.unwrap_or(own.unrolled),
        samples: keys.samples.unwrap_or(own.samples),
        cost: kind,
        lambda: keys.lambda.unwrap_or(own.lambda),
        limit: limit.map_err(|error| error.at(config.place("search.limit")))?,
        cost_gradient: keys.cost_gradient.unwrap_or(own.cost_gradient),
        cost_samples: keys.cost_samples.unwrap_or(own.cost_samples),
        label_smoothing: keys.label_smoothing.unwrap_or(own.label_smoothing),
        mixup: keys.mixup.unwrap_or(own.mixup),
        augment: keys.augment.unwrap_or(own.augment),
        spread: keys.spread.unwrap_or(own.spread),
        seed: keys.seed.unwrap_or(own.seed),
        precision: keys.precision.unwrap_or(own.precision),
        budget: None,
        tightest: false,
    };
    settings.check()?;
    let chooses_bits = matches!(method, SearchMethod::Allocation | SearchMethod::Haq);
    if chooses_bits && settings.limit.is_none() {
        return Err(Error::user(format!(
            "search.method = \"{method}\" chooses bits within a limit, and there is none; name it with --limit"
        )));
    }
    let haq = HaqSettings {
        episodes: keys.episodes.unwrap_or(HaqSettings::default().episodes),
        warmup: keys.random_episodes.unwrap_or(HaqSettings::default().warmup),
        ..HaqSettings::default()
    };
    let cost_batch = keys.cost_batch.unwrap_or(COST_BATCH) as u64;
    let best = best(
        candidates,
        &space,
        &|hardware, kind| Costs {
            model: hardware,
            kind,
            batch: cost_batch,
            image: shape,
            classes,
        },
        kind,
    )?;
    let (Candidate { hardware, mapping }, table) = best;
    table.check_limit(settings.limit, kind)?;
    Ok(Job {
        method,
        space,
        table,
        haq: HaqSettings {
            agent: lessen_search::AgentSettings {
                seed: settings.seed,
                ..haq.agent
            },
            ..haq
        },
        settings,
        cost_batch,
        tuning: (keys.tune_epochs.unwrap_or(1), TUNE_RATE),
        hardware,
        mapping,
    })
}

/// The hardware on which the cheapest network of a space costs least, of equal costs that of the least energy, and its
/// table.
fn best(
    candidates: Vec<Candidate>,
    space: &Space,
    costs: &dyn for<'a> Fn(&'a dyn CostModel, CostKind) -> Costs<'a>,
    kind: CostKind,
) -> Result<(Candidate, CostTable)> {
    let is_alone = candidates.len() == 1;
    let mut best: Option<([f64; 2], Candidate, CostTable)> = None;
    for candidate in candidates {
        let table = CostTable::new(space, &costs(candidate.hardware.as_ref(), kind))?;
        let energy = match is_alone {
            true => 0.0,
            false => CostTable::new(space, &costs(candidate.hardware.as_ref(), CostKind::Energy))?.range()[0],
        };
        let least = [table.range()[0], energy];
        if best.as_ref().is_none_or(|(known, ..)| least < *known) {
            best = Some((least, candidate, table));
        }
    }
    best.map(|(_, candidate, table)| (candidate, table))
        .ok_or_else(|| Error::internal("a search without hardware"))
}

/// The learning rate of a training with other bits, HAQ's.
const TUNE_RATE: f64 = 1e-3;

/// The reader of keys that a method is.
pub(super) fn reader(method: SearchMethod) -> &'static str {
    match method {
        SearchMethod::Joint | SearchMethod::Architecture => "supernet",
        own => own.word(),
    }
}

/// The space of the keys, with all bits.
fn space(config: &Config, is_small: bool) -> Result<Space> {
    let keys = config.settings.section::<SearchKeys>()?;
    let mut space = match (keys.width, keys.depth) {
        (None, None) => Space::published(is_small),
        (width, depth) => Space::scaled(is_small, width.unwrap_or(1.0), depth.unwrap_or(usize::MAX)),
    };
    let kernels = list(config, "search.kernels", keys.kernels.as_deref())?;
    let expansions = list(config, "search.expansions", keys.expansions.as_deref())?;
    for block in &mut space.blocks {
        if let Some(kernels) = &kernels {
            block.kernels.clone_from(kernels);
        }
        if let Some(expansions) = &expansions {
            block.expansions.clone_from(expansions);
        }
    }
    Ok(space)
}

/// The network whose bits are searched: that of the file, or else MobileNetV2.
fn network(config: &Config, is_small: bool) -> Result<MixedArchitecture> {
    match &config.settings.section::<SearchKeys>()?.architecture {
        None => Ok(MixedArchitecture::mobilenet_v2(8, 1.0, if is_small { 2 } else { 0 })),
        Some(path) => {
            let text = fs::read_to_string(path).map_err(|error| {
                Error::user(format!(
                    "{}: the file cannot be read ({error}); name the architecture.json of a search",
                    config.place("search.architecture")
                ))
            })?;
            MixedArchitecture::parse(&text).map_err(|error| error.at(config.place("search.architecture")))
        }
    }
}

/// Numbers with commas between.
fn list(config: &Config, key: &str, text: Option<&str>) -> Result<Option<Vec<usize>>> {
    let Some(text) = text else { return Ok(None) };
    let numbers = text.split(',').map(|number| number.trim().parse::<usize>().ok());
    match numbers.collect::<Option<Vec<usize>>>() {
        Some(numbers) => Ok(Some(numbers)),
        None => Err(Error::user(format!(
            "{} is no list of numbers; write them with commas, such as 3,5,7",
            config.place(key)
        ))),
    }
}
