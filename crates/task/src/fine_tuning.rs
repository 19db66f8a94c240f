//! Additions of fine-tuning to a task: weights of labels, trained parameters and adapters, checked before anything is
//! traced.

use crate::formats::corpus::Corpus;
use crate::goal::Goal;
use crate::recipe::class_weights::ClassWeights;
use crate::recipe::config::Config;
use lessen_base::{Error, Result};
use lessen_data::{Batch, Field};
use lessen_nn::{Adapter, Criterion, Lora, Model, ParamSpec, Patterns};
use std::collections::BTreeSet;

/// The word for all linear layers, as in `peft`.
const ALL_LINEAR: &str = "all-linear";

/// Additions of fine-tuning to a task.
#[derive(Clone, Default)]
pub struct FineTuning {
    /// Weights of labels in the loss of training.
    pub criterion: Criterion,
    /// The adapters, if any.
    pub lora: Option<Lora>,
}

impl FineTuning {
    /// The additions of a recipe. `corpus` is the data, if there is some.
    ///
    /// # Errors
    /// Keys that do not go with the data, the model or each other.
    pub fn of(config: &Config, goal: &dyn Goal, model: &Model, corpus: Option<&dyn Corpus>) -> Result<FineTuning> {
        let lora = lora(config, model)?;
        let names: Vec<String> = model.parameters().into_iter().map(|param| param.name).collect();
        let place = |key: &str, error: Error| error.at(config.place(key));
        for (key, patterns) in [
            ("train.freeze", &config.train.freeze),
            ("train.no_decay", &config.train.no_decay),
            ("lora.whole", &config.lora.whole),
        ] {
            if let Some(patterns) = patterns {
                patterns.check("the model", &names).map_err(|error| place(key, error))?;
            }
        }
        let frozen = config.train.freeze.clone().unwrap_or_default();
        if lora.is_none() && names.iter().all(|name| frozen.contains(name)) {
            return Err(Error::user(format!(
                "{} leaves no parameter to train; name fewer",
                config.place("train.freeze")
            )));
        }
        Ok(FineTuning {
            criterion: Criterion {
                smoothing: smoothing(config, goal)?,
                class_weights: class_weights(config, goal, corpus)?,
                weighs_examples: corpus.is_some_and(Corpus::has_weights),
            },
            lora,
        })
    }

    /// The weight of a batch in the mean loss: the sum of its examples' weights.
    pub fn weight_of(&self, goal: &dyn Goal, batch: &Batch) -> f64 {
        let own = batch.get("weights").and_then(Field::as_f32);
        let own = own.filter(|_| self.criterion.weighs_examples);
        let Some(weights) = &self.criterion.class_weights else {
            return own.map_or_else(|| goal.weight_of(batch), |own| own.iter().copied().map(f64::from).sum());
        };
        let own = |example: usize| own.map_or(1.0, |own| f64::from(own[example]));
        // Mixed images have shares of each class in place of labels.
        if let Some(shares) = batch.get("targets").and_then(Field::as_f32) {
            let of_example = |(example, shares): (usize, &[f32])| -> f64 {
                let products = shares.iter().zip(weights).map(|(share, weight)| share * weight);
                products.map(f64::from).sum::<f64>() * own(example)
            };
            return shares.chunks(weights.len().max(1)).enumerate().map(of_example).sum();
        }
        let labels = batch.get("labels").and_then(Field::as_i32).unwrap_or_default();
        let weight = |(example, label): (usize, &i32)| {
            let of_class = *weights.get(usize::try_from(*label).ok()?)?;
            Some(f64::from(of_class) * own(example))
        };
        labels.iter().enumerate().filter_map(weight).sum()
    }
}

fn smoothing(config: &Config, goal: &dyn Goal) -> Result<f64> {
    let smoothing = config.train.label_smoothing;
    match goal.loss_limits() {
        Some(limits) if smoothing > 0.0 => Err(Error::user(format!(
            "{} is for classes and tokens, but the data has {}; leave it out",
            config.place("train.label_smoothing"),
            limits.smoothing
        ))),
        _ => Ok(smoothing),
    }
}

fn class_weights(config: &Config, goal: &dyn Goal, corpus: Option<&dyn Corpus>) -> Result<Option<Vec<f32>>> {
    let (Some(weights), place) = (&config.train.class_weights, config.place("train.class_weights")) else {
        return Ok(None);
    };
    if !goal.has_class_weights() {
        return Err(Error::user(format!(
            "{place} is for data with a class for each text; leave it out"
        )));
    }
    let names = goal.class_names();
    match weights {
        ClassWeights::Listed(weights) if weights.len() != names.len() => Err(Error::user(format!(
            "{place} has {} weights, but the data has the {} classes {}; write one for each",
            weights.len(),
            names.len(),
            names.join(", ")
        ))),
        ClassWeights::Listed(weights) => Ok(Some(weights.clone())),
        ClassWeights::Balanced => {
            let counts = corpus.and_then(|corpus| corpus.class_counts(names.len()));
            Ok(Some(match counts {
                Some(counts) => balanced(&counts),
                None => vec![1.0; names.len()],
            }))
        }
    }
}

/// Class weights with which all classes that have examples count alike.
fn balanced(counts: &[u64]) -> Vec<f32> {
    let (all, classes) = (counts.iter().sum::<u64>() as f64, counts.len() as f64);
    let weight = |count: &u64| (all / (classes * (*count).max(1) as f64)) as f32;
    counts.iter().map(weight).collect()
}

/// The adapters that a recipe asks for.
fn lora(config: &Config, model: &Model) -> Result<Option<Lora>> {
    let (keys, place) = (&config.lora, |key: &str| config.place(key));
    if keys.rank == 0 {
        return Ok(None);
    }
    let Some(init) = &config.model.init else {
        return Err(Error::user(format!(
            "{} needs a checkpoint whose weights stay as they are; name its folder with --init, or leave it out",
            place("lora.rank")
        )));
    };
    if config.train.freeze.is_some() {
        return Err(Error::user(format!(
            "{} has no effect beside lora.rank, with which only adapters and lora.whole are trained; leave it out",
            place("train.freeze")
        )));
    }
    let of = |targets: Vec<String>| Lora {
        rank: keys.rank,
        alpha: keys.alpha,
        rank_stabilized: keys.rank_stabilized,
        dropout: keys.dropout,
        targets,
        fan_in_fan_out: model.fan_in_fan_out(),
        base: init.canonicalize().unwrap_or(init.clone()).display().to_string(),
        whole: Patterns::default(),
    };
    let (heads, lacking) = new_parameters(model, config)?;
    let whole = match &keys.whole {
        Some(whole) => whole.clone().and(lacking),
        // The head of a language model does not belong to one task.
        None if model.decoder().is_some() => Patterns::default().and(lacking),
        None => Patterns::default().and(heads).and(lacking),
    };
    let adapts = |target: &str| !Adapter::of(&model.parameters_with(Some(&of(vec![target.to_string()])))).is_empty();
    let targets: Vec<String> = keys
        .targets
        .iter()
        .flat_map(Patterns::iter)
        .map(str::to_string)
        .collect();
    if targets == [ALL_LINEAR] {
        let targets = layers(model)
            .into_iter()
            .filter(|layer| !whole.contains(&format!("{layer}.weight")));
        let targets = targets.filter(|layer| adapts(layer)).collect();
        return Ok(Some(Lora { whole, ..of(targets) }));
    }
    let unknown = targets.iter().find(|target| !adapts(target));
    if targets.is_empty() || unknown.is_some() {
        let what = unknown.map_or("names no layers".to_string(), |target| {
            format!("is for no layer called {target}")
        });
        let layers: BTreeSet<String> = last_parts(model).into_iter().filter(|part| adapts(part)).collect();
        let layers: Vec<String> = layers.into_iter().collect();
        return Err(Error::user(format!(
            "{} {what}; the model has {}",
            place("lora.targets"),
            layers.join(", ")
        )));
    }
    Ok(Some(Lora { whole, ..of(targets) }))
}

/// The layers with a weight.
fn layers(model: &Model) -> Vec<String> {
    let names = model.parameters().into_iter().map(|param| param.name);
    names
        .filter_map(|name| Some(name.strip_suffix(".weight")?.to_string()))
        .collect()
}

/// The last parts of the names of layers with a weight.
fn last_parts(model: &Model) -> BTreeSet<String> {
    let last = |layer: String| Some(layer.rsplit('.').next()?.to_string());
    layers(model).into_iter().filter_map(last).collect()
}

/// The parameters of the model's head, and the parameters that the checkpoint to start from lacks or has in another
/// shape. No base model has the lacking parameters, so adapters are useless without them.
fn new_parameters(model: &Model, config: &Config) -> Result<(Vec<String>, Vec<String>)> {
    let (known, has_head) = match config.init() {
        Some(init) => (
            Model::from_dir_as(init, model.architecture())?.parameters(),
            Model::from_dir(init).is_ok_and(|own| own.architecture() == model.architecture()),
        ),
        None => (Vec::new(), false),
    };
    let lacks = |param: &ParamSpec| {
        let is_known = known
            .iter()
            .any(|own| own.name == param.name && own.shape == param.shape);
        !is_known || (!has_head && model.is_head(&param.name))
    };
    let (mut heads, mut lacking) = (Vec::new(), Vec::new());
    for param in model.parameters() {
        match (lacks(&param), model.is_head(&param.name)) {
            (true, _) => lacking.push(param.name),
            (false, true) => heads.push(param.name),
            (false, false) => {}
        }
    }
    Ok((heads, lacking))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balanced_classes_count_alike() {
        assert_eq!(balanced(&[10, 30]), [2.0, 40.0 / 60.0]);
        assert_eq!(balanced(&[5, 5, 0])[..2], [10.0 / 15.0, 10.0 / 15.0]);
    }
}
