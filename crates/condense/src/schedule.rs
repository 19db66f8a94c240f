//! How often images and network are updated within an outer iteration: `T` and `zeta`.

use lessen_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Most epochs of [`InnerEpochs::UntilOverfit`] where no number is said.
pub(crate) const UNTIL_OVERFIT: usize = 50;

/// Epochs after the first update in equation 2.12.
pub(crate) const FIRST: usize = 50;

/// Epochs over the synthetic images between two updates of these, `zeta` of algorithm 1. They are epochs, not steps:
/// with 500 images and batches of 256 an epoch has two steps of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnerEpochs {
    /// As many each time.
    Fixed(usize),
    /// The schedule of equation 2.12, scaled so that this many epochs follow the first update, and rounded up. The
    /// published one has 50 there, 10 fewer after each further update, then 10, and 5 from the tenth update on.
    Adaptive(usize),
    /// Until the loss of a fixed batch of real images rises, or this many.
    UntilOverfit(usize),
}

impl InnerEpochs {
    /// The most epochs after update number `t` of the images, from 0.
    pub fn most(self, t: usize) -> usize {
        match self {
            InnerEpochs::Fixed(epochs) | InnerEpochs::UntilOverfit(epochs) => epochs,
            InnerEpochs::Adaptive(first) => {
                let published = match t {
                    0..4 => FIRST - 10 * t,
                    4..10 => 10,
                    _ => 5,
                };
                // Divides first, so that no product of a large number overflows.
                first / FIRST * published + (first % FIRST * published).div_ceil(FIRST)
            }
        }
    }
}

/// In words: a number, `adaptive`, `adaptive:NUMBER`, `until-overfit`, or `until-overfit:NUMBER`.
impl FromStr for InnerEpochs {
    type Err = Error;

    fn from_str(text: &str) -> Result<InnerEpochs> {
        let number = |text: &str| text.parse::<usize>().ok();
        let found = match text.split_once(':') {
            Some(("adaptive", first)) => number(first).map(InnerEpochs::Adaptive),
            Some(("until-overfit", most)) => number(most).map(InnerEpochs::UntilOverfit),
            Some(_) => None,
            None => match text {
                "adaptive" => Some(InnerEpochs::Adaptive(FIRST)),
                "until-overfit" => Some(InnerEpochs::UntilOverfit(UNTIL_OVERFIT)),
                _ => number(text).map(InnerEpochs::Fixed),
            },
        };
        found.ok_or_else(|| {
            Error::user(format!(
                "`{text}` is no number of epochs; choose {}",
                InnerEpochs::words()
            ))
        })
    }
}

impl fmt::Display for InnerEpochs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InnerEpochs::Fixed(epochs) => write!(f, "{epochs}"),
            InnerEpochs::Adaptive(FIRST) => f.write_str("adaptive"),
            InnerEpochs::Adaptive(first) => write!(f, "adaptive:{first}"),
            InnerEpochs::UntilOverfit(most) => write!(f, "until-overfit:{most}"),
        }
    }
}

impl InnerEpochs {
    /// All forms of its words, for messages.
    pub fn words() -> String {
        "a whole number, adaptive, adaptive:NUMBER, until-overfit, until-overfit:NUMBER".to_string()
    }
}

/// Numbers of images of a class for which Zhao, Mopuri and Bilen (2021) say `T` and `zeta`, with both.
const PUBLISHED: [(usize, usize, usize); 6] = [
    (1, 1, 1),
    (10, 10, 50),
    (20, 20, 25),
    (30, 30, 20),
    (40, 40, 15),
    (50, 50, 10),
];

/// Updates of the images in an outer iteration, `T`, and epochs between them, `zeta`, for this many images of a class:
/// those of the paper, or of the largest number in the paper that is not larger.
///
/// # Errors
/// No image.
pub fn published(per_class: usize) -> Result<(usize, usize)> {
    let known = PUBLISHED.iter().rev().find(|(images, ..)| *images <= per_class);
    match known {
        Some((_, updates, epochs)) => Ok((*updates, *epochs)),
        None => Err(Error::user("0 images of a class teach nothing; ask for at least 1")),
    }
}
