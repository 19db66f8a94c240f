//! The table `[evaluation]` of an experiment of condensations: how images are judged by networks that learn from them.

use super::measure::ACCURACY;
use super::reader::Reader;
use lessen_base::Result;
use lessen_base::word::Word;
use lessen_compile::Precision;
use lessen_condense::Augmentation;
use lessen_nn::models::vision::Network;
use lessen_task::recipe::value::SettingValue;
use std::collections::BTreeMap;

/// The name of the table.
pub(super) const TABLE: &str = "evaluation";

/// Networks that learn from each set where the table names no number.
const NETWORKS: usize = 10;

/// How the images of each run are judged.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Evaluation {
    /// Networks of each kind that learn from each set.
    pub networks: usize,
    /// Epochs over the images; as published where there is no number.
    pub epochs: Option<usize>,
    /// Learning rate at first; as published where there is no number.
    pub rate: Option<f64>,
    /// How images are changed; as published where there is none.
    pub augmentation: Option<Augmentation>,
    /// Dtype that products and convolutions read.
    pub precision: Precision,
    /// Outer iterations after which the images are judged as well, in ascending order.
    pub at: Vec<usize>,
    /// The networks that learn; that of the condensation if there are none.
    pub targets: Vec<Network>,
    /// Epochs of a network over the whole training split.
    pub whole: Option<usize>,
}

impl Default for Evaluation {
    fn default() -> Evaluation {
        Evaluation {
            networks: NETWORKS,
            epochs: None,
            rate: None,
            augmentation: None,
            precision: Precision::default(),
            at: Vec::new(),
            targets: Vec::new(),
            whole: None,
        }
    }
}

impl Evaluation {
    /// With the values of a table.
    ///
    /// # Errors
    /// A key that is unknown or has a wrong value.
    pub(super) fn overlaid(self, mut table: Reader<'_, '_>) -> Result<Evaluation> {
        let networks = count(&mut table, "networks")?.unwrap_or(self.networks);
        let epochs = count(&mut table, "epochs")?.or(self.epochs);
        let whole = count(&mut table, "whole")?.or(self.whole);
        let rate = table.number("learning_rate")?;
        if let Some(rate) = rate.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
            return Err(table.error(&format!(
                "evaluation.learning_rate must be a number above 0, not {rate}"
            )));
        }
        let augmentation = table.text("augment")?.map(|word| word.parse::<Augmentation>());
        let augmentation = augmentation
            .transpose()
            .map_err(|error| table.error(&format!("evaluation.augment: {error}")))?;
        let words = Precision::WORDS
            .iter()
            .filter_map(|word| Some((*word, Precision::from_word(word)?)));
        let precision = table
            .word("precision", &words.collect::<Vec<_>>())?
            .unwrap_or(self.precision);
        let at = iterations(&mut table)?.unwrap_or(self.at);
        let targets = match targets(&mut table)? {
            targets if targets.is_empty() => self.targets,
            targets => targets,
        };
        table.finish()?;
        Ok(Evaluation {
            networks,
            epochs,
            rate: rate.or(self.rate),
            augmentation: augmentation.or(self.augmentation),
            precision,
            at,
            targets,
            whole,
        })
    }

    /// The names of the accuracies: one for each kind of network that learns, or one of the network of the
    /// condensation.
    pub(super) fn accuracies(&self) -> Vec<String> {
        match &self.targets[..] {
            [] => vec![ACCURACY.to_string()],
            targets => targets
                .iter()
                .map(|target| format!("{}/{}", ACCURACY, target.name()))
                .collect(),
        }
    }

    /// How images are judged, for a page.
    pub(super) fn in_words(&self) -> String {
        let of = match self.targets.len() {
            0 => String::new(),
            _ => format!(" of each kind ({})", self.resolved()["network"]),
        };
        let at = match self.at.len() {
            0 => String::new(),
            _ => format!("; judged after iterations {:?}, too", self.at),
        };
        let rate = match self.rate {
            Some(rate) => format!("learning rate {rate}, "),
            None => String::new(),
        };
        let resolved = self.resolved();
        format!(
            "{} networks{of} learn from each set, {rate}epochs {}, augmentation {}, {}{at}",
            self.networks, resolved["epochs"], resolved["augment"], resolved["precision"]
        )
    }

    /// What decides the accuracies, in words, by the names of the keys; a learning rate only where there is a number.
    pub(super) fn resolved(&self) -> BTreeMap<String, String> {
        let published = || "as published".to_string();
        let targets: Vec<&str> = self.targets.iter().map(|target| target.name()).collect();
        let own = [
            ("networks", self.networks.to_string()),
            (
                "epochs",
                self.epochs.map_or_else(published, |epochs| epochs.to_string()),
            ),
            (
                "augment",
                self.augmentation.map_or_else(published, |own| own.to_string()),
            ),
            ("precision", self.precision.word().to_string()),
            (
                "network",
                match &targets[..] {
                    [] => "that of the condensation".to_string(),
                    names => names.join(", "),
                },
            ),
        ];
        let rate = self.rate.map(|rate| ("learning_rate", rate.to_string()));
        let all = own.into_iter().chain(rate);
        all.map(|(name, value)| (name.to_string(), value)).collect()
    }
}

/// The outer iterations of the key `at`.
fn iterations(table: &mut Reader<'_, '_>) -> Result<Option<Vec<usize>>> {
    let Some(values) = table.list("at")? else {
        return Ok(None);
    };
    let mut at = Vec::with_capacity(values.len());
    for value in values {
        match value {
            SettingValue::Count(count) if count > 0 => at.push(count as usize),
            other => {
                return Err(table.error(&format!(
                    "evaluation.at has outer iterations, whole numbers from 1, and not {other}"
                )));
            }
        }
    }
    at.sort_unstable();
    at.dedup();
    Ok(Some(at))
}

/// The networks of the key `network`.
fn targets(table: &mut Reader<'_, '_>) -> Result<Vec<Network>> {
    let mut targets = Vec::new();
    for name in table.texts("network")? {
        let target = Network::of(&name).ok_or_else(|| {
            let known = Network::NAMES.join(", ");
            table.error(&format!(
                "evaluation.network: there is no network '{name}'; choose of {known}"
            ))
        })?;
        if targets.contains(&target) {
            return Err(table.error(&format!("evaluation.network names {name} twice; name it once")));
        }
        targets.push(target);
    }
    Ok(targets)
}

/// A whole number from 1.
fn count(table: &mut Reader<'_, '_>, key: &'static str) -> Result<Option<usize>> {
    match table.value(key)? {
        None => Ok(None),
        Some(SettingValue::Count(count)) if count > 0 => usize::try_from(count)
            .map(Some)
            .map_err(|_| table.error(&format!("evaluation.{key} is too large"))),
        Some(other) => Err(table.error(&format!("evaluation.{key} must be a whole number from 1, not {other}"))),
    }
}
