//! The labels of texts that can have several of them, or none.

/// A set of classes for each example, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSets {
    classes: usize,
    /// The sets one after another.
    members: Vec<i32>,
    /// Where each of them ends.
    ends: Vec<usize>,
}

impl LabelSets {
    /// No sets of so many classes yet.
    pub fn new(classes: usize) -> LabelSets {
        LabelSets {
            classes,
            ..LabelSets::default()
        }
    }

    /// Adds the set of an example. A class that is named twice counts once.
    ///
    /// # Panics
    /// If there is no such class.
    pub fn push(&mut self, set: &[i32]) {
        let start = self.members.len();
        for class in set {
            let known = usize::try_from(*class).is_ok_and(|class| class < self.classes);
            assert!(known, "class {class} of {}", self.classes);
            if !self.members[start..].contains(class) {
                self.members.push(*class);
            }
        }
        self.ends.push(self.members.len());
    }

    /// Returns the number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Returns the number of sets.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no sets.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the set of an example.
    ///
    /// # Panics
    /// If there is no such example.
    pub fn get(&self, example: usize) -> &[i32] {
        let start = example.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.members[start..self.ends[example]]
    }

    /// Iterates over the sets.
    pub fn iter(&self) -> impl Iterator<Item = &[i32]> {
        (0..self.len()).map(|example| self.get(example))
    }

    /// For each example the rarest of its classes, by the number of sets that they are in; -1 where it has none.
    pub(crate) fn rarest(&self) -> Vec<i32> {
        let mut counts = vec![0u64; self.classes];
        self.members.iter().for_each(|class| counts[*class as usize] += 1);
        let rarest = |set: &[i32]| {
            set.iter()
                .copied()
                .min_by_key(|class| (counts[*class as usize], *class))
        };
        self.iter().map(|set| rarest(set).unwrap_or(-1)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_come_back_and_know_their_rarest_class() {
        let mut sets = LabelSets::new(3);
        for set in [&[0, 2][..], &[], &[0, 0], &[2, 0, 1], &[0, 2]] {
            sets.push(set);
        }
        let found: Vec<&[i32]> = sets.iter().collect();
        assert_eq!(found, [&[0, 2][..], &[], &[0], &[2, 0, 1], &[0, 2]]);
        assert_eq!((sets.len(), sets.classes(), sets.is_empty()), (5, 3, false));
        assert_eq!(sets.rarest(), [2, -1, 0, 1, 2]);
    }
}
