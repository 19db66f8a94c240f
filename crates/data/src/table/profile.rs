//! What the values of a column are, found in one pass and in bounded memory.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::cell_values::{date, is_missing, number};

/// Most values whose numbers of rows are counted; later ones are counted as different ones alone.
pub(crate) const COUNTED: usize = 4096;

/// Most different values that are told apart.
const TOLD_APART: usize = 1 << 17;

/// Longest value in bytes that is counted by its text; longer ones are texts, no categories.
const LONGEST: usize = 200;

/// Share of the values of a column that are numbers or dates where the others are mistakes.
const MOST: f64 = 0.95;

/// What is known of the values of a column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    /// Rows, and those without a value.
    pub(crate) rows: u64,
    pub(crate) missing: u64,
    pub(crate) numbers: Moments,
    pub(crate) dates: Moments,
    /// Numbers with a fraction.
    pub(crate) fractions: u64,
    /// Whether each number is the one before it and one more.
    pub(crate) counts_up: bool,
    /// Values with white space within them, and the characters of all values.
    pub(crate) with_spaces: u64,
    pub(crate) characters: u64,
    bytes: u64,
    /// Rows of each of the first values.
    pub(crate) counts: HashMap<Box<str>, u64>,
    /// Hashes of different values, and the rows with a value up to the last one that had room.
    different: HashSet<u64>,
    told_apart: u64,
}

/// The number of values, their mean and the sum of squared deviations from it (Welford 1962), least and greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    squares: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
    last: f64,
}

impl Moments {
    /// Adds a value.
    pub(crate) fn add(&mut self, value: f64) {
        if self.count == 0 {
            (self.least, self.greatest) = (value, value);
        }
        self.count += 1;
        let from_mean = value - self.mean;
        self.mean += from_mean / self.count as f64;
        self.squares += from_mean * (value - self.mean);
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
        self.last = value;
    }

    /// The standard deviation of the values, or half of their range where squares are beyond numbers of 64 bits; 1
    /// where they are equal.
    pub(crate) fn std(&self) -> f64 {
        let std = (self.squares / self.count.max(1) as f64).sqrt();
        let range = self.greatest / 2.0 - self.least / 2.0;
        match [std, range].into_iter().find(|own| own.is_normal()) {
            Some(own) if self.least < self.greatest => own,
            _ => 1.0,
        }
    }
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Nothing,
    Number,
    Date,
    Words,
}

impl Profile {
    /// A column without rows.
    pub(crate) fn new() -> Profile {
        Profile {
            counts_up: true,
            ..Profile::default()
        }
    }

    /// Adds the cell of a row.
    pub(crate) fn add(&mut self, cell: &str) {
        let cell = cell.trim();
        self.rows += 1;
        if is_missing(cell) {
            self.missing += 1;
            return;
        }
        self.characters += cell.chars().count() as u64;
        self.bytes += cell.len() as u64;
        self.with_spaces += u64::from(cell.contains(char::is_whitespace));
        if let Some(number) = number(cell) {
            let follows = self.numbers.count == 0 || number == self.numbers.last + 1.0;
            self.counts_up &= follows && number.fract() == 0.0;
            self.numbers.add(number);
            self.fractions += u64::from(number.fract() != 0.0);
        } else if let Some(days) = date(cell) {
            self.dates.add(days);
        }
        if let Some(count) = self.counts.get_mut(cell) {
            *count += 1;
        } else if self.counts.len() < COUNTED && cell.len() <= LONGEST {
            self.counts.insert(cell.into(), 1);
        }
        if self.different.len() < TOLD_APART {
            let mut hasher = DefaultHasher::new();
            cell.hash(&mut hasher);
            self.different.insert(hasher.finish());
            self.told_apart += 1;
        }
    }

    /// Rows with a value.
    pub(crate) fn values(&self) -> u64 {
        self.rows - self.missing
    }

    /// The number of different values; of very many those that are told apart.
    pub(crate) fn different(&self) -> usize {
        self.different.len()
    }

    /// The share of values that are different ones: 1 where no value comes twice.
    pub(crate) fn share_of_different(&self) -> f64 {
        self.different.len() as f64 / self.told_apart.max(1) as f64
    }

    /// Whether no value comes twice.
    pub(crate) fn are_all_different(&self) -> bool {
        self.different.len() as u64 == self.told_apart && self.told_apart > 0
    }

    /// What the values are; a few others among numbers or dates are mistakes.
    pub(crate) fn kind(&self) -> ValueKind {
        let most = self.values() as f64 * MOST;
        match self.values() {
            0 => ValueKind::Nothing,
            _ if self.numbers.count as f64 >= most => ValueKind::Number,
            _ if self.dates.count as f64 >= most => ValueKind::Date,
            _ => ValueKind::Words,
        }
    }

    /// The mean number of characters of a value.
    pub(crate) fn mean_length(&self) -> f64 {
        self.characters as f64 / self.values().max(1) as f64
    }

    /// The mean number of bytes of a value.
    pub(crate) fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.values().max(1) as f64
    }

    /// The share of values with white space within them.
    pub(crate) fn share_with_spaces(&self) -> f64 {
        self.with_spaces as f64 / self.values().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile<S: AsRef<str>>(cells: impl IntoIterator<Item = S>) -> Profile {
        let mut profile = Profile::new();
        cells.into_iter().for_each(|cell| profile.add(cell.as_ref()));
        profile
    }

    #[test]
    fn numbers_have_a_mean_and_a_deviation_of_the_values_there_are() {
        let found = profile(["1", "", "3", "NA", "5.0"]);
        assert_eq!((found.rows, found.missing, found.kind()), (5, 2, ValueKind::Number));
        assert_eq!((found.numbers.mean, found.fractions, found.different()), (3.0, 0, 3));
        assert!((found.numbers.std() - (8.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!((found.numbers.least, found.numbers.greatest), (1.0, 5.0));
        assert_eq!(profile(["2", "2"]).numbers.std(), 1.0);
        // Numbers far from 0 keep their deviation.
        let far = profile((0..1000).map(|i| (1e9 + f64::from(i % 2)).to_string()));
        assert!((far.numbers.std() - 0.5).abs() < 1e-6);
        assert_eq!(profile(["1e300", "-1e300"]).numbers.std(), 1e300);
    }

    #[test]
    fn a_few_mistakes_among_numbers_and_dates_are_mistakes() {
        let mut cells: Vec<String> = (0..97).map(|i| i.to_string()).collect();
        cells.extend(["<5", "?", "broken"].map(str::to_string));
        assert_eq!(profile(&cells).kind(), ValueKind::Number);
        assert_eq!(profile(["1", "2", "x"]).kind(), ValueKind::Words);
        assert_eq!(profile(["2024-01-01", "2024-01-02T10:00"]).kind(), ValueKind::Date);
        assert_eq!(profile(["", "NA"]).kind(), ValueKind::Nothing);
    }

    #[test]
    fn different_values_are_counted_in_bounded_memory() {
        let found = profile((0..200_000).map(|i| format!("v{i}")));
        assert_eq!((found.counts.len(), found.different()), (COUNTED, TOLD_APART));
        assert!(found.are_all_different() && found.share_of_different() == 1.0);
        let half = profile((0..200_000).map(|i| format!("v{}", i / 2)));
        assert!(half.share_of_different() < 0.51 && !half.are_all_different());
        assert_eq!(half.counts["v7"], 2);
        assert!(profile(["5", "6", "7"]).counts_up);
        assert!(!profile(["5", "7"]).counts_up);
    }
}
