//! The synthetic task `adder`: sums of three-digit numbers, generated on the fly.
//!
//! An example reads `123+456=9750`: numbers and sum are padded with zeros to 3 and 4 digits, and the sum is written
//! from its last digit to its first. So every digit has a fixed position and follows from two digits and a carry. Only
//! the digits of the sum are labelled.

use lessen_base::{Error, Result, SplitMix64};

use crate::batch::{Batch, Field, IGNORE};
use crate::source::Source;
use crate::tokenizer::Tokenizer;

/// Sequence length of an example: its 12 characters without the last one.
pub const LENGTH: usize = 11;
/// Number of digits of a sum.
pub const DIGITS: usize = 4;
/// Number of characters before the sum: `123+456=`.
const QUESTION: usize = 8;
/// Number of three-digit numbers, 000 to 999.
const NUMBERS: u64 = 1000;
/// Seed of the held-out split, the same for every run.
const HELD_OUT_SEED: u64 = 0x6164_6465_7200;
/// Size of the held-out sample.
const HELD_OUT_SUMS: u64 = 2_000;

/// A source of three-digit sums. Training draws random pairs of numbers, except for the tenth of all pairs that is held
/// out, chosen by a hash of the unordered pair. Evaluation uses a fixed sample of 2,000 held-out pairs.
pub struct Adder {
    seed: u64,
    batch: usize,
    tokenizer: Tokenizer,
    /// Token ids of the digits; the ids of `+` and `=` follow.
    digits: [i32; 10],
    plus: i32,
    equals: i32,
    held_out: Vec<(u64, u64)>,
}

impl Adder {
    /// Makes a source of batches of `batch` examples, drawn from `seed`.
    ///
    /// # Errors
    /// A batch of 0.
    pub fn new(batch: usize, seed: u64) -> Result<Adder> {
        if batch == 0 {
            return Err(Error::user("train.batch is 0; set it to at least 1"));
        }
        let tokenizer = Adder::tokenizer();
        let id = |character: char| {
            tokenizer
                .id_of(character.encode_utf8(&mut [0; 4]))
                .expect("the vocabulary was made of this character")
        };
        let digits = std::array::from_fn(|digit| id(char::from(b'0' + digit as u8)));
        let (plus, equals) = (id('+'), id('='));
        let mut held_out = Vec::new();
        for draw in 0.. {
            let pair = numbers(&mut SplitMix64::keyed(HELD_OUT_SEED, draw));
            if is_held_out(pair) && !held_out.contains(&pair) {
                held_out.push(pair);
            }
            if held_out.len() as u64 == HELD_OUT_SUMS {
                break;
            }
        }
        Ok(Adder {
            seed,
            batch,
            tokenizer,
            digits,
            plus,
            equals,
            held_out,
        })
    }

    /// Returns the tokenizer; its vocabulary is padding, unknown, `+`, the ten digits and `=`.
    pub fn tokenizer() -> Tokenizer {
        Tokenizer::characters(["+0123456789="], 1)
    }

    /// Returns the tokens of the prompt `123+456=`.
    pub fn question(&self, a: u32, b: u32) -> [i32; QUESTION] {
        let row = self.row((u64::from(a) % NUMBERS, u64::from(b) % NUMBERS));
        std::array::from_fn(|at| row[at])
    }

    /// Formats an example with its prediction as `123+456=579`, or as `123+456=578 (wrong: 579)` if it is wrong.
    ///
    /// `tokens` starts with the prompt; `answer` is the predicted tokens of the sum, last digit first. A number with a
    /// token that is no digit is shown as `?`.
    pub fn show(&self, tokens: &[i32], answer: &[i32]) -> String {
        let digit = |token: &i32| self.digits.iter().position(|digit| digit == token);
        let number = |tokens: &[i32]| tokens.iter().try_fold(0, |sum, token| Some(sum * 10 + digit(token)?));
        let shown = |number: Option<usize>| number.map_or("?".to_string(), |number| number.to_string());
        let question = tokens.get(..QUESTION).unwrap_or(&[]);
        let a = question.get(..3).and_then(number);
        let b = question.get(4..7).and_then(number);
        let reversed: Vec<i32> = answer.iter().rev().copied().collect();
        let answer = number(&reversed).filter(|_| answer.len() == DIGITS);
        let sum = a.zip(b).map(|(a, b)| a + b);
        let line = format!("{}+{}={}", shown(a), shown(b), shown(answer));
        if sum.is_some() && answer == sum {
            line
        } else {
            format!("{line} (wrong: {})", shown(sum))
        }
    }

    /// Returns the 12 tokens of an example.
    fn row(&self, (a, b): (u64, u64)) -> [i32; LENGTH + 1] {
        let digit = |number: u64, place: u32| self.digits[(number / 10u64.pow(place) % 10) as usize];
        let sum = a + b;
        [
            digit(a, 2),
            digit(a, 1),
            digit(a, 0),
            self.plus,
            digit(b, 2),
            digit(b, 1),
            digit(b, 0),
            self.equals,
            digit(sum, 0),
            digit(sum, 1),
            digit(sum, 2),
            digit(sum, 3),
        ]
    }

    fn collect(&self, pairs: impl Iterator<Item = (u64, u64)>) -> Batch {
        let (b, t) = (self.batch, LENGTH);
        let (mut tokens, mut labels) = (vec![self.tokenizer.pad_id(); b * t], vec![IGNORE; b * t]);
        let mut examples = 0;
        for (pair, (tokens, labels)) in pairs.zip(tokens.chunks_mut(t).zip(labels.chunks_mut(t))) {
            let row = self.row(pair);
            tokens.copy_from_slice(&row[..t]);
            labels[QUESTION - 1..].copy_from_slice(&row[QUESTION..]);
            examples += 1;
        }
        let fields = vec![
            ("tokens".into(), Field::i32([b, t], tokens)),
            ("labels".into(), Field::i32([b, t], labels)),
        ];
        Batch {
            fields,
            examples,
            tokens: examples * DIGITS,
        }
    }
}

impl Source for Adder {
    fn batch(&self, step: u64) -> Result<Batch> {
        let first = step.wrapping_mul(self.batch as u64);
        Ok(self.collect((0..self.batch as u64).map(|row| {
            let mut random = SplitMix64::keyed(self.seed, first.wrapping_add(row));
            loop {
                let pair = numbers(&mut random);
                if !is_held_out(pair) {
                    return pair;
                }
            }
        })))
    }

    /// An epoch has a million examples, the number of all pairs.
    fn batches_per_epoch(&self) -> u64 {
        (NUMBERS * NUMBERS).div_ceil(self.batch as u64)
    }

    fn eval_batches(&self) -> u64 {
        self.held_out.len().div_ceil(self.batch) as u64
    }

    fn eval_batch(&self, index: u64) -> Result<Batch> {
        let start = (index as usize).saturating_mul(self.batch).min(self.held_out.len());
        let end = start.saturating_add(self.batch).min(self.held_out.len());
        Ok(self.collect(self.held_out[start..end].iter().copied()))
    }
}

fn numbers(random: &mut SplitMix64) -> (u64, u64) {
    (random.below(NUMBERS), random.below(NUMBERS))
}

/// Whether a pair is held out, a tenth of all. `a + b` is held out if and only if `b + a` is, since one reveals the
/// other.
fn is_held_out((a, b): (u64, u64)) -> bool {
    SplitMix64::keyed(HELD_OUT_SEED, a.min(b) * NUMBERS + a.max(b))
        .next_u64()
        .is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field<'a>(batch: &'a Batch, name: &str) -> &'a [i32] {
        batch.get(name).unwrap().as_i32().unwrap()
    }

    /// Returns the text of each row with the labels as its last four characters, after checking the labels' positions.
    fn rows(adder: &Adder, batch: &Batch) -> Vec<String> {
        assert_eq!(batch.get("tokens").unwrap().shape(), [adder.batch, LENGTH]);
        let rows = field(batch, "tokens")
            .chunks(LENGTH)
            .zip(field(batch, "labels").chunks(LENGTH));
        rows.take(batch.examples)
            .map(|(tokens, labels)| {
                assert_eq!(labels[..7], [IGNORE; 7]);
                assert_eq!(tokens[8..], labels[7..10], "a label is the next token");
                let whole = [&tokens[..8], &labels[7..]].concat();
                adder.tokenizer.decode(&whole).unwrap()
            })
            .collect()
    }

    fn numbers_of(row: &str) -> (u64, u64, u64) {
        let (question, answer) = row.split_once('=').unwrap();
        let (a, b) = question.split_once('+').unwrap();
        let answer: String = answer.chars().rev().collect();
        assert_eq!((row.len(), a.len(), b.len()), (12, 3, 3), "{row}");
        (a.parse().unwrap(), b.parse().unwrap(), answer.parse().unwrap())
    }

    #[test]
    fn examples_are_right_sums_written_backwards() {
        let adder = Adder::new(500, 1).unwrap();
        assert_eq!(Adder::tokenizer().vocab_size(), 14);
        let row = adder.row((123, 456));
        assert_eq!(adder.tokenizer.decode(&row).unwrap(), "123+456=9750");
        let batch = adder.batch(3).unwrap();
        assert_eq!((batch.examples, batch.tokens), (500, 2_000));
        for row in rows(&adder, &batch) {
            let (a, b, sum) = numbers_of(&row);
            assert_eq!(a + b, sum, "{row}");
        }
    }

    #[test]
    fn held_out_sums_are_a_tenth_and_never_trained_on_in_either_order() {
        let adder = Adder::new(1_000, 1).unwrap();
        let pairs = (0..1_000).flat_map(|a| (0..1_000).map(move |b| (a, b)));
        let count = pairs.filter(|&pair| is_held_out(pair)).count();
        assert!(count.abs_diff(100_000) < 2_000, "{count}");
        let mut held_out: Vec<(u64, u64)> = Vec::new();
        for index in 0..adder.eval_batches() {
            for row in rows(&adder, &adder.eval_batch(index).unwrap()) {
                let (a, b, sum) = numbers_of(&row);
                assert_eq!(a + b, sum);
                held_out.push((a, b));
            }
        }
        assert_eq!(held_out.len(), 2_000);
        let set: std::collections::HashSet<_> = held_out.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        for step in 0..40 {
            for row in rows(&adder, &adder.batch(step).unwrap()) {
                let (a, b, _) = numbers_of(&row);
                assert!(!set.contains(&(a, b)), "{row}");
            }
        }
    }

    #[test]
    fn a_batch_is_a_function_of_seed_and_step_and_the_held_out_set_of_nothing() {
        let (one, two) = (Adder::new(8, 1).unwrap(), Adder::new(8, 2).unwrap());
        assert_eq!(one.batch(77).unwrap(), Adder::new(8, 1).unwrap().batch(77).unwrap());
        assert_ne!(one.batch(77).unwrap(), one.batch(78).unwrap());
        assert_ne!(one.batch(77).unwrap(), two.batch(77).unwrap());
        assert_eq!(one.eval_batch(5).unwrap(), two.eval_batch(5).unwrap());
        assert_eq!(
            (
                one.eval_batches(),
                one.eval_batch(249).unwrap().examples,
                one.eval_batch(250).unwrap().examples
            ),
            (250, 8, 0)
        );
        assert_eq!(Adder::new(600, 1).unwrap().eval_batch(3).unwrap().examples, 200);
        assert!(
            Adder::new(0, 1)
                .map(|_| ())
                .unwrap_err()
                .to_string()
                .contains("train.batch is 0")
        );
    }

    #[test]
    fn an_answer_is_shown_with_its_verdict() {
        let adder = Adder::new(1, 0).unwrap();
        let encode = |text| adder.tokenizer.encode(text).unwrap();
        let show = |answer| adder.show(&adder.question(123, 456), &encode(answer));
        assert_eq!(show("9750"), "123+456=579");
        assert_eq!(show("8750"), "123+456=578 (wrong: 579)");
        assert_eq!(show("9+50"), "123+456=? (wrong: 579)");
        assert_eq!(show("975"), "123+456=? (wrong: 579)");
        assert_eq!(adder.show(&encode("007+005=2"), &encode("2100")), "7+5=12");
        assert_eq!(adder.show(&[], &[]), "?+?=? (wrong: ?)");
    }
}
