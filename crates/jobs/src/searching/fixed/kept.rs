//! What a search for bits keeps: the network after its last whole epoch, and the numbers that have judged bits.

use crate::job::Checkpoint;
use lessen_base::Result;
use lessen_nn::{Weight, Weights};
use std::path::Path;

/// The name of the numbers among the states of a checkpoint.
const NUMBERS: &str = "search.numbers";

/// What a search for bits keeps.
pub(super) struct Kept {
    /// The network after the last whole epoch.
    pub network: Weights,
    /// Epochs done.
    pub epochs: usize,
    /// Numbers that have judged bits, losses or accuracies, in the order of the tests.
    pub numbers: Vec<f64>,
}

impl Kept {
    /// What a checkpoint has.
    pub(super) fn of(checkpoint: Checkpoint) -> Kept {
        let mut network = checkpoint.state;
        let numbers = network
            .remove(NUMBERS)
            .map_or(Vec::new(), |words| of_words(&words.data));
        Kept {
            epochs: checkpoint.done - numbers.len().min(checkpoint.done),
            network,
            numbers,
        }
    }

    /// Epochs and tests done.
    pub(super) fn done(&self) -> usize {
        self.epochs + self.numbers.len()
    }

    /// Writes the checkpoint in a folder, without a copy of the network.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write(&mut self, dir: &Path) -> Result<()> {
        let mut state = std::mem::take(&mut self.network);
        let numbers = Weight {
            shape: vec![self.numbers.len(), 4],
            data: words_of(&self.numbers),
        };
        state.insert(NUMBERS.to_string(), numbers);
        let checkpoint = Checkpoint {
            done: self.done(),
            state,
        };
        let written = checkpoint.write(dir);
        self.network = checkpoint.state;
        self.network.remove(NUMBERS);
        written
    }
}

/// Each number as four words of 16 bits: a checkpoint has `f32`, and resuming needs every bit.
fn words_of(numbers: &[f64]) -> Vec<f32> {
    let word = |number: &f64, place: u32| f32::from((number.to_bits() >> (16 * place)) as u16);
    numbers
        .iter()
        .flat_map(|number| (0..4).map(move |place| word(number, place)))
        .collect()
}

/// The numbers of [`words_of`].
fn of_words(words: &[f32]) -> Vec<f64> {
    let bits = |own: &[f32]| (own.iter().rev()).fold(0_u64, |bits, word| (bits << 16) | *word as u64);
    words.chunks_exact(4).map(|own| f64::from_bits(bits(own))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_to_the_bit() {
        let numbers = [0.1, -1.0 / 3.0, 0.0, f64::MIN_POSITIVE, 1e300, 17.25];
        assert_eq!(of_words(&words_of(&numbers)), numbers);
        let dir = tempfile::tempdir().unwrap();
        let weight = Weight {
            shape: vec![2],
            data: vec![1.5, -0.25],
        };
        let network = Weights::from([("w".to_string(), weight)]);
        let mut kept = Kept {
            network: network.clone(),
            epochs: 3,
            numbers: numbers.to_vec(),
        };
        let folder = dir.path().join("checkpoint");
        kept.write(&folder).unwrap();
        assert_eq!(kept.network, network);
        let back = Kept::of(Checkpoint::read(&folder).unwrap().unwrap());
        assert_eq!(
            (back.network, back.epochs, back.numbers),
            (network, 3, numbers.to_vec())
        );
    }
}
