//! The tree that fixes the order of additions: its shape depends on the number of leaves alone, so that any number of
//! processes gets the same bits.

use std::ops::Range;

/// The part of `0..count` that the process `index` of `processes` takes: contiguous, in the order of the processes, and
/// as equal as can be. Part of no elements where there are more processes than elements.
pub fn part(count: usize, processes: usize, index: usize) -> Range<usize> {
    let processes = processes.max(1) as u128;
    let border = |index: usize| (count as u128 * (index as u128).min(processes) / processes) as usize;
    border(index)..border(index.saturating_add(1))
}

/// The bytes that a process sends for the sum of `bytes` bytes over `leaves` leaves: the parts of the sums of its
/// subtrees that others own, and its own part of the sum to each of them.
///
/// ```
/// use lessen_base::tree::bytes_for_sum;
/// // As a ring of four processes, 2 · 3 / 4 of the bytes.
/// assert_eq!(bytes_for_sum(8, 4, 0, 1000), 1500);
/// assert_eq!(bytes_for_sum(8, 1, 0, 1000), 0);
/// ```
pub fn bytes_for_sum(leaves: usize, processes: usize, index: usize, bytes: usize) -> usize {
    let own = part(bytes, processes, index).len();
    let subtrees = Tree::new(leaves).subtrees(part(leaves, processes, index)).len();
    subtrees * (bytes - own) + own * processes.saturating_sub(1)
}

/// The borders of what each process owns, `processes + 1` offsets, of the borders of pieces: pieces are dealt out as
/// [`part`] says, and none is cut.
///
/// ```
/// assert_eq!(lessen_base::tree::deal(&[0, 10, 20, 30, 36], 2), [0, 20, 36]);
/// ```
pub fn deal(borders: &[usize], processes: usize) -> Vec<usize> {
    let pieces = borders.len().saturating_sub(1);
    let border = |process| borders.get(part(pieces, processes, process).start).copied();
    (0..=processes).map(|process| border(process).unwrap_or(0)).collect()
}

/// A binary tree over leaves `0..count`: a node of several leaves splits at the largest power of two below their
/// number. Nodes are named by the leaves under them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    leaves: usize,
}

impl Tree {
    /// The tree of so many leaves.
    pub fn new(leaves: usize) -> Tree {
        Tree { leaves }
    }

    fn root(&self) -> Range<usize> {
        0..self.leaves
    }

    /// The first leaf of the right child of a node of at least two leaves.
    fn split(node: &Range<usize>) -> usize {
        node.start + (1 << (node.len() - 1).ilog2())
    }

    /// The leaves under the parent of a node; none for the root and for what is no node.
    fn parent(&self, node: &Range<usize>) -> Option<Range<usize>> {
        let mut above = self.root();
        while above.len() > node.len() {
            let split = Tree::split(&above);
            let child = if node.start < split {
                above.start..split
            } else {
                split..above.end
            };
            if child == *node {
                return Some(above);
            }
            above = child;
        }
        None
    }

    /// The largest nodes whose leaves all lie in a part of the leaves, from left to right: a process adds up each of
    /// them.
    ///
    /// ```
    /// assert_eq!(lessen_base::tree::Tree::new(8).subtrees(2..7), [2..4, 4..6, 6..7]);
    /// ```
    pub fn subtrees(&self, part: Range<usize>) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut left = vec![self.root()];
        while let Some(node) = left.pop() {
            if node.start >= part.end || node.end <= part.start || node.is_empty() {
                continue;
            }
            if part.start <= node.start && node.end <= part.end {
                found.push(node);
            } else {
                let split = Tree::split(&node);
                left.extend([split..node.end, node.start..split]);
            }
        }
        found
    }
}

/// Sums of neighbouring nodes of a tree, added up as soon as two of them have one parent. A process pushes the
/// gradients of its leaves in order and keeps the sums of its [`Tree::subtrees`]; an owner pushes those of all
/// processes and keeps the root's. At most one sum for each level of the tree is held.
#[derive(Debug)]
pub struct Accumulator<T> {
    tree: Tree,
    sums: Vec<(Range<usize>, T)>,
}

impl<T> Accumulator<T> {
    /// No sums.
    pub fn new(tree: Tree) -> Accumulator<T> {
        Accumulator { tree, sums: Vec::new() }
    }

    /// Adds the value of a node that stands right of all earlier ones. `add` is given two values of neighbours, of
    /// which the right one is added to the left.
    pub fn push(&mut self, node: Range<usize>, value: T, mut add: impl FnMut(&mut T, T)) {
        let (mut node, mut value) = (node, value);
        while let Some((left, mut sum)) = self.sums.pop() {
            let parent = self.tree.parent(&left);
            if parent.is_none() || parent != self.tree.parent(&node) {
                self.sums.push((left, sum));
                break;
            }
            add(&mut sum, value);
            (node, value) = (left.start..node.end, sum);
        }
        self.sums.push((node, value));
    }

    /// The sums from left to right, each with its node.
    pub fn into_sums(self) -> Vec<(Range<usize>, T)> {
        self.sums
    }
}

impl Tree {
    /// The sum of the values of all leaves in the tree's order; none without leaves. Values beyond the leaves are left
    /// out.
    pub fn sum<T>(&self, values: impl IntoIterator<Item = T>, mut add: impl FnMut(&mut T, T)) -> Option<T> {
        let mut sums = Accumulator::new(*self);
        for (leaf, value) in values.into_iter().take(self.leaves).enumerate() {
            sums.push(leaf..leaf + 1, value, &mut add);
        }
        sums.sums.pop().map(|(_, sum)| sum)
    }
}
