//! The groups of micro-batches of a step: which of them this process computes, and how their gradients are added up.
//!
//! The groups are the leaves of a binary tree. A process computes consecutive groups, and adds up the gradients of
//! subtrees as soon as both halves are there; what lies to the left meanwhile is held in slots.

use lessen_comm::{Accumulator, Tree};
use lessen_graph::MOST_UNDER_WAY;
use std::ops::Range;

/// Bytes of gradients that processes exchange together.
pub(crate) const CHUNK: usize = 1 << 20;

/// The most chunks under way between processes that are added up, and that are gathered.
pub(crate) const UNDER_WAY: usize = 2;

/// The chunks that an operation of several processes sends as it begins: 8 MiB, so that the messages of a layer's
/// parameter are under way while others are computed.
pub(crate) const AHEAD: usize = MOST_UNDER_WAY / 2 / CHUNK;

/// What happens to the sums of gradients after a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// They go to a slot.
    Hold(usize),
    /// Those of a slot are added to them.
    Add(usize),
}

/// The sums of a process's own groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dealing {
    /// What happens after each group, in the order of the groups.
    pub moves: Vec<Vec<Move>>,
    /// The groups in each sum at the end: those of the slots, and last those of the sums of gradients.
    pub sums: Vec<Range<usize>>,
    /// How many slots there are.
    pub slots: usize,
    /// The groups of all processes.
    pub ranks: usize,
}

impl Dealing {
    /// The sums of the groups `own` among `ranks` groups.
    pub fn of(ranks: usize, own: Range<usize>) -> Dealing {
        let mut sums = Accumulator::new(Tree::new(ranks));
        let (mut moves, mut slots, mut held) = (Vec::with_capacity(own.len()), 0, 0);
        for group in own.clone() {
            let mut after = Vec::new();
            sums.push(group..group + 1, (), |(), ()| {
                held -= 1;
                after.push(Move::Add(held));
            });
            if group + 1 < own.end {
                after.push(Move::Hold(held));
                held += 1;
            }
            slots = slots.max(held);
            moves.push(after);
        }
        let sums = sums.into_sums().into_iter().map(|(groups, ())| groups).collect();
        Dealing {
            moves,
            sums,
            slots,
            ranks,
        }
    }

    /// The most bytes that the exchange of `gradients` bytes with other processes allocates: of two operations, or of
    /// smaller ones of as many bytes.
    /// A chunk that is added up takes the process's own sums, the sums that arrive, and the result. A chunk that is
    /// gathered takes the result, its messages, and a copy.
    pub fn exchange_bytes(&self, gradients: usize) -> usize {
        gradients.min(MOST_UNDER_WAY) * (2 * self.sums.len() + 5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_eight_groups_takes_three_slots() {
        use Move::{Add, Hold};
        let all = Dealing::of(8, 0..8);
        let moves = [
            vec![Hold(0)],
            vec![Add(0), Hold(0)],
            vec![Hold(1)],
            vec![Add(1), Add(0), Hold(0)],
            vec![Hold(1)],
            vec![Add(1), Hold(1)],
            vec![Hold(2)],
            vec![Add(2), Add(1), Add(0)],
        ];
        assert_eq!(all.moves, moves);
        assert_eq!((all.sums.as_slice(), all.slots), (std::slice::from_ref(&(0..8)), 3));
    }

    #[test]
    fn sums_of_a_part_of_the_groups_are_whole_subtrees() {
        let part = Dealing::of(8, 3..6);
        assert_eq!((part.sums, part.slots), (vec![3..4, 4..6], 2));
        let alone = Dealing::of(1, 0..1);
        assert_eq!((alone.moves, alone.sums.len(), alone.slots), (vec![vec![]], 1, 0));
        for ranks in 1..20 {
            for (start, end) in (0..ranks).flat_map(|start| (start + 1..=ranks).map(move |end| (start, end))) {
                let Dealing { sums, slots, .. } = Dealing::of(ranks, start..end);
                let covered: Vec<usize> = sums.iter().cloned().flatten().collect();
                assert_eq!(covered, (start..end).collect::<Vec<_>>());
                assert!(slots <= 2 * (usize::BITS - ranks.leading_zeros()) as usize);
            }
        }
    }
}
