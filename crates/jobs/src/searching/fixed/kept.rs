//! What a search for bits keeps: the network after its last whole epoch, and the numbers that have judged bits.

use crate::job::Checkpoint;
use lessen_base::Result;
use lessen_device::HostArray;
use lessen_nn::Weights;
use lessen_train::StateArray;
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
    pub(super) fn of(mut checkpoint: Checkpoint) -> Kept {
        let numbers = match checkpoint.take(NUMBERS).map(|array| array.data) {
            Some(HostArray::F64(numbers)) => numbers,
            Some(HostArray::F32(words)) => of_words(&words),
            _ => Vec::new(),
        };
        Kept {
            epochs: checkpoint.done - numbers.len().min(checkpoint.done),
            network: checkpoint.take_weights(),
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
        let numbers = StateArray {
            name: NUMBERS.to_string(),
            shape: vec![self.numbers.len()],
            data: HostArray::F64(self.numbers.clone()),
        };
        let network = std::mem::take(&mut self.network);
        let mut checkpoint = Checkpoint::of(self.done(), network).with(numbers);
        let written = checkpoint.write(dir);
        self.network = checkpoint.take_weights();
        written
    }
}

/// The numbers of words of 16 bits, four each, as checkpoints of earlier versions have them.
fn of_words(words: &[f32]) -> Vec<f64> {
    let bits = |own: &[f32]| (own.iter().rev()).fold(0_u64, |bits, word| (bits << 16) | *word as u64);
    words.chunks_exact(4).map(|own| f64::from_bits(bits(own))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_nn::Weight;

    /// Each number as four words of 16 bits.
    fn words_of(numbers: &[f64]) -> Vec<f32> {
        let word = |number: &f64, place: u32| f32::from((number.to_bits() >> (16 * place)) as u16);
        numbers
            .iter()
            .flat_map(|number| (0..4).map(move |place| word(number, place)))
            .collect()
    }

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
        let mut read = Checkpoint::read(&folder).unwrap().unwrap();
        let of_this_version = Kept::of(read.clone());
        let numbers_of_now = read.take(NUMBERS).unwrap();
        assert_eq!(numbers_of_now.data, HostArray::F64(numbers.to_vec()));
        let before = read.with(StateArray {
            shape: vec![numbers.len(), 4],
            data: HostArray::F32(words_of(&numbers)),
            ..numbers_of_now
        });
        for back in [of_this_version, Kept::of(before)] {
            assert_eq!(
                (back.network, back.epochs, back.numbers),
                (network.clone(), 3, numbers.to_vec())
            );
        }
    }
}
