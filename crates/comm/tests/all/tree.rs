use lessen_base::cases;
use lessen_comm::{Accumulator, Addition, Tree, deal, part};

use crate::ranks::{bytes_of, leaf_numbers, sum_by_recursion};

#[test]
fn parts_are_contiguous_equal_and_complete() {
    for count in 0..40 {
        for processes in 1..20 {
            let parts: Vec<_> = (0..processes).map(|index| part(count, processes, index)).collect();
            assert_eq!(parts[0].start, 0);
            assert_eq!(parts[processes - 1].end, count);
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            let lengths = parts.iter().map(|part| part.len());
            assert!(
                lengths.clone().max().unwrap() - lengths.min().unwrap() <= 1,
                "{parts:?}"
            );
        }
    }
}

#[test]
fn pieces_are_dealt_out_whole() {
    assert_eq!(deal(&[0, 3, 5, 9], 1), [0, 9]);
    assert_eq!(deal(&[0, 3, 5, 9], 2), [0, 3, 9]);
    assert_eq!(deal(&[0, 3, 5, 9], 3), [0, 3, 5, 9]);
    assert_eq!(deal(&[0, 3, 5, 9], 4), [0, 0, 3, 5, 9]);
    assert_eq!(deal(&[0], 2), [0, 0, 0]);
}

#[test]
fn subtrees_are_the_largest_nodes_within_a_part() {
    let tree = Tree::new(8);
    assert!(tree.subtrees(0..8).iter().eq([&(0..8)]));
    assert_eq!(tree.subtrees(1..8), [1..2, 2..4, 4..8]);
    assert_eq!(tree.subtrees(3..5), [3..4, 4..5]);
    assert!(tree.subtrees(3..3).is_empty());
    assert_eq!(Tree::new(5).subtrees(1..5), [1..2, 2..4, 4..5]);
    assert!(Tree::new(7).subtrees(4..7).iter().eq([&(4..7)]));
    assert!(Tree::new(0).subtrees(0..0).is_empty());
}

/// What processes keep are the sums of their subtrees, in at most one more place than the tree has levels; the owner's
/// sum of these has the bits of one process.
#[test]
fn sums_have_the_same_bits_for_any_number_of_processes() {
    let addition = Addition::f32();
    let add = |left: &mut Vec<u8>, right: Vec<u8>| addition.add(left, &right);
    for seed in 0..cases(200) {
        let count = seed as usize % 37 + 1;
        let leaves: Vec<_> = (0..count).map(|leaf| leaf_numbers(seed, leaf, 5)).collect();
        let expected = bytes_of(&sum_by_recursion(&leaves));
        let tree = Tree::new(count);
        assert_eq!(
            tree.sum(leaves.iter().map(|leaf| bytes_of(leaf)), add),
            Some(expected.clone()),
            "seed {seed}"
        );
        for processes in 1..=count + 2 {
            let mut total = Accumulator::new(tree);
            for process in 0..processes {
                let own = part(count, processes, process);
                let mut sums = Accumulator::new(tree);
                for leaf in own.clone() {
                    sums.push(leaf..leaf + 1, bytes_of(&leaves[leaf]), add);
                }
                let (nodes, sums): (Vec<_>, Vec<_>) = sums.into_sums().into_iter().unzip();
                assert_eq!(nodes, tree.subtrees(own), "seed {seed}, {processes} processes");
                for (node, sum) in nodes.into_iter().zip(sums) {
                    total.push(node, sum, add);
                }
            }
            let sums: Vec<_> = total.into_sums().into_iter().map(|(_, sum)| sum).collect();
            assert!(sums.iter().eq([&expected]), "seed {seed}, {processes} processes");
        }
    }
}
