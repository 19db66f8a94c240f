//! How attention scores become weights, and the words for it that recipes, checkpoints and the text form share.

use std::fmt;
use std::str::FromStr;

use lessen_base::{Error, Result};

use crate::attrs::{Attr, Attrs};
use crate::named::AttrValue;
use crate::ops::temperature::{Clip, LEAST_TEMPERATURE, Temperature};

/// Divisor of weights that no softmax normalizes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Divisor {
    /// 1.
    #[default]
    One,
    /// The number of keys that the query sees.
    Keys,
    /// A constant.
    Constant(f64),
}

/// How the scores `s` of a query become its weights.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Weighting {
    /// `softmax(s)`
    #[default]
    Softmax,
    /// `softmax((s - mean(s)) / T(s))`: NormSoftmax (Jiang et al. 2023); or `softmax(s / T(s))`: LogitNorm (Wei et al.
    /// 2022).
    Norm(Temperature),
    /// `max(s, 0) / divisor` (Wortsman et al. 2023)
    Relu(Divisor),
    /// `1 / (1 + e^-(s - ln divisor))` (Ramapuram et al. 2024)
    Sigmoid(Divisor),
}

/// The words of [`Weighting`], for messages.
const WORDS: &str = "softmax, norm_softmax, logit_norm, relu and sigmoid; after a colon and separated by commas: \
                     norm_softmax takes gamma=NUMBER or floor=NUMBER, tau=NUMBER and learned, logit_norm takes \
                     tau=NUMBER and learned, relu and sigmoid take the divisor, which is a number or keys";

impl Weighting {
    /// All words, for messages.
    pub fn words() -> String {
        WORDS.to_string()
    }

    /// Whether the weights of a query sum to 1 before dropout.
    pub fn is_softmax(&self) -> bool {
        matches!(self, Weighting::Softmax | Weighting::Norm(_))
    }

    /// The temperature, where each row is divided by one.
    pub fn temperature(&self) -> Option<Temperature> {
        match self {
            Weighting::Norm(temperature) => Some(*temperature),
            _ => None,
        }
    }

    /// Whether a learned weight of each head is among the inputs.
    pub fn is_learned(&self) -> bool {
        self.temperature().is_some_and(|temperature| temperature.learned)
    }

    /// Checks the ranges of numbers.
    pub(crate) fn check(&self) -> Result<()> {
        let divisor = |divisor: Divisor| !matches!(divisor, Divisor::Constant(c) if !(c > 0.0 && c.is_finite()));
        let valid = match *self {
            Weighting::Softmax => true,
            Weighting::Norm(Temperature { clip, tau, .. }) => {
                let (Clip::AtMost(bound) | Clip::AtLeast(bound)) = clip;
                let finite = bound.is_finite() || matches!(clip, Clip::AtMost(_));
                finite && bound >= LEAST_TEMPERATURE && tau > 0.0 && tau.is_finite()
            }
            Weighting::Relu(by) | Weighting::Sigmoid(by) => divisor(by),
        };
        if valid {
            return Ok(());
        }
        Err(Error::user(format!(
            "`{self}`: gamma and floor must be at least {LEAST_TEMPERATURE}, tau and the divisor above 0 and finite"
        )))
    }
}

impl fmt::Display for Weighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, options) = match *self {
            Weighting::Softmax => ("softmax", Vec::new()),
            Weighting::Norm(temperature) => temperature_words(temperature),
            Weighting::Relu(by) => ("relu", divisor_words(by)),
            Weighting::Sigmoid(by) => ("sigmoid", divisor_words(by)),
        };
        write!(f, "{name}")?;
        for (i, option) in options.iter().enumerate() {
            write!(f, "{}{option}", if i == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

fn temperature_words(t: Temperature) -> (&'static str, Vec<String>) {
    let mut options = Vec::new();
    match t.clip {
        Clip::AtLeast(floor) => options.push(format!("floor={floor}")),
        Clip::AtMost(gamma) if t.centered && gamma != 1.0 => options.push(format!("gamma={gamma}")),
        Clip::AtMost(_) => {}
    }
    if t.tau != 1.0 {
        options.push(format!("tau={}", t.tau));
    }
    if t.learned {
        options.push("learned".to_string());
    }
    (if t.centered { "norm_softmax" } else { "logit_norm" }, options)
}

fn divisor_words(by: Divisor) -> Vec<String> {
    match by {
        Divisor::One => Vec::new(),
        Divisor::Keys => vec!["keys".to_string()],
        Divisor::Constant(c) => vec![c.to_string()],
    }
}

impl FromStr for Weighting {
    type Err = Error;

    /// Reads a word as [`Display`](fmt::Display) writes it.
    ///
    /// # Errors
    /// An unknown word, with the list of known ones.
    fn from_str(text: &str) -> Result<Weighting> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let options: Vec<&str> = if text.contains(':') {
            options.split(',').collect()
        } else {
            Vec::new()
        };
        let unknown = || Error::user(format!("there is no attention `{text}`; there are {WORDS}"));
        let found = match name {
            "softmax" if options.is_empty() => Some(Weighting::Softmax),
            "norm_softmax" => temperature(true, &options).map(Weighting::Norm),
            "logit_norm" => temperature(false, &options).map(Weighting::Norm),
            "relu" => divisor(&options).map(Weighting::Relu),
            "sigmoid" => divisor(&options).map(Weighting::Sigmoid),
            _ => None,
        };
        let found = found.ok_or_else(unknown)?;
        found.check()?;
        Ok(found)
    }
}

/// The temperature that options describe, none where one of them is unknown or given twice.
fn temperature(centered: bool, options: &[&str]) -> Option<Temperature> {
    let (mut clip, mut tau, mut learned) = (None, None, false);
    for option in options {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match key {
            "gamma" if centered && clip.is_none() => clip = Some(Clip::AtMost(value.parse().ok()?)),
            "floor" if centered && clip.is_none() => clip = Some(Clip::AtLeast(value.parse().ok()?)),
            "tau" if tau.is_none() => tau = Some(value.parse().ok()?),
            "learned" if !learned && value.is_empty() => learned = true,
            _ => return None,
        }
    }
    let default = if centered {
        Temperature::default().clip
    } else {
        Clip::AtMost(f64::INFINITY)
    };
    Some(Temperature {
        centered,
        clip: clip.unwrap_or(default),
        tau: tau.unwrap_or(1.0),
        learned,
    })
}

fn divisor(options: &[&str]) -> Option<Divisor> {
    match options {
        [] => Some(Divisor::One),
        ["keys"] => Some(Divisor::Keys),
        [number] => {
            let number: f64 = number.parse().ok()?;
            Some(if number == 1.0 {
                Divisor::One
            } else {
                Divisor::Constant(number)
            })
        }
        _ => None,
    }
}

impl AttrValue for Weighting {
    fn to_attr(&self) -> Attr {
        Attr::Word(self.to_string())
    }

    fn read(attrs: &Attrs, name: &str) -> Result<Weighting> {
        attrs.word(name)?.parse()
    }
}
