//! The parameters of the architecture: for each choice that is open, a logit of each possibility (section 2.3.3.3).

use crate::space::{Aspect, Choice, Space};
use lessen_base::SplitMix64;

/// A categorical choice that is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    /// The block.
    pub block: usize,
    /// What is chosen.
    pub aspect: Aspect,
    /// The place of its first logit.
    pub first: usize,
    /// Number of possibilities, at least 2.
    pub count: usize,
}

/// All choices that are open, whose logits lie one after another in a vector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variables {
    all: Vec<Variable>,
    blocks: usize,
}

impl Variables {
    /// The choices of a space.
    pub fn of(space: &Space) -> Variables {
        let (mut all, mut first) = (Vec::new(), 0);
        for (number, block) in space.blocks.iter().enumerate() {
            for aspect in Aspect::ALL {
                let count = block.count(aspect);
                if count > 1 {
                    all.push(Variable {
                        block: number,
                        aspect,
                        first,
                        count,
                    });
                    first += count;
                }
            }
        }
        Variables {
            all,
            blocks: space.blocks.len(),
        }
    }

    /// The choices.
    pub fn all(&self) -> &[Variable] {
        &self.all
    }

    /// Number of logits.
    pub fn len(&self) -> usize {
        self.all.last().map_or(0, |last| last.first + last.count)
    }

    /// Whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The choice of a block's aspect, if it is open.
    pub fn find(&self, block: usize, aspect: Aspect) -> Option<&Variable> {
        self.all.iter().find(|own| own.block == block && own.aspect == aspect)
    }

    /// The probability of every possibility, in the order of the logits: a softmax of each choice.
    pub fn probabilities(&self, logits: &[f64]) -> Vec<f64> {
        let mut found = Vec::with_capacity(logits.len());
        for variable in &self.all {
            let own = &logits[variable.first..][..variable.count];
            let most = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let parts: Vec<f64> = own.iter().map(|logit| (logit - most).exp()).collect();
            let sum: f64 = parts.iter().sum();
            found.extend(parts.iter().map(|part| part / sum));
        }
        found
    }

    /// The choice of each block whose possibilities have these places, one for each variable.
    pub fn choices(&self, places: &[usize]) -> Vec<Choice> {
        let mut found = vec![[0; 5]; self.blocks];
        for (variable, place) in self.all.iter().zip(places) {
            found[variable.block][variable.aspect as usize] = *place;
        }
        found
    }

    /// The most probable possibility of each choice; of equal ones the first.
    pub fn most_probable(&self, logits: &[f64]) -> Vec<usize> {
        let of = |variable: &Variable| {
            let own = &logits[variable.first..][..variable.count];
            (1..own.len()).fold(0, |best, place| if own[place] > own[best] { place } else { best })
        };
        self.all.iter().map(of).collect()
    }

    /// A network drawn by these probabilities.
    pub fn draw(&self, probabilities: &[f64], random: &mut SplitMix64) -> Vec<usize> {
        let of = |variable: &Variable| {
            let mut left = random.unit();
            for place in 0..variable.count - 1 {
                left -= probabilities[variable.first + place];
                if left < 0.0 {
                    return place;
                }
            }
            variable.count - 1
        };
        self.all.iter().map(of).collect()
    }
}

/// Numbers of the Gumbel distribution, `-ln(-ln u)` (Jang et al. 2017).
pub fn gumbel(count: usize, random: &mut SplitMix64) -> Vec<f32> {
    let one = |_| {
        let u = random.unit().max(f64::MIN_POSITIVE);
        (-(-u.ln()).max(f64::MIN_POSITIVE).ln()) as f32
    };
    (0..count).map(one).collect()
}
