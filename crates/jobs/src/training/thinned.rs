//! Sequences that keep a limited number of evenly spaced items.

/// Most numbers that are kept of a sequence.
const MOST: usize = 10_000;

/// A sequence that keeps every item with a number divisible by a power of two, at most [`MOST`] of them.
#[derive(Clone, Debug)]
pub(crate) struct Thinned<T> {
    kept: Vec<T>,
    every: usize,
    seen: usize,
}

impl<T> Default for Thinned<T> {
    fn default() -> Thinned<T> {
        Thinned {
            kept: Vec::new(),
            every: 1,
            seen: 0,
        }
    }
}

impl<T> Thinned<T> {
    /// Adds an item.
    pub(crate) fn push(&mut self, item: T) {
        if self.kept.len() == MOST && self.seen.is_multiple_of(self.every) {
            let mut number = 0;
            self.kept.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every *= 2;
        }
        if self.seen.is_multiple_of(self.every) {
            self.kept.push(item);
        }
        self.seen += 1;
    }

    /// The items that are kept.
    pub(crate) fn items(&self) -> &[T] {
        &self.kept
    }

    /// The distance between two items that are kept.
    pub(crate) fn every(&self) -> usize {
        self.every
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sequence_is_thinned_evenly() {
        let mut thinned = Thinned::default();
        for i in 0..MOST {
            thinned.push(i);
        }
        assert_eq!((thinned.items().len(), thinned.every()), (MOST, 1));
        for i in MOST..5 * MOST {
            thinned.push(i);
        }
        let (items, every) = (thinned.items(), thinned.every());
        assert!(
            items.len() <= MOST && items.len() > MOST / 3 && every == 8,
            "{} {every}",
            items.len()
        );
        assert!(items.iter().enumerate().all(|(i, item)| *item == i * every));
    }
}
