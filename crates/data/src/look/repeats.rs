//! Rows that come more than once, kept as hashes of 128 bits.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

/// Examples that are kept.
const SHOWN: usize = 3;

/// Rows that repeat others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repeats {
    /// Training rows whose text stands in an earlier row.
    pub duplicates: u64,
    /// The lines of the first ones, each after that of its earlier row.
    pub duplicate_lines: Vec<[usize; 2]>,
    /// Texts that have different labels.
    pub conflicts: u64,
    /// Two lines with different labels of each of the first ones.
    pub conflict_lines: Vec<[usize; 2]>,
    /// Different texts.
    pub different: u64,
}

/// A text that was seen: its first line, its label there, and whether another label was seen.
#[derive(Clone, Copy)]
struct Seen {
    line: u32,
    label: u32,
    is_in_conflict: bool,
}

/// Training rows that were seen.
#[derive(Default)]
pub(super) struct SeenRows {
    rows: HashMap<u128, Seen>,
    repeats: Repeats,
}

impl SeenRows {
    /// Adds a training row.
    pub(super) fn add(&mut self, line: usize, text: &str, label: Option<&str>) {
        let label = half(label.unwrap_or_default(), 2) as u32;
        let place = u32::try_from(line).unwrap_or(u32::MAX);
        let seen = match self.rows.entry(hash(text)) {
            std::collections::hash_map::Entry::Vacant(room) => {
                room.insert(Seen {
                    line: place,
                    label,
                    is_in_conflict: false,
                });
                return;
            }
            std::collections::hash_map::Entry::Occupied(seen) => seen.into_mut(),
        };
        let lines = [seen.line as usize, line];
        self.repeats.duplicates += 1;
        if self.repeats.duplicate_lines.len() < SHOWN {
            self.repeats.duplicate_lines.push(lines);
        }
        if seen.label != label && !seen.is_in_conflict {
            seen.is_in_conflict = true;
            self.repeats.conflicts += 1;
            if self.repeats.conflict_lines.len() < SHOWN {
                self.repeats.conflict_lines.push(lines);
            }
        }
    }

    /// Whether a training row has this text.
    pub(super) fn has(&self, text: &str) -> bool {
        self.rows.contains_key(&hash(text))
    }

    /// The rows that repeat others.
    pub(super) fn repeats(&self) -> Repeats {
        Repeats {
            different: self.rows.len() as u64,
            ..self.repeats.clone()
        }
    }
}

/// A hash of 128 bits, of two of 64 with different keys.
fn hash(text: &str) -> u128 {
    u128::from(half(text, 0)) << 64 | u128::from(half(text, 1))
}

fn half(text: &str, key: u8) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, text).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_and_conflicts_are_counted_with_their_lines() {
        let mut seen = SeenRows::default();
        for (line, (text, label)) in [("a", "x"), ("b", "x"), ("a", "x"), ("a", "y"), ("a", "y"), ("b", "x")]
            .into_iter()
            .enumerate()
        {
            seen.add(line + 2, text, Some(label));
        }
        let found = seen.repeats();
        assert_eq!(
            (found.duplicates, found.duplicate_lines),
            (4, vec![[2, 4], [2, 5], [2, 6]])
        );
        assert_eq!(
            (found.conflicts, found.conflict_lines, found.different),
            (1, vec![[2, 5]], 2)
        );
        assert!(seen.has("a") && !seen.has("c"));
    }
}
